package matrix

import (
	"crypto/tls"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTLS shakes hands as old clients would.
func TestTLS(t *testing.T) {
	r, _ := start(t)
	hub, err := url.Parse(r.admin.Host)
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		config *tls.Config
		ok     bool
	}{
		{"TLS 1.3", &tls.Config{MinVersion: tls.VersionTLS13}, true},
		{"TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{"TLS 1.1", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		{"only suites without authenticated encryption", &tls.Config{MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.InsecureSkipVerify = true
			conn, err := tls.Dial("tcp", hub.Host, test.config)
			require.Equal(t, test.ok, err == nil, "%v", err)
			if err == nil {
				require.NoError(t, conn.Close())
			}
		})
	}
}
