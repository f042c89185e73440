package registration

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"nave/pkg/agentstate"
	"nave/pkg/log"
	"nave/pkg/token"
	"nave/pkg/uplink"
)

const (
	// authoritiesPath is where a hub of ours publishes the CAs that sign its certificate.
	authoritiesPath = "/cacerts"
	// lookAtAuthorities is how often it is looked there, besides at the start and after each renewal.
	lookAtAuthorities = time.Hour
	// maxAuthorities bounds what is read of the answer, in bytes.
	maxAuthorities = 256 << 10
)

// errNotPublished is the answer of a hub that publishes no CAs; upstream's do not.
var errNotPublished = errors.New("the hub publishes no CAs")

// Learn keeps the CAs by which the hub is known up to date, over the connection that the known ones secure: so a hub can
// replace its CA without anybody going to its clusters. It returns *Ended when they have changed, since everything that
// reaches the hub has to know, or nil when ctx ends.
func (c Config) Learn(ctx context.Context, hub *uplink.Uplink, current Credentials) error {
	told := false
	for {
		state, changed := c.State.Watch()
		certificate := state.CertificateUntil
		learned, err := published(ctx, hub, current)
		switch {
		case err == nil && !(sameBundle(learned, current.CA) && signer(learned) == signer(current.CA)):
			return c.trust(ctx, learned)
		case err != nil && !errors.Is(err, errNotPublished) && ctx.Err() == nil && !told:
			told = true
			c.Log.WithField(log.FieldAddress, current.Server).WithError(err).Warn("the hub's CAs cannot be learned")
		}
		if err := c.untilRenewed(ctx, certificate, changed); err != nil {
			return nil
		}
	}
}

// trust keeps the CAs with the identity that is kept now, which may have been renewed.
func (c Config) trust(ctx context.Context, learned []byte) error {
	kept, err := c.Store.load(ctx)
	if err != nil {
		return err
	}
	if kept.Signer == "" {
		kept.Signer = signer(kept.CA)
	}
	kept.CA = learned
	if err := c.Store.save(ctx, kept); err != nil {
		return err
	}
	return &Ended{"the hub has other certificate authorities than before, which are known now"}
}

// untilRenewed waits for another certificate, or for the time to look anyway.
func (c Config) untilRenewed(ctx context.Context, before time.Time, changed <-chan struct{}) error {
	due := c.Clock.Now().Add(lookAtAuthorities)
	for c.Clock.Now().Before(due) {
		if err := c.wait(ctx, due.Sub(c.Clock.Now()), changed); err != nil {
			return err
		}
		var state agentstate.State
		if state, changed = c.State.Watch(); !state.CertificateUntil.Equal(before) {
			return nil
		}
	}
	return nil
}

// published are the CAs that the hub publishes. They count only if the hub itself is known by them.
func published(ctx context.Context, hub *uplink.Uplink, current Credentials) ([]byte, error) {
	if len(current.CA) == 0 {
		return nil, errNotPublished // a public certificate
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, current.Server+authoritiesPath, nil)
	if err != nil {
		return nil, err
	}
	response, err := hub.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errNotPublished
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAuthorities+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAuthorities {
		return nil, fmt.Errorf("its CAs take more than %d bytes", maxAuthorities)
	}
	return text, vouched(text, response, current)
}

func vouched(bundle []byte, response *http.Response, current Credentials) error {
	all, err := parseBundle(bundle)
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("it publishes no CAs"))
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, ca := range all {
		roots.AddCert(ca)
	}
	if response.TLS == nil || len(response.TLS.PeerCertificates) == 0 {
		return errors.New("it showed no certificate")
	}
	for _, c := range response.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	name := current.ServerName
	if name == "" {
		u, err := url.Parse(current.Server)
		if err != nil {
			return err
		}
		name = u.Hostname()
	}
	if _, err := response.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name}); err != nil {
		return fmt.Errorf("the CAs that it publishes do not sign for it: %w", err)
	}
	return nil
}

// signer names the CA that signs for the hub now: the first one that it publishes.
func signer(bundle []byte) string {
	all, err := parseBundle(bundle)
	if err != nil || len(all) == 0 {
		return ""
	}
	return token.KeyHash(all[0].RawSubjectPublicKeyInfo)
}

// predates tells whether the hub has replaced its CAs since the certificate was issued. It will forget the old ones once
// every agent has a certificate of the new ones.
func (c Credentials) predates() bool { return c.Signer != "" && c.Signer != signer(c.CA) }

// sameBundle tells whether two bundles hold the same certificates, in whatever order.
func sameBundle(a, b []byte) bool {
	x, errX := parseBundle(a)
	y, errY := parseBundle(b)
	if errX != nil || errY != nil {
		return bytes.Equal(a, b)
	}
	return holds(x, y) && holds(y, x)
}

func holds(all, some []*x509.Certificate) bool {
	known := map[string]bool{}
	for _, c := range all {
		known[string(c.Raw)] = true
	}
	for _, c := range some {
		if !known[string(c.Raw)] {
			return false
		}
	}
	return true
}
