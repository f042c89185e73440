package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// LoadLeaf reads the certificate and key in file if the authority signed it for exactly this leaf and a third of its life
// is still left; otherwise it issues and keeps a new one.
func (a *Authority) LoadLeaf(file string, leaf Leaf, now time.Time) (*Pair, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if err == nil {
		// A file that cannot be read as a pair is made anew: nothing but this hub depends on it.
		if pair, err := parsePair(text); err == nil && a.stillGood(pair.Certificate, leaf, now) {
			return &Pair{Certificate: pair.Certificate, Key: pair.Key}, nil
		}
	}
	pair, err := a.Issue(leaf, now)
	if err != nil {
		return nil, err
	}
	text, err = encodePair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, err
	}
	// The chain ends with the CA itself, so that a peer can check a pin of it from the handshake alone.
	text = append(text, CertificatePEM(a.Certificate)...)
	if err := WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("keep certificate: %w", err)
	}
	return pair, nil
}

func (a *Authority) stillGood(c *x509.Certificate, leaf Leaf, now time.Time) bool {
	if c.CheckSignatureFrom(a.Certificate) != nil || now.Before(c.NotBefore) {
		return false
	}
	if c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3 {
		return false
	}
	return c.Subject.CommonName == leaf.CommonName &&
		slices.Equal(c.Subject.Organization, leaf.Organizations) &&
		slices.Equal(hostsOf(c), sortedHosts(leaf.Hosts))
}

func hostsOf(c *x509.Certificate) []string {
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	slices.Sort(hosts)
	return hosts
}

func sortedHosts(hosts []string) []string {
	ips, names := splitHosts(hosts)
	for _, ip := range ips {
		names = append(names, ip.String())
	}
	slices.Sort(names)
	return names
}
