// Package token is the join token: its text, what of it goes over the wire, and the record that the hub keeps of it.
//
//	nave1.<CA hash>.<id>.<secret>
//
// The CA hash pins the hub, so that an agent can be sure of it before it sends anything; the id names the token in lists,
// logs and events; only the secret is secret.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	version      = "nave1"
	bearerPrefix = "nave-join"

	// alphabet of ids and secrets: what fits in names of objects, and is read aloud without doubt about case.
	alphabet     = "abcdefghijklmnopqrstuvwxyz0123456789"
	idLength     = 10
	secretLength = 32 // 165 bits

	// maxLength bounds what is looked at; a whole token has 93 characters.
	maxLength = 256
)

// ErrMalformed is what every error of Parse is. Its texts never repeat the token.
var ErrMalformed = errors.New("join token is malformed")

// Token is what a person copies from the hub to a cluster.
type Token struct {
	CAHash [sha256.Size]byte // of the hub's CA, see CAHash
	ID     string
	Secret string
}

// New makes a token for the hub with this CA.
func New(caHash [sha256.Size]byte) (Token, error) {
	id, err := random(idLength)
	if err != nil {
		return Token{}, err
	}
	secret, err := random(secretLength)
	if err != nil {
		return Token{}, err
	}
	return Token{CAHash: caHash, ID: id, Secret: secret}, nil
}

// random takes bytes that the alphabet's length divides, so that every character is as likely as any other.
func random(length int) (string, error) {
	out := make([]byte, 0, length)
	buffer := make([]byte, length)
	limit := byte(256 / len(alphabet) * len(alphabet))
	for len(out) < length {
		if _, err := rand.Read(buffer); err != nil {
			return "", fmt.Errorf("random characters for a join token: %w", err)
		}
		for _, b := range buffer {
			if b < limit && len(out) < length {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out), nil
}

// Parse reads a token's text. White space around it, as copying leaves it, does not count.
func Parse(text string) (Token, error) {
	if len(text) > maxLength {
		return Token{}, fmt.Errorf("%w: it is longer than %d characters", ErrMalformed, maxLength)
	}
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 {
		return Token{}, fmt.Errorf("%w: it has %d parts between dots instead of 4; copy it whole", ErrMalformed, len(parts))
	}
	if parts[0] != version {
		return Token{}, fmt.Errorf("%w: it does not begin with %s", ErrMalformed, version)
	}
	hash, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil || len(hash) != sha256.Size {
		return Token{}, fmt.Errorf("%w: its second part is no hash of a CA", ErrMalformed)
	}
	if !validID(parts[2]) {
		return Token{}, fmt.Errorf("%w: its third part is no id of %d characters a-z and 0-9", ErrMalformed, idLength)
	}
	if !validSecret(parts[3]) {
		return Token{}, fmt.Errorf("%w: its last part does not have %d characters a-z and 0-9", ErrMalformed, secretLength)
	}
	return Token{CAHash: [sha256.Size]byte(hash), ID: parts[2], Secret: parts[3]}, nil
}

// String is the token's text.
func (t Token) String() string {
	return strings.Join([]string{version, base64.RawURLEncoding.EncodeToString(t.CAHash[:]), t.ID, t.Secret}, ".")
}

// Bearer is the credential that a request to the hub carries. The CA hash stays at home.
func (t Token) Bearer() string { return strings.Join([]string{bearerPrefix, t.ID, t.Secret}, ".") }

// ParseBearer takes a credential apart; false is every credential that is no join token.
func ParseBearer(credential string) (id, secret string, ok bool) {
	if len(credential) > maxLength {
		return "", "", false
	}
	parts := strings.Split(credential, ".")
	if len(parts) != 3 || parts[0] != bearerPrefix || !validID(parts[1]) || !validSecret(parts[2]) {
		return "", "", false
	}
	return parts[1], parts[2], true
}

func validID(s string) bool     { return len(s) == idLength && strings.Trim(s, alphabet) == "" }
func validSecret(s string) bool { return len(s) == secretLength && strings.Trim(s, alphabet) == "" }

// CAHash is what a token pins: the SHA-256 of the CA's public key, so a CA may be signed anew with the same key.
func CAHash(ca *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(ca.RawSubjectPublicKeyInfo)
}

// KeyHash is the hexadecimal SHA-256 of a public key, given as DER of SubjectPublicKeyInfo.
func KeyHash(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:])
}

// Hash is what the hub keeps instead of the secret. The secret is random and long, so a plain SHA-256 cannot be undone.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func sameHash(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
