package registration

import (
	"crypto"
	"fmt"

	"k8s.io/client-go/util/keyutil"

	"nave/pkg/pki"
)

// newKey makes a private key, as such and as PEM.
func newKey() (crypto.Signer, []byte, error) {
	key, err := pki.NewKey()
	if err != nil {
		return nil, nil, err
	}
	text, err := pki.KeyPEM(key)
	return key, text, err
}

// parseKey reads a private key that was kept.
func parseKey(text []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key of type %T cannot sign", key)
	}
	return signer, nil
}
