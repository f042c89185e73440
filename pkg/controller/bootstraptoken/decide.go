package bootstraptoken

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstraptokens "k8s.io/cluster-bootstrap/util/tokens"

	"nave/pkg/identity"
)

const (
	// life is how long a token is good for, and assured how much of that is left of the newest one at any time.
	life    = 48 * time.Hour
	assured = 24 * time.Hour

	// keptLabel marks the tokens that the hub makes, as opposed to those of its users.
	keptLabel = "nave.dev/bootstrap-token"
)

// due is how long the newest of the hub's tokens is good enough; another one is due at 0.
func due(kept []*corev1.Secret, now time.Time) time.Duration {
	var longest time.Duration
	for _, secret := range kept {
		// One whose end cannot be read never counts: it does not authenticate either.
		ends, err := time.Parse(time.RFC3339, string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]))
		if err == nil {
			longest = max(longest, ends.Sub(now)-assured)
		}
	}
	return longest
}

// newSecret is the record of a token; clusteradm finds it by the label of upstream's installer and its name.
func newSecret(token string, now time.Time) (*corev1.Secret, error) {
	id, secret, err := bootstraptokens.ParseToken(token)
	if err != nil {
		return nil, fmt.Errorf("made bootstrap token: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: bootstraputil.BootstrapTokenSecretName(id), Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"app": "cluster-manager", keptLabel: "true"},
		},
		Type: bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:               []byte(id),
			bootstrapapi.BootstrapTokenSecretKey:           []byte(secret),
			bootstrapapi.BootstrapTokenExpirationKey:       []byte(now.Add(life).UTC().Format(time.RFC3339)),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(identity.BootstrapGroup),
			bootstrapapi.BootstrapTokenDescriptionKey:      []byte("asks to register clusters; replaced by the hub every day"),
		},
	}, nil
}
