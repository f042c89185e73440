package registration

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"nave/pkg/token"
)

// maxCertificates bounds a CA bundle; two generations of a root with intermediates are six.
const maxCertificates = 64

// parseBundle reads the certificates of a CA bundle. Whatever stands between them does not count, as comments do; a block
// that cannot be read is an error, where others pass it over and fail much later, on another machine.
func parseBundle(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	marks := bytes.Count(text, []byte("-----BEGIN "))
	if marks > maxCertificates {
		return nil, fmt.Errorf("CA bundle has %d blocks, more than %d", marks, maxCertificates)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("CA bundle has a block of type %q; only certificates belong into it", block.Type)
		}
		if len(block.Headers) > 0 {
			// Whoever connects with the bundle would pass it over, see x509.CertPool.
			return nil, fmt.Errorf("CA bundle, certificate %d: its block has headers; only comments outside of blocks are allowed", len(all)+1)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("CA bundle, certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	switch {
	case len(all) == 0 && len(bytes.TrimSpace(text)) > 0:
		return nil, errors.New("CA bundle holds no certificate in PEM form")
	case len(all) < marks:
		return nil, fmt.Errorf("CA bundle has %d blocks, of which only %d can be read; one is cut off or damaged", marks, len(all))
	}
	return all, nil
}

// pins tells whether a token pins one of the certificates of a bundle.
func pins(t token.Token, bundle []byte) bool {
	all, err := parseBundle(bundle)
	if err != nil {
		return false
	}
	for _, c := range all {
		if token.CAHash(c) == t.CAHash {
			return true
		}
	}
	return false
}
