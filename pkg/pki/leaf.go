package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// LoadLeaf reads the certificate and key in file if the CA that signs now signed it for exactly this leaf, what clients
// have to know of it stands behind it, and a third of its life is still left; otherwise it issues and keeps a new one.
func (s Succession) LoadLeaf(file string, leaf Leaf, now time.Time) (*Pair, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if err == nil {
		// A file that cannot be read as a pair is made anew: nothing but this hub depends on it.
		if pair, err := parsePair(text); err == nil && s.Current.stillGood(pair.Certificate, leaf, now) && s.endsWell(text) {
			return &Pair{Certificate: pair.Certificate, Key: pair.Key}, nil
		}
	}
	pair, err := s.Current.Issue(leaf, now)
	if err != nil {
		return nil, err
	}
	text, err = encodePair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, err
	}
	// The chain goes up to the root, so that a peer can check a pin of it from the handshake alone.
	chain, err := s.Chain(now)
	if err != nil {
		return nil, err
	}
	if err := WriteFile(file, append(text, CertificatePEM(chain...)...), 0o600); err != nil {
		return nil, fmt.Errorf("keep certificate: %w", err)
	}
	return pair, nil
}

// endsWell tells whether a file's chain ends with the oldest CA that clients may know.
func (s Succession) endsWell(text []byte) bool {
	root := s.Current.Certificate
	if s.Old != nil {
		root = s.Old.Certificate
	}
	var last []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certificateBlock {
			last = block.Bytes
		}
	}
	return slices.Equal(last, root.Raw)
}

func (a *Authority) stillGood(c *x509.Certificate, leaf Leaf, now time.Time) bool {
	if c.CheckSignatureFrom(a.Certificate) != nil || now.Before(c.NotBefore) || !now.Before(RenewalOf(c)) {
		return false
	}
	return c.Subject.CommonName == leaf.CommonName &&
		slices.Equal(c.Subject.Organization, leaf.Organizations) &&
		slices.Equal(hostsOf(c), sortedHosts(leaf.Hosts))
}

// RenewalOf is when a certificate of the hub itself is renewed: after two thirds of its life.
func RenewalOf(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
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

// LoadLeaf is that of a CA that has no successor.
func (a *Authority) LoadLeaf(file string, leaf Leaf, now time.Time) (*Pair, error) {
	return Succession{Current: a}.LoadLeaf(file, leaf, now)
}
