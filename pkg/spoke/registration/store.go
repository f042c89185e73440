package registration

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nave/pkg/pki"
)

const (
	// Namespace and SecretName are where OCM's tools, and an upstream klusterlet, look for the identity.
	Namespace  = "open-cluster-management-agent"
	SecretName = "hub-kubeconfig-secret"

	// identityFile is the identity, whole: a crash leaves the old one or the new one, never the key of one with the
	// certificate of the other.
	identityFile = "identity.json"
	// pendingFile is the identity that the hub has been asked for. The old one stays until there is a new one.
	pendingFile = "pending.json"

	// maxFile bounds what is read of a file; an identity has a few kilobytes.
	maxFile = 1 << 20
)

// Store keeps an agent's identity: in its data directory, and in the cluster for OCM's tools, for an upstream klusterlet,
// and for an agent that runs inside the cluster and finds its directory empty after a restart (D7).
type Store struct {
	Dir  string
	Kube kubernetes.Interface
}

// errNone says that no identity is kept yet.
var errNone = errors.New("it has never joined")

// Holds tells whether there is an identity in the data directory.
func (s Store) Holds() bool {
	_, err := os.Stat(filepath.Join(s.Dir, identityFile))
	return err == nil
}

// Certificate is the one in the data directory, and its file; nil if the agent has not joined.
func (s Store) Certificate() (file string, leaf *x509.Certificate, err error) {
	file = filepath.Join(s.Dir, identityFile)
	c, err := s.read(identityFile)
	if errors.Is(err, errNone) {
		return file, nil, nil
	}
	if err != nil {
		return file, nil, err
	}
	if leaf, err = c.leaf(); err != nil {
		return file, nil, fmt.Errorf("identity in %s: %w", file, err)
	}
	return file, leaf, nil
}

// load returns the identity that is kept. Without a file it takes what is in the cluster: an earlier agent, ours or
// upstream's, has left it there.
func (s Store) load(ctx context.Context) (Credentials, error) {
	c, err := s.read(identityFile)
	if !errors.Is(err, errNone) {
		return c, err
	}
	secret, err := s.Kube.CoreV1().Secrets(Namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Credentials{}, errNone
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("secret %s/%s: %w", Namespace, SecretName, err)
	}
	return fromData(secret.Data)
}

// hasFile tells whether an identity is kept, or being asked for, in the agent's own directory.
func (s Store) hasFile() bool {
	return slices.ContainsFunc([]string{identityFile, pendingFile}, func(name string) bool {
		_, err := os.Stat(filepath.Join(s.Dir, name))
		return err == nil
	})
}

// save keeps an identity before anything uses it. One that was asked for is then no longer pending.
func (s Store) save(ctx context.Context, c Credentials) error {
	if err := s.write(identityFile, c); err != nil {
		return err
	}
	if err := s.dropPending(); err != nil {
		return err
	}
	data, err := c.data()
	if err != nil {
		return err
	}
	data[keyPending] = nil
	return s.saveSecret(ctx, data)
}

// loadPending returns the identity that the hub has been asked for; errNone if there is none.
func (s Store) loadPending(ctx context.Context) (Credentials, error) {
	c, err := s.read(pendingFile)
	if !errors.Is(err, errNone) {
		return c, err
	}
	secret, err := s.Kube.CoreV1().Secrets(Namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && len(secret.Data[keyPending]) == 0 {
		return Credentials{}, errNone
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("secret %s/%s: %w", Namespace, SecretName, err)
	}
	data := map[string][]byte{}
	if err := json.Unmarshal(secret.Data[keyPending], &data); err != nil {
		return Credentials{}, fmt.Errorf("%s in secret %s/%s: %w", keyPending, Namespace, SecretName, err)
	}
	return fromData(data)
}

// savePending keeps the identity that the hub is asked for, and its key above all: an agent that is started again while it
// waits, and that finds its directory empty as in a pod, goes on with the same request (spec 10.2, C24).
func (s Store) savePending(ctx context.Context, c Credentials) error {
	if err := s.write(pendingFile, c); err != nil {
		return err
	}
	data, err := c.data()
	if err != nil {
		return err
	}
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	return s.saveSecret(ctx, map[string][]byte{keyPending: text})
}

func (s Store) dropPending() error {
	if err := os.Remove(filepath.Join(s.Dir, pendingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep identity in %s: %w", s.Dir, err)
	}
	return nil
}

func (s Store) read(name string) (Credentials, error) {
	file := filepath.Join(s.Dir, name)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, errNone
	}
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("identity in %s: %w", file, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Credentials{}, fmt.Errorf("identity: %w", err)
	}
	data := map[string][]byte{}
	if err := json.Unmarshal(text, &data); err != nil {
		return Credentials{}, fmt.Errorf("identity in %s: %w; remove the file to join again", file, err)
	}
	return fromData(data)
}

func (s Store) write(name string, c Credentials) error {
	data, err := c.data()
	if err != nil {
		return err
	}
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	if err := pki.WriteFile(filepath.Join(s.Dir, name), text, 0o600); err != nil {
		return fmt.Errorf("keep identity in %s: %w", s.Dir, err)
	}
	return nil
}

// saveSecret keeps data in the cluster, beside what is there under other keys. A key without a value goes.
func (s Store) saveSecret(ctx context.Context, data map[string][]byte) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	secrets := s.Kube.CoreV1().Secrets(Namespace)
	current, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		maps.DeleteFunc(data, without)
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: Namespace}, Data: data}, metav1.CreateOptions{})
	case err == nil:
		if current.Data == nil {
			current.Data = map[string][]byte{}
		}
		maps.Copy(current.Data, data)
		maps.DeleteFunc(current.Data, without)
		_, err = secrets.Update(ctx, current, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep identity in secret %s/%s: %w", Namespace, SecretName, err)
	}
	return nil
}

func without(_ string, value []byte) bool { return len(value) == 0 }
