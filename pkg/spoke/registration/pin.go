package registration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"nave/pkg/token"
)

const (
	// dialTimeout is how long one try to reach the hub may take.
	dialTimeout = 5 * time.Second
	// maxChain bounds the certificates that are looked at; a hub sends two.
	maxChain = 8
	// hubPort is where a hub listens unless told otherwise.
	hubPort = "7443"
)

// pinnedCA connects to the hub and returns its CA as PEM, if it is the one that the token pins and the hub's certificate
// is signed by it and holds for its address. Nothing but the handshake is sent (D6).
func pinnedCA(ctx context.Context, server string, t token.Token) ([]byte, error) {
	if err := checkServer(server); err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var chain []*x509.Certificate
	dialer := &tls.Dialer{Config: &tls.Config{
		ServerName:         u.Hostname(),
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // checked below, against the pin instead of this host's roots
		VerifyConnection: func(s tls.ConnectionState) error {
			chain = s.PeerCertificates
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach hub at %s: %w", address, err)
	}
	_ = conn.Close()
	return checkPin(chain, u.Hostname(), t)
}

func checkServer(server string) error {
	if rest, ok := strings.CutPrefix(server, "https://"); ok && strings.Count(rest, ":") > 1 && !strings.HasPrefix(rest, "[") && !strings.ContainsAny(rest, "/@") {
		return fmt.Errorf("hub address %q has an IPv6 address without brackets; write --server https://[ADDRESS]:%s", server, hubPort)
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("hub address %q is no https URL; write --server https://HOST:%s", server, hubPort)
	}
	if strings.Contains(u.Hostname(), "%") {
		return fmt.Errorf("hub address %q has an IPv6 zone, which means something on one machine only; use a global address or a name", server)
	}
	return nil
}

// checkPin is the decision: a CA in the chain has the pinned key, and the leaf is its for this host, or that of a CA that it
// signed: while a hub replaces its CA, tokens pin the old one or the new one.
func checkPin(chain []*x509.Certificate, host string, t token.Token) ([]byte, error) {
	if len(chain) == 0 || len(chain) > maxChain {
		return nil, refusal(exitOtherHub, "the server at %s sent %d certificates instead of its own and its CA's; is it a hub of nave?", host, len(chain))
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	for _, ca := range chain {
		if !ca.IsCA || token.CAHash(ca) != t.CAHash {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			return nil, refusal(exitOtherHub, "the certificate of the server at %s is not one of the hub that made this token: %w; if the address is right, start the hub with it in --advertise", host, err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), nil
	}
	return nil, refusal(exitOtherHub, "the server at %s is not the hub that made this token (another hub's CA); check --server, or create a token on that hub", host)
}
