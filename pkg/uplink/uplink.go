// Package uplink is an agent's connection to its hub. All clients of the agent share it, and what it shows to the hub can be
// replaced while they use it: a renewed certificate is in use at once, rather than when a file is read again.
package uplink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	// dialTimeout bounds one try to connect, handshakeTimeout the TLS handshake after it.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// keepAlive is how often the kernel asks whether a silent peer is there. HTTP/2 asks as well.
	keepAlive = 30 * time.Second
)

// Target is whom to connect to, and with what.
type Target struct {
	Server           string   // https URL
	ServerName       string   // that the hub's certificate is for, if it is not the host of the URL
	CA               []byte   // PEM bundle of who may sign for the hub; the system's if empty
	Proxy            *url.URL // what the environment says if nil
	Certificate, Key []byte   // PEM
}

// Uplink is an http.RoundTripper to one hub. Make one with New.
type Uplink struct {
	server  string
	current atomic.Pointer[line]
}

// line is the connections that were made with one target.
type line struct {
	transport *http.Transport
	dialer    *connrotation.Dialer
}

// New makes an uplink. It connects when it is first used.
func New(t Target) (*Uplink, error) {
	l, err := newLine(t)
	if err != nil {
		return nil, err
	}
	u := &Uplink{server: t.Server}
	u.current.Store(l)
	return u, nil
}

// Client is the configuration of clients that use the uplink.
func (u *Uplink) Client(userAgent string) *rest.Config {
	return &rest.Config{
		Host:      u.server,
		UserAgent: userAgent,
		Transport: u,
		QPS:       -1, // the hub's priority and fairness is the limit, and each loop bounds what it does at a time
	}
}

// Replace goes on with another target at the same address. Connections to the old one are closed, so that nothing waits
// on one whose certificate is about to end; clients repeat what that cut off, as they do after any lost connection.
func (u *Uplink) Replace(t Target) error {
	if t.Server != u.server {
		return fmt.Errorf("uplink to %s cannot go to %s", u.server, t.Server)
	}
	l, err := newLine(t)
	if err != nil {
		return err
	}
	u.current.Swap(l).close()
	return nil
}

// Close ends what is under way.
func (u *Uplink) Close() { u.current.Load().close() }

// RoundTrip implements http.RoundTripper.
func (u *Uplink) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.current.Load().transport.RoundTrip(r)
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
