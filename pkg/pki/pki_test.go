package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
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

func TestParseCertificates(t *testing.T) {
	one, err := newAuthority("one", now)
	require.NoError(t, err)
	two, err := newAuthority("two", now)
	require.NoError(t, err)
	first, second := string(CertificatePEM(one.Certificate)), string(CertificatePEM(two.Certificate))
	pair, err := encodePair(one.Certificate, one.Key)
	require.NoError(t, err)
	for _, test := range []struct {
		name, text string
		want       int
		err        string
	}{
		{"one", first, 1, ""},
		{"two with comments", "# root\n" + first + "subject=/CN=two\n" + second, 2, ""},
		{"line ends of another system", strings.ReplaceAll(first+second, "\n", "\r\n"), 2, ""},
		{"with a key", string(pair), 1, ""},
		{"none", "# nothing", 0, ""},
		{"second one is cut off", first + second[:len(second)/2], 0, "1 of 2 blocks cannot be read"},
		{"second one is garbled", first + strings.Replace(second, "MII", "!!!", 1), 0, "1 of 2 blocks cannot be read"},
		{"something else", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", 0, "CERTIFICATE REQUEST"},
		{"not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0, "block 1 is no certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, err := ParseCertificates([]byte(test.text))
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, all, test.want)
		})
	}
}
