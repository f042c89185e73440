package registration

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/kubernetes"

	"nave/pkg/agentstate"
	"nave/pkg/log"
	"nave/pkg/uplink"
)

const (
	// A certificate is renewed when between earliest and latest of its life are left (spec 2.3).
	earliest, latest = 0.25, 0.20

	// retryRenewal is how soon a renewal that did not work is tried again; a fifth of a life is time for many.
	retryRenewal = time.Minute
)

// Ended says why an agent's identity is of no use any more; another one has to be found.
type Ended struct{ Reason string }

// Error implements error.
func (e *Ended) Error() string { return e.Reason }

// Keep keeps an identity fresh over the connection that it gives, until ctx ends. Each new one is in use at once. It
// returns *Ended when the identity is of no use any more.
func (c Config) Keep(ctx context.Context, hub *uplink.Uplink, credentials Credentials) error {
	for {
		leaf, err := credentials.leaf()
		if err != nil {
			return err
		}
		c.State.Update(func(s agentstate.State) agentstate.State {
			s.CertificateFrom, s.CertificateUntil = leaf.NotBefore, leaf.NotAfter
			return s
		})
		if err := c.sleepUntil(ctx, renewalTime(leaf, rand.Float64())); err != nil {
			return nil
		}
		next, err := c.renew(ctx, hub, credentials, leaf.NotAfter)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return &Ended{fmt.Sprintf("the certificate expired at %s: %v", leaf.NotAfter.UTC().Format(time.RFC3339), err)}
		}
		if err := hub.Replace(next.Target()); err != nil {
			return err
		}
		credentials = next
		c.Log.WithField(log.FieldCluster, c.Cluster).Info("certificate is renewed")
	}
}

// renew asks until it is answered, or the certificate ends. All tries are one request with one key.
func (c Config) renew(ctx context.Context, hub *uplink.Uplink, current Credentials, end time.Time) (Credentials, error) {
	key, text, err := newKey()
	if err != nil {
		return Credentials{}, err
	}
	kube, err := kubernetes.NewForConfig(hub.Client(c.UserAgent))
	if err != nil {
		return Credentials{}, fmt.Errorf("client of hub %s: %w", current.Server, err)
	}
	next := current
	next.Key = text
	for {
		next.Certificate, err = c.request(ctx, kube, current.Agent, key)
		if err == nil {
			err = next.usable(c.Clock.Now())
		}
		if err == nil {
			err = c.Store.save(ctx, next)
		}
		if err == nil || ctx.Err() != nil || c.Clock.Now().After(end) {
			return next, err
		}
		c.Log.WithField(log.FieldCluster, c.Cluster).WithError(err).Warn("certificate is not renewed yet")
		if err := wait(ctx, retryRenewal); err != nil {
			return Credentials{}, err
		}
	}
}

// renewalTime is when a certificate is renewed; luck in [0, 1) spreads a thousand agents that joined together.
func renewalTime(leaf *x509.Certificate, luck float64) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	left := latest + (earliest-latest)*luck
	return leaf.NotAfter.Add(-time.Duration(float64(life) * left))
}

func (c Config) sleepUntil(ctx context.Context, t time.Time) error {
	d := t.Sub(c.Clock.Now())
	if d <= 0 {
		return ctx.Err()
	}
	timer := c.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the CA of the hub is missing")
	}
	return x509.ParseCertificate(block.Bytes)
}
