// Package pki makes and keeps the hub's certificate authorities and the certificates that they sign.
package pki

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// authorityLife is how long a CA is valid: the ten years that kubeadm and k3s give theirs.
	authorityLife = 10 * 365 * 24 * time.Hour
	// leafLife is how long a certificate of the hub itself is valid unless something else is asked.
	leafLife = 365 * 24 * time.Hour
	// backdate allows for peers whose clock is behind.
	backdate = 5 * time.Minute
	// serialBits is the size of a random serial number; CAs may not use more than 20 octets.
	serialBits = 127
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// Authority is a CA: a certificate and the key that signs for it.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// LoadAuthority reads the CA in file, or makes one with the common name if the file does not exist. Key and certificate
// are one file, written at once, so a crash leaves the whole CA or none, never half of one that a next start would replace.
func LoadAuthority(file, commonName string, now time.Time) (*Authority, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		a, err := parsePair(text)
		if err != nil {
			return nil, fmt.Errorf("certificate authority %s: %w; restore the file from a backup, a new one would lock every cluster out", file, err)
		}
		return a, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	a, err := newAuthority(commonName, now)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority %s: %w", commonName, err)
	}
	text, err = encodePair(a.Certificate, a.Key)
	if err != nil {
		return nil, fmt.Errorf("encode certificate authority %s: %w", commonName, err)
	}
	if err := WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("keep certificate authority: %w", err)
	}
	return a, nil
}

func newAuthority(commonName string, now time.Time) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	return signedBy(template, template, key.Public(), key, key)
}

// ParseAuthority reads a CA from the content of its file.
func ParseAuthority(text []byte) (*Authority, error) { return parsePair(text) }

// Sign signs a certificate for somebody else's public key, with a serial number of its own.
func (a *Authority) Sign(template *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	signed, err := signedBy(template, a.Certificate, public, a.Key, a.Key)
	if err != nil {
		return nil, err
	}
	return signed.Certificate, nil
}

// Leaf says what a certificate is for.
type Leaf struct {
	CommonName    string
	Organizations []string
	// Hosts are IP addresses and DNS names for a server's certificate; without any, the certificate is a client's.
	Hosts []string
	// Life is how long it is valid from now on; a year if zero.
	Life time.Duration
}

func (l Leaf) life() time.Duration { return cmp.Or(l.Life, leafLife) }

// Pair is a certificate with its key.
type Pair struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// Issue signs a new certificate with a new key for leaf.
func (a *Authority) Issue(leaf Leaf, now time.Time) (*Pair, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organizations},
		NotBefore:    now.Add(-min(backdate, leaf.life()/2)),
		NotAfter:     now.Add(leaf.life()),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(leaf.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.IPAddresses, template.DNSNames = splitHosts(leaf.Hosts)
	}
	signed, err := signedBy(template, a.Certificate, key.Public(), a.Key, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate for %s: %w", leaf.CommonName, err)
	}
	return &Pair{Certificate: signed.Certificate, Key: key}, nil
}

func signedBy(template, parent *x509.Certificate, public any, signer, key crypto.Signer) (*Authority, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{Certificate: certificate, Key: key}, nil
}

func splitHosts(hosts []string) (ips []net.IP, names []string) {
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			ips = append(ips, ip)
		} else {
			names = append(names, h)
		}
	}
	return ips, names
}

// NewKey makes an ECDSA key on P-256: small, fast to sign with, and what every peer accepts.
func NewKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return serial, nil
}

// CertificatePEM encodes certificates one after the other, as a TLS server sends them.
func CertificatePEM(certificates ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certificates {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return out
}

// ParseCertificates reads every certificate of a PEM text. What stands between the blocks does not count, such as comments
// and line ends of other systems, nor do private keys; any other block, and one that cannot be read, is an error.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	blocks := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		blocks++
		if block.Type == keyBlock {
			continue
		}
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("block %d is of type %q, not %s", blocks, block.Type, certificateBlock)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d is no certificate: %w", blocks, err)
		}
		all = append(all, c)
	}
	// The decoder passes over what it cannot read.
	if begun := bytes.Count(text, []byte("-----BEGIN ")); begun != blocks {
		return nil, fmt.Errorf("%d of %d blocks cannot be read", begun-blocks, begun)
	}
	return all, nil
}

// KeyPEM encodes a private key as PKCS #8.
func KeyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

func encodePair(certificate *x509.Certificate, key crypto.Signer) ([]byte, error) {
	text, err := KeyPEM(key)
	if err != nil {
		return nil, err
	}
	return append(text, CertificatePEM(certificate)...), nil
}

func parsePair(text []byte) (*Authority, error) {
	a := &Authority{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case certificateBlock:
			if a.Certificate != nil {
				continue // the chain
			}
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("certificate: %w", err)
			}
			a.Certificate = c
		case keyBlock:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("private key: %w", err)
			}
			signer, ok := key.(crypto.Signer)
			if !ok {
				return nil, fmt.Errorf("private key of type %T cannot sign", key)
			}
			a.Key = signer
		}
	}
	if a.Certificate == nil || a.Key == nil {
		return nil, errors.New("file holds no certificate or no private key")
	}
	if public, ok := a.Certificate.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(a.Key.Public()) {
		return nil, errors.New("private key does not belong to the certificate")
	}
	return a, nil
}

// WriteFile replaces file at once: a reader sees the old content or the new, and so does the next start after a crash.
func WriteFile(file string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already after the rename
	if err := errors.Join(tmp.Chmod(mode), writeSynced(tmp, content), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

func writeSynced(f *os.File, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
