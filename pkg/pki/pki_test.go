package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestAuthorityIsMadeOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pki", "ca.pem")
	first, err := LoadAuthority(file, "test-ca", now)
	require.NoError(t, err)
	require.True(t, first.Certificate.IsCA)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	second, err := LoadAuthority(file, "test-ca", now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, first.Certificate.Raw, second.Certificate.Raw)
}

func TestBrokenAuthorityIsNeverReplaced(t *testing.T) {
	ca, err := newAuthority("one", now)
	require.NoError(t, err)
	other, err := newAuthority("two", now)
	require.NoError(t, err)
	mixed, err := encodePair(ca.Certificate, other.Key)
	require.NoError(t, err)
	whole, err := encodePair(ca.Certificate, ca.Key)
	require.NoError(t, err)
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "no certificate or no private key"},
		{"cut off", whole[:len(whole)/3], "no certificate or no private key"},
		{"only a certificate", CertificatePEM(ca.Certificate), "no certificate or no private key"},
		{"key of another", mixed, "does not belong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ca.pem")
			require.NoError(t, os.WriteFile(file, test.content, 0o600))
			_, err := LoadAuthority(file, "one", now)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, file)
			left, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(test.content), string(left))
		})
	}
}

func TestLeafIsKeptWhileItIsGood(t *testing.T) {
	dir := t.TempDir()
	ca, err := newAuthority("test-ca", now)
	require.NoError(t, err)
	foreign, err := newAuthority("test-ca", now)
	require.NoError(t, err)
	leaf := Leaf{CommonName: "hub", Hosts: []string{"127.0.0.1", "hub.example"}}
	for _, test := range []struct {
		name string
		ca   *Authority
		leaf Leaf
		at   time.Time
		kept bool
	}{
		{"soon after", ca, leaf, now.Add(time.Hour), true},
		{"hosts in another order", ca, Leaf{CommonName: "hub", Hosts: []string{"hub.example", "127.0.0.1"}}, now, true},
		{"a host more", ca, Leaf{CommonName: "hub", Hosts: []string{"127.0.0.1", "hub.example", "10.0.0.1"}}, now, false},
		{"another name", ca, Leaf{CommonName: "hub2", Hosts: leaf.Hosts}, now, false},
		{"another CA of the same name", foreign, leaf, now, false},
		{"a third of its life left", ca, leaf, now.Add(leafLife * 3 / 4), false},
		{"long expired, as after a year off", ca, leaf, now.Add(2 * leafLife), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(dir, test.name+".pem")
			first, err := ca.LoadLeaf(file, leaf, now)
			require.NoError(t, err)
			second, err := test.ca.LoadLeaf(file, test.leaf, test.at)
			require.NoError(t, err)
			require.Equal(t, test.kept, first.Certificate.Equal(second.Certificate))
			require.True(t, second.Certificate.NotAfter.After(test.at))
		})
	}
}

func TestServerSendsItsAuthority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.pem")
	ca, err := newAuthority("test-ca", now)
	require.NoError(t, err)
	_, err = ca.LoadLeaf(file, Leaf{CommonName: "hub", Hosts: []string{"localhost"}}, now)
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(file, file)
	require.NoError(t, err)
	require.Len(t, pair.Certificate, 2)
	require.Equal(t, ca.Certificate.Raw, pair.Certificate[1])

	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	served, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	_, err = served.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: now})
	require.NoError(t, err)
	_, err = served.Verify(x509.VerifyOptions{Roots: roots, DNSName: "elsewhere", CurrentTime: now})
	require.Error(t, err)
	_, err = served.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.Error(t, err, "a server's certificate is no client's")
}
