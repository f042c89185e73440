package addon

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nave/pkg/identity"
)

// Keys of the secrets in which add-ons find their identities (spec 2.6).
const (
	keyKubeconfig  = "kubeconfig"
	keyCluster     = "cluster-name"
	keyCertificate = "tls.crt"
	keyKey         = "tls.key"
	keyToken       = "token"

	// addonLabel marks such a secret with its add-on.
	addonLabel = "nave.dev/addon"
	// receivedAnnotation is when the identity in it came from the hub.
	receivedAnnotation = "nave.dev/received"
)

// receivedAt is zero if the secret does not say so.
func receivedAt(secret *corev1.Secret) time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations[receivedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// common is what a secret holds besides the identity itself.
func (r *Registrar) common(w wanted) (map[string][]byte, error) {
	data := map[string][]byte{keyCluster: []byte(r.Agent.Cluster)}
	if !w.kube() {
		return data, nil
	}
	auth := &clientcmdapi.AuthInfo{ClientCertificate: keyCertificate, ClientKey: keyKey}
	if w.driver == driverToken {
		auth = &clientcmdapi.AuthInfo{TokenFile: keyToken}
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{r.Entry: r.Endpoint.DeepCopy()},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"default-auth": auth},
		Contexts:       map[string]*clientcmdapi.Context{"default-context": {Cluster: r.Entry, AuthInfo: "default-auth", Namespace: "configuration"}},
		CurrentContext: "default-context",
	})
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	data[keyKubeconfig] = text
	return data, nil
}

// ofHub tells whether what a secret holds is for this hub: an identity on another one is of no use here, whatever it says.
func (r *Registrar) ofHub(w wanted, secret *corev1.Secret) bool {
	if !bytes.Equal(secret.Data[keyCluster], []byte(r.Agent.Cluster)) {
		return false
	}
	if !w.kube() {
		return true
	}
	config, err := clientcmd.Load(secret.Data[keyKubeconfig])
	if err != nil {
		return false
	}
	current := config.Contexts[config.CurrentContext]
	return current != nil && config.Clusters[current.Cluster] != nil && config.Clusters[current.Cluster].Server == r.Endpoint.Server
}

// write makes a secret hold this data, and nothing else: a key for a driver that was before would still open the hub.
func (r *Registrar) write(ctx context.Context, w wanted, data map[string][]byte) error {
	secrets := r.Spoke.CoreV1().Secrets(w.namespace)
	current, err := r.secrets.Secrets(w.namespace).Get(w.secret)
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, r.filled(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: w.secret, Namespace: w.namespace}}, data), metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return about(w, err)
		}
		if current, err = secrets.Get(ctx, w.secret, metav1.GetOptions{}); err == nil {
			err = takeable(current)
		}
	}
	if err != nil {
		return about(w, err)
	}
	next := r.filled(w, current, data)
	if equality.Semantic.DeepEqual(current, next) {
		return nil
	}
	_, err = secrets.Update(ctx, next, metav1.UpdateOptions{})
	return about(w, err)
}

// filled is the secret with this data. Its age is that of the identity in it, not of a kubeconfig beside it.
func (r *Registrar) filled(w wanted, secret *corev1.Secret, data map[string][]byte) *corev1.Secret {
	next := secret.DeepCopy()
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, r.labels(w.addon))
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	same := func(key string) bool { return bytes.Equal(next.Data[key], data[key]) }
	signer := signedUnder(secret)
	if !same(keyCertificate) || !same(keyToken) {
		next.Annotations[receivedAnnotation] = r.Clock.Now().UTC().Format(time.RFC3339)
		signer = signerOf(r.Endpoint.CertificateAuthorityData)
	}
	if w.kube() && signer != "" {
		next.Annotations[signerAnnotation] = signer
	}
	next.Data = data
	return next
}

func (r *Registrar) labels(addon string) map[string]string {
	return map[string]string{addonLabel: addon, identity.ClusterNameLabel: r.Agent.Cluster}
}

// takeable refuses a secret of somebody else's. One that an upstream agent left is taken over, and so is one that was made
// empty for the identity to come.
func takeable(secret *corev1.Secret) error {
	if _, ours := secret.Data[keyCluster]; ours || len(secret.Data) == 0 {
		return nil
	}
	return fmt.Errorf("it exists and holds something else; delete it, or install the add-on in another namespace")
}

func about(w wanted, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("secret %s of add-on %s: %w", w.key(), w.addon, err)
}

// remove deletes the secrets of an add-on that are not wanted any more.
func (r *Registrar) remove(ctx context.Context, addon string, kept []wanted) error {
	all, err := r.secrets.List(labelsOf(r.labels(addon)))
	if err != nil {
		return fmt.Errorf("secrets of add-on %s: %w", addon, err)
	}
	for _, secret := range all {
		if holds(kept, secret.Namespace+"/"+secret.Name) {
			continue
		}
		uid := secret.UID
		err := r.Spoke.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete secret %s/%s of add-on %s: %w", secret.Namespace, secret.Name, addon, err)
		}
	}
	return nil
}
