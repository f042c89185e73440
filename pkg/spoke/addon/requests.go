package addon

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/keyutil"

	"nave/pkg/pki"
)

// requests are the certificates that the hub has been asked for. Each may wait for a person, so none holds a worker up.
type requests struct {
	dir      string // keeps the keys until there are certificates for them
	obtain   func(ctx context.Context, w wanted, key crypto.Signer) ([]byte, error)
	answered func(addon string)

	mu      sync.Mutex
	open    map[string]*request // by wanted.key
	running sync.WaitGroup
}

// request is one of them; certificate and err are set once it is answered.
type request struct {
	wanted      wanted
	stop        context.CancelFunc
	done        bool
	certificate []byte
	key         []byte // PEM
	err         error
}

// ask asks for a certificate, or tells how it stands with the request that is open: nothing while there is no answer.
func (q *requests) ask(ctx context.Context, w wanted) (certificate, key []byte, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.open[w.key()]; r != nil {
		if r.wanted.same(w) {
			if !r.done {
				return nil, nil, nil
			}
			if r.err != nil {
				delete(q.open, w.key()) // the next time it is asked again
			}
			return r.certificate, r.key, r.err
		}
		r.stop()
		delete(q.open, w.key())
		if err := q.removeKey(w); err != nil { // another request has another key
			return nil, nil, err
		}
	}
	signer, text, err := q.loadKey(w)
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	r := &request{wanted: w, stop: stop, key: text}
	q.open[w.key()] = r
	q.running.Go(func() {
		defer stop()
		certificate, err := q.obtain(ctx, w, signer)
		if ctx.Err() != nil {
			return
		}
		q.mu.Lock()
		r.done, r.certificate, r.err = true, certificate, err
		q.mu.Unlock()
		q.answered(w.addon)
	})
	return nil, nil, nil
}

// settle forgets a request whose certificate is kept, and its key with it: the next certificate has another key.
func (q *requests) settle(w wanted) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.open[w.key()]; r != nil {
		r.stop()
		delete(q.open, w.key())
	}
	return q.removeKey(w)
}

// retain stops the requests of an add-on that are not wanted any more.
func (q *requests) retain(addon string, kept []wanted) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for key, r := range q.open {
		if r.wanted.addon == addon && !holds(kept, key) {
			r.stop()
			delete(q.open, key)
			errs = append(errs, q.removeKey(r.wanted))
		}
	}
	return errors.Join(errs...)
}

// loadKey takes the key of a request up that an earlier run of the agent made: the request on the hub is the same one then
// (spec 10.2, C24).
func (q *requests) loadKey(w wanted) (crypto.Signer, []byte, error) {
	text, err := os.ReadFile(q.keyFile(w))
	if err == nil {
		if key, err := keyutil.ParsePrivateKeyPEM(text); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, text, nil
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("key of add-on %s: %w", w.addon, err)
	}
	signer, err := pki.NewKey()
	if err != nil {
		return nil, nil, err
	}
	if text, err = pki.KeyPEM(signer); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(q.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("keep key of add-on %s: %w", w.addon, err)
	}
	if err := pki.WriteFile(q.keyFile(w), text, 0o600); err != nil {
		return nil, nil, fmt.Errorf("keep key of add-on %s: %w", w.addon, err)
	}
	return signer, text, nil
}

func (q *requests) removeKey(w wanted) error {
	if err := os.Remove(q.keyFile(w)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove key of add-on %s: %w", w.addon, err)
	}
	return nil
}

// keyFile is named by a hash: names of signers have characters that files do not.
func (q *requests) keyFile(w wanted) string {
	sum := sha256.Sum256([]byte(w.key()))
	return filepath.Join(q.dir, hex.EncodeToString(sum[:16])+".key")
}

func holds(all []wanted, key string) bool {
	for _, w := range all {
		if w.key() == key {
			return true
		}
	}
	return false
}
