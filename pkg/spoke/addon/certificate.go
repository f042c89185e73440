package addon

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"nave/pkg/identity"
)

// A certificate is renewed when between earliest and latest of its life are left, a token when tokenLeft of its life is
// (spec 2.3, 2.6).
const (
	earliest, latest = 0.25, 0.20
	tokenLeft        = 0.20
)

// life is from when until when an identity is good, and when another one is to be there.
type life struct{ from, until, renew time.Time }

// certificateLife reads a certificate that is kept with its key since received, or since it is valid if that is zero. An
// error says why it is of no use for the subject.
func certificateLife(certificate, key []byte, subject identity.Subject, received, now time.Time) (life, error) {
	if len(certificate) == 0 || len(key) == 0 {
		return life{}, errors.New("there is no certificate yet")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return life{}, fmt.Errorf("certificate and key: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return life{}, fmt.Errorf("certificate: %w", err)
	}
	if now.After(leaf.NotAfter) {
		return life{}, fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	s := leaf.Subject
	if s.CommonName != subject.User || !sameSet(s.Organization, subject.Groups) || !sameSet(s.OrganizationalUnit, subject.Units) {
		return life{}, fmt.Errorf("the certificate is for %s", s)
	}
	// One that is old when it comes, by its dates, is no reason to ask for another one at once, and so without end.
	from := leaf.NotBefore
	if received.After(from) {
		from = received
	}
	left := latest + (earliest-latest)*luck(leaf.Raw)
	return life{
		from: leaf.NotBefore, until: leaf.NotAfter,
		renew: leaf.NotAfter.Add(-time.Duration(float64(leaf.NotAfter.Sub(from)) * left)),
	}, nil
}

// luck is a number in [0, 1) that differs between certificates, so that add-ons that came together do not renew together,
// and is the same each time that one of them is looked at.
func luck(certificate []byte) float64 {
	sum := sha256.Sum256(certificate)
	return float64(binary.BigEndian.Uint32(sum[:4])) / (math.MaxUint32 + 1)
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
