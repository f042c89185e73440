package registration

import (
	"context"
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
	"k8s.io/client-go/rest"

	"nave/pkg/pki"
)

const (
	// Namespace and SecretName are where OCM's tools, and an upstream klusterlet, look for the identity.
	Namespace  = "open-cluster-management-agent"
	SecretName = "hub-kubeconfig-secret"
)

// Store keeps an agent's identity: in its data directory, and in the cluster for OCM's tools, for an upstream klusterlet,
// and for an agent that runs inside the cluster and finds its directory empty after a restart (D7).
type Store struct {
	Dir  string
	Kube kubernetes.Interface
}

// ErrNone says that no identity is kept yet.
var ErrNone = errors.New("no identity is kept yet")

// Load returns the identity that is kept. Without files it takes what is in the cluster: an earlier agent, ours or
// upstream's, has left it there.
func (s Store) Load(ctx context.Context) (Credentials, error) {
	data, err := s.loadFiles()
	if err != nil {
		return Credentials{}, err
	}
	if data == nil {
		secret, err := s.Kube.CoreV1().Secrets(Namespace).Get(ctx, SecretName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return Credentials{}, ErrNone
		}
		if err != nil {
			return Credentials{}, fmt.Errorf("secret %s/%s: %w", Namespace, SecretName, err)
		}
		data = secret.Data
	}
	return fromData(data)
}

func (s Store) loadFiles() (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, key := range []string{keyKubeconfig, keyCluster, keyAgent, keyCertificate, keyKey} {
		text, err := os.ReadFile(filepath.Join(s.Dir, key))
		if errors.Is(err, fs.ErrNotExist) {
			if key == keyKubeconfig {
				return nil, nil // it is written last, so without it there is nothing
			}
			return nil, fmt.Errorf("identity in %s: %w; remove the directory to join again", s.Dir, err)
		}
		if err != nil {
			return nil, fmt.Errorf("identity in %s: %w", s.Dir, err)
		}
		data[key] = text
	}
	return data, nil
}

// Client is the configuration of clients with the identity that is kept. It reads certificate and key from the files, and
// reads them again when they are renewed; each loop of the agent shares its connections.
func (s Store) Client(c Credentials, userAgent string) *rest.Config {
	return &rest.Config{
		Host:      c.Server,
		UserAgent: userAgent,
		QPS:       -1, // the hub's priority and fairness is the limit, and each loop bounds what it does at a time
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.CA, CertFile: filepath.Join(s.Dir, keyCertificate), KeyFile: filepath.Join(s.Dir, keyKey),
		},
	}
}

// Save keeps an identity, whole, before anything uses it.
func (s Store) Save(ctx context.Context, c Credentials) error {
	data, err := c.data()
	if err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(data))
	// The kubeconfig comes last: whoever finds it finds the rest.
	keys = append(slices.DeleteFunc(keys, func(k string) bool { return k == keyKubeconfig }), keyKubeconfig)
	for _, key := range keys {
		if err := pki.WriteFile(filepath.Join(s.Dir, key), data[key], 0o600); err != nil {
			return fmt.Errorf("keep identity in %s: %w", s.Dir, err)
		}
	}
	return s.saveSecret(ctx, data)
}

func (s Store) saveSecret(ctx context.Context, data map[string][]byte) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	secrets := s.Kube.CoreV1().Secrets(Namespace)
	current, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: Namespace}, Data: data}, metav1.CreateOptions{})
	case err == nil:
		if current.Data == nil {
			current.Data = map[string][]byte{}
		}
		maps.Copy(current.Data, data)
		_, err = secrets.Update(ctx, current, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep identity in secret %s/%s: %w", Namespace, SecretName, err)
	}
	return nil
}
