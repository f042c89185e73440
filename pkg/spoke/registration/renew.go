package registration

import (
	"context"
	"crypto/x509"
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

	// triesOfRenewal is how often, at least, a renewal that does not work is tried before the certificate ends; the pause
	// between two tries is a minute at most.
	triesOfRenewal = 20
	retryRenewal   = time.Minute

	stampLayout = time.RFC3339
)

// Ended says why an agent's identity is of no use any more; another one has to be found.
type Ended struct{ Reason string }

// Error implements error.
func (e *Ended) Error() string { return e.Reason }

// Renew keeps the certificate fresh over the connection that it gives, until ctx ends. Each new one is in use at once, and
// told with the outcome of each try. It returns *Ended when the certificate has expired all the same.
func (c Config) Renew(ctx context.Context, hub *uplink.Uplink, current Credentials, told func(Rotation)) error {
	fresh := false
	for {
		leaf, err := current.leaf()
		if err != nil {
			return err
		}
		due := renewalTime(leaf, rand.Float64())
		if fresh { // a certificate that is old when it is issued, by its dates, is no reason to ask without end
			due = later(due, c.Clock.Now().Add(leaf.NotAfter.Sub(c.Clock.Now())/2))
		}
		if current.predates() {
			due = c.Clock.Now()
		}
		c.State.Update(func(s agentstate.State) agentstate.State {
			s.CertificateFrom, s.CertificateUntil = leaf.NotBefore, leaf.NotAfter
			return s
		})
		told(Rotation{From: leaf.NotBefore, Until: leaf.NotAfter})
		if err := c.sleepUntil(ctx, due); err != nil {
			return nil
		}
		next, err := c.renew(ctx, hub, current, leaf, told)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return &Ended{fmt.Sprintf("the certificate expired at %s and was not renewed: %v", leaf.NotAfter.UTC().Format(stampLayout), err)}
		}
		if err := hub.Replace(next.Target()); err != nil {
			return err
		}
		current, fresh = next, true
		c.Log.WithField(log.FieldCluster, current.Agent.Cluster).Info("certificate is renewed")
	}
}

// renew asks until it is answered, or the certificate ends. All tries, over restarts of the agent as well, are one request
// with one key.
func (c Config) renew(ctx context.Context, hub *uplink.Uplink, current Credentials, leaf *x509.Certificate, told func(Rotation)) (Credentials, error) {
	pause := min(retryRenewal, leaf.NotAfter.Sub(c.Clock.Now())/triesOfRenewal)
	failing := false
	for {
		next, err := c.renewOnce(ctx, hub, current)
		if err == nil {
			return next, nil
		}
		if ctx.Err() != nil || c.Clock.Now().After(leaf.NotAfter) {
			return next, err
		}
		told(Rotation{Err: err})
		if !failing {
			c.Log.WithField(log.FieldCluster, current.Agent.Cluster).WithError(err).Warn("certificate is not renewed yet")
		}
		failing = true
		if err := c.wait(ctx, pause, nil); err != nil {
			return next, err
		}
	}
}

func (c Config) renewOnce(ctx context.Context, hub *uplink.Uplink, current Credentials) (Credentials, error) {
	next, err := c.renewal(ctx, current)
	if err != nil {
		return next, err
	}
	key, err := parseKey(next.Key)
	if err != nil {
		return next, err
	}
	kube, err := kubernetes.NewForConfig(hub.Client(c.UserAgent))
	if err != nil {
		return next, fmt.Errorf("client of hub %s: %w", current.Server, err)
	}
	if next.Certificate, err = c.request(ctx, kube, current.Agent, key); err != nil {
		return next, err
	}
	next.Signer = signer(next.CA)
	if err := next.usable(c.Clock.Now()); err != nil {
		return next, errors.Join(fmt.Errorf("the hub issued a certificate that cannot be used: %w", err), c.Store.dropPending())
	}
	return next, c.Store.save(ctx, next)
}

// renewal is the identity with the key of the next certificate: one that was asked for already, or a new one.
func (c Config) renewal(ctx context.Context, current Credentials) (Credentials, error) {
	next := current
	pending, err := c.Store.loadPending(ctx)
	if err == nil && pending.Agent == current.Agent && pending.Server == current.Server && len(pending.Key) > 0 {
		next.Key = pending.Key
		return next, nil
	}
	if _, next.Key, err = newKey(); err != nil {
		return next, err
	}
	next.Certificate = nil
	return next, c.Store.savePending(ctx, next)
}

// renewalTime is when a certificate is renewed; luck in [0, 1) spreads a thousand agents that joined together.
func renewalTime(leaf *x509.Certificate, luck float64) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	left := latest + (earliest-latest)*luck
	return leaf.NotAfter.Add(-time.Duration(float64(life) * left))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
