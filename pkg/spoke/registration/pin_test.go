package registration

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nave/pkg/pki"
	"nave/pkg/token"
)

// TestPinWhileTheCAIsReplaced joins with tokens that pin the CA before and the one after.
func TestPinWhileTheCAIsReplaced(t *testing.T) {
	now := time.Now()
	line := pki.Line{File: filepath.Join(t.TempDir(), "ca.pem"), CommonName: "test-ca"}
	stranger, err := pki.LoadAuthority(filepath.Join(t.TempDir(), "ca.pem"), "stranger", now)
	require.NoError(t, err)
	before, err := line.Load(now)
	require.NoError(t, err)
	require.NoError(t, line.Prepare(now))
	prepared, err := line.Load(now)
	require.NoError(t, err)
	old, fresh := before.Current.Certificate, prepared.Next.Certificate
	for _, test := range []struct {
		name string
		step func(time.Time) error
		pin  *x509.Certificate
		ok   bool
	}{
		{"prepared, the old one", nil, old, true},
		{"prepared, the new one", nil, fresh, false},
		{"activated, the old one", line.Activate, old, true},
		{"activated, the new one", nil, fresh, true},
		{"activated, another hub's", nil, stranger.Certificate, false},
		{"finished, the old one", line.Finish, old, false},
		{"finished, the new one", nil, fresh, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.step != nil {
				require.NoError(t, test.step(now))
			}
			s, err := line.Load(now)
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "server.pem")
			_, err = s.LoadLeaf(file, pki.Leaf{CommonName: "hub", Hosts: []string{"hub.example"}}, now)
			require.NoError(t, err)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			chain, err := pki.ParseCertificates(text)
			require.NoError(t, err)

			ca, err := checkPin(chain, "hub.example", token.Token{CAHash: token.CAHash(test.pin)})
			require.Equal(t, test.ok, err == nil, "%v", err)
			if !test.ok {
				return
			}
			// What was learned is enough to check the server by.
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			require.True(t, roots.AppendCertsFromPEM(ca))
			for _, c := range chain[1:] {
				between.AddCert(c)
			}
			_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "hub.example"})
			require.NoError(t, err)
		})
	}
}

func TestCheckServer(t *testing.T) {
	for server, want := range map[string]string{
		"https://hub.example":           "",
		"https://192.0.2.1:7443":        "",
		"https://[2001:db8::10]":        "",
		"https://[2001:db8::10]:6443":   "",
		"https://2001:db8::10:6443":     "has an IPv6 address without brackets; write --server https://[ADDRESS]:7443",
		"https://2001:db8::10":          "without brackets",
		"https://[fe80::1%25eth0]:6443": "has an IPv6 zone",
		"http://hub.example":            "is no https URL",
		"hub.example:7443":              "is no https URL",
		"https://":                      "is no https URL",
	} {
		err := checkServer(server)
		if want == "" {
			require.NoError(t, err, server)
			continue
		}
		require.ErrorContains(t, err, want, server)
	}
}
