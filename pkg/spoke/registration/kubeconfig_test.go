package registration

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nave/pkg/pki"
)

// kubeconfigOf is a bootstrap kubeconfig as clusteradm writes it, with other lines for cluster and user.
func kubeconfigOf(cluster, user string) string {
	return `
apiVersion: v1
kind: Config
clusters:
- name: hub
  cluster: {` + cluster + `}
users:
- name: bootstrap
  user: {` + user + `}
contexts:
- name: bootstrap
  context: {cluster: hub, user: bootstrap, namespace: default}
current-context: bootstrap
`
}

func TestParseKubeconfig(t *testing.T) {
	ca := authority(t)
	text := pki.CertificatePEM(ca.Certificate)
	data := "certificate-authority-data: " + base64.StdEncoding.EncodeToString(text)
	good := "server: 'https://hub:7443', " + data
	for _, test := range []struct{ name, text, want string }{
		{"token", kubeconfigOf(good, "token: secret"), ""},
		{"public certificate", kubeconfigOf("server: 'https://hub'", "token: secret"), ""},
		{"IPv6", kubeconfigOf("server: 'https://[2001:db8::1]:7443', "+data, "token: secret"), ""},
		{"certificate", kubeconfigOf(good, "client-certificate-data: YQ==, client-key-data: YQ=="), ""},
		{"proxy", kubeconfigOf(good+", proxy-url: 'socks5://[::1]:1080'", "token: secret"), ""},

		{"empty", "", "current context"},
		{"no YAML", "\t{", "yaml"},
		{"something else", "[1, 2]", "cannot unmarshal"},
		{"too large", strings.Repeat(" ", maxKubeconfig+1), "larger than"},
		{"no such context", strings.Replace(kubeconfigOf(good, "token: x"), "current-context: bootstrap", "current-context: other", 1), `"other" is not there`},
		{"no such cluster", strings.Replace(kubeconfigOf(good, "token: x"), "cluster: hub,", "cluster: other,", 1), `cluster "other"`},
		{"no such user", strings.Replace(kubeconfigOf(good, "token: x"), "user: bootstrap,", "user: other,", 1), `user "other"`},
		{"without TLS", kubeconfigOf("server: 'http://hub'", "token: x"), "no https URL"},
		{"IPv6 without brackets", kubeconfigOf("server: 'https://2001:db8::1'", "token: x"), "has an IPv6 address without brackets"},
		{"IPv6 with a zone", kubeconfigOf("server: 'https://[fe80::1%25eth0]:7443'", "token: x"), "zone"},
		{"trusts anybody", kubeconfigOf("server: 'https://hub', insecure-skip-tls-verify: true", "token: x"), "insecure-skip-tls-verify"},
		{"CA in a file", kubeconfigOf("server: 'https://hub', certificate-authority: /etc/passwd", "token: x"), "certificate-authority names a file"},
		{"broken CA", kubeconfigOf("server: 'https://hub', certificate-authority-data: aGVsbG8=", "token: x"), "no certificate"},
		{"strange proxy", kubeconfigOf(good+", proxy-url: 'file:///etc/passwd'", "token: x"), "proxy-url"},
		{"program", kubeconfigOf(good, "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"), "exec"},
		{"plugin", kubeconfigOf(good, "auth-provider: {name: x}"), "auth-provider"},
		{"token in a file", kubeconfigOf(good, "tokenFile: /etc/shadow"), "tokenFile names a file"},
		{"key in a file", kubeconfigOf(good, "client-certificate-data: YQ==, client-key: /etc/shadow"), "client-key names a file"},
		{"password", kubeconfigOf(good, "username: a, password: b"), "password"},
		{"somebody else", kubeconfigOf(good, "token: x, as: root"), "impersonation"},
		{"nobody", kubeconfigOf(good, ""), "neither a token nor"},
		{"half a certificate", kubeconfigOf(good, "client-certificate-data: YQ=="), "only one of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			way, err := ParseKubeconfig([]byte(test.text))
			if test.want == "" {
				require.NoError(t, err)
				require.Equal(t, "hub", way.Entry)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.Equal(t, Bootstrap{}, way)
		})
	}
}

func TestParseBundle(t *testing.T) {
	one, two := pki.CertificatePEM(authority(t).Certificate), pki.CertificatePEM(authority(t).Certificate)
	both := append(append([]byte("# root\n"), one...), append([]byte("\nsubject: CN = intermediate\n"), two...)...)
	for _, test := range []struct {
		name string
		text []byte
		want int
		err  string
	}{
		{"none: the system's count", nil, 0, ""},
		{"one", one, 1, ""},
		{"several with comments", both, 2, ""},
		{"CRLF", bytes.ReplaceAll(both, []byte("\n"), []byte("\r\n")), 2, ""},
		{"the same twice", append(append([]byte{}, one...), one...), 2, ""},
		{"text", []byte("hello"), 0, "no certificate"},
		{"cut off", both[:len(both)-40], 0, "cut off or damaged"},
		{"damaged", bytes.Replace(both, two[40:60], []byte("!!!!!!!!!!!!!!!!!!!!"), 1), 0, "cut off or damaged"},
		{"a key among them", append(append([]byte{}, one...), "-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n"...), 0, "PRIVATE KEY"},
		{"no certificate in a block", []byte("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"), 0, "certificate 1"},
		{"very many", bytes.Repeat(one, maxCertificates+1), 0, "more than 64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseBundle(test.text)
			if test.err == "" {
				require.NoError(t, err)
				require.Len(t, got, test.want)
				return
			}
			require.ErrorContains(t, err, test.err)
		})
	}
}

// FuzzParseKubeconfig: what is taken can be connected with, and never makes the agent read a file or run anything.
func FuzzParseKubeconfig(f *testing.F) {
	good := kubeconfigOf("server: 'https://hub'", "token: x")
	for _, seed := range []string{
		good, "", "[]", "{", strings.ReplaceAll(good, "\n", "\r\n"), good + good, good + "\n---\n" + good,
		kubeconfigOf("server: 'https://[::1]:1', proxy-url: 'socks5://p:1'", "client-certificate-data: YQ==, client-key-data: YQ=="),
		kubeconfigOf("server: 'https://hub', certificate-authority: /etc/passwd", "tokenFile: /etc/shadow"),
		kubeconfigOf("server: 'https://hub', extensions: [{name: a, extension: {}}]", "exec: {command: sh}"),
		"contexts: [{name: a}, {name: a}]\ncurrent-context: a", "clusters: null\ncurrent-context: null",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := ParseKubeconfig(text)
		if err != nil {
			require.Equal(t, Bootstrap{}, b)
			return
		}
		require.NoError(t, checkServer(b.Server))
		config := b.rest("test")
		require.Equal(t, b.Server, config.Host)
		require.False(t, config.Insecure)
		require.Empty(t, config.CAFile+config.CertFile+config.KeyFile+config.BearerTokenFile)
		require.Nil(t, config.ExecProvider)
		require.True(t, b.Bearer != "" || len(b.Certificate) > 0)
	})
}

// FuzzParseBundle: what is taken is taken whole.
func FuzzParseBundle(f *testing.F) {
	one := pki.CertificatePEM(authority(f).Certificate)
	for _, seed := range [][]byte{
		nil, one, append([]byte("# root\n"), one...), bytes.ReplaceAll(one, []byte("\n"), []byte("\r\n")), append(bytes.Clone(one), one...),
		one[:len(one)-40], append(bytes.Clone(one), "-----BEGIN CERTIFICATE-----\n"...), []byte("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"),
		bytes.Replace(one, []byte("-----BEGIN CERTIFICATE-----\n"), []byte("-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\n"), 1),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseBundle(text)
		if err != nil {
			require.Empty(t, all)
			return
		}
		require.Len(t, all, bytes.Count(text, []byte("-----BEGIN ")))
		if len(all) > 0 {
			again, err := parseBundle(pki.CertificatePEM(all...))
			require.NoError(t, err)
			require.Equal(t, len(all), len(again))
			pool := x509.NewCertPool()
			require.True(t, pool.AppendCertsFromPEM(text), "whoever connects reads the same")
		}
	})
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	made := tokenOf(t, authority(t)).Token.String()
	kubeconfig := kubeconfigOf("server: 'https://hub:1'", "token: x")
	tokenFile, first := file("token", made+"\n"), file("first", kubeconfig)
	second, broken := file("second", kubeconfigOf("server: 'https://hub:2'", "token: other")), file("broken", "{")
	secret := &corev1.Secret{Data: map[string][]byte{keyKubeconfig: []byte(kubeconfigOf("server: 'https://hub:3'", "token: third"))}}
	for _, test := range []struct {
		name    string
		sources Sources
		want    []string // servers of the ways
		fault   string
	}{
		{"token", Sources{Server: "https://hub:4", Token: made}, []string{"https://hub:4"}, ""},
		{"token in a file", Sources{Server: "https://hub:4", TokenFile: tokenFile, Kubeconfigs: []string{first}}, []string{"https://hub:4"}, ""},
		{"kubeconfig", Sources{Kubeconfigs: []string{first}}, []string{"https://hub:1"}, ""},
		{"several hubs", Sources{Kubeconfigs: []string{second, first}}, []string{"https://hub:2", "https://hub:1"}, ""},
		{"secret on the cluster", Sources{}, []string{"https://hub:3"}, ""},
		{"malformed token", Sources{Server: "https://hub:4", Token: "x"}, nil, "malformed"},
		{"token without a hub", Sources{Token: made}, nil, "no https URL"},
		{"no token file", Sources{Server: "https://hub:4", TokenFile: dir + "/absent"}, nil, "absent: no such file"},
		{"a folder for a token file", Sources{Server: "https://hub:4", TokenFile: dir}, nil, "directory"},
		{"one of several is broken", Sources{Kubeconfigs: []string{broken, first}}, []string{"https://hub:1"}, broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			wish := test.sources.Read(secret)
			var servers []string
			for _, way := range wish.Ways {
				servers = append(servers, way.Server)
				require.NotEmpty(t, way.Source)
			}
			require.Equal(t, test.want, servers)
			if test.fault == "" {
				require.NoError(t, wish.Fault)
				return
			}
			require.ErrorContains(t, wish.Fault, test.fault)
		})
	}
	require.Empty(t, Sources{}.Read(nil).Ways)
}
