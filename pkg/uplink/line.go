package uplink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/util/connrotation"
)

const (
	// dialTimeout bounds one try to connect, handshakeTimeout the TLS handshake after it.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// keepAlive is how often the kernel asks whether a silent peer is there. HTTP/2 asks as well.
	keepAlive = 30 * time.Second
)

// line is the connections that were made with one target.
type line struct {
	transport *http.Transport
	dialer    *connrotation.Dialer
}

func newLine(t Target) (*line, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if len(t.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, errors.New("the hub's CA holds no certificate")
		}
	}
	if len(t.Certificate) > 0 {
		pair, err := tls.X509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate and key: %w", err)
		}
		// Shown whatever CAs the hub names: it may be about to trust another one.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	proxy := http.ProxyFromEnvironment
	if t.Proxy != nil {
		proxy = http.ProxyURL(t.Proxy)
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		Proxy: proxy, TLSClientConfig: config, TLSHandshakeTimeout: handshakeTimeout, DialContext: dialer.DialContext,
	})
	return &line{transport: transport, dialer: dialer}, nil
}

func (l *line) close() {
	l.transport.CloseIdleConnections()
	l.dialer.CloseAll()
}
