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

	"nave/pkg/log"
	"nave/pkg/pki"
)

const (
	// A certificate is renewed when between earliest and latest of its life are left (spec 2.3).
	earliest, latest = 0.25, 0.20

	// retryRenewal is how soon a renewal that did not work is tried again; a fifth of a life is time for many.
	retryRenewal = time.Minute
)

// Renew keeps the certificate fresh over the connection that it gives, until ctx ends. Clients read the new one from the
// store's file. It returns an error once the certificate has expired: then only a token helps.
func Renew(ctx context.Context, c Config, credentials Credentials) error {
	for {
		leaf, err := credentials.leaf()
		if err != nil {
			return err
		}
		if err := c.sleepUntil(ctx, renewalTime(leaf, rand.Float64())); err != nil {
			return nil
		}
		next, err := c.renew(ctx, credentials, leaf.NotAfter)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("certificate of cluster %s expired at %s: %w; join again with a token made by nave token create --cluster %s",
				c.Cluster, leaf.NotAfter.UTC().Format(time.RFC3339), err, c.Cluster)
		}
		credentials = next
		c.Log.WithField(log.FieldCluster, c.Cluster).Info("certificate is renewed")
	}
}

// renew asks until it is answered, or the certificate ends. All tries are one request with one key.
func (c Config) renew(ctx context.Context, current Credentials, end time.Time) (Credentials, error) {
	key, err := pki.NewKey()
	if err != nil {
		return Credentials{}, err
	}
	text, err := pki.KeyPEM(key)
	if err != nil {
		return Credentials{}, err
	}
	kube, err := kubernetes.NewForConfig(c.Store.Client(current, c.UserAgent))
	if err != nil {
		return Credentials{}, fmt.Errorf("client of hub %s: %w", current.Server, err)
	}
	next := current
	next.Key = text
	for {
		next.Certificate, err = obtain(ctx, c.Log, kube.CertificatesV1().CertificateSigningRequests(), current.Agent, key)
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
