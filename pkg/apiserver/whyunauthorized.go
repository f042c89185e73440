package apiserver

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
	bootstraptokens "k8s.io/cluster-bootstrap/util/tokens"
	"k8s.io/utils/clock"
)

// another is how a token that does not work is replaced.
const another = "get another one with clusteradm get token, or nave token create"

// explaining says why a standard token was refused, a service account's or a bootstrap token: clusteradm shows its user
// nothing else, and Kubernetes' own 401 says nothing. That a token expired is told from the token itself; whatever the hub
// knows about it, only to who holds its secret.
type explaining struct {
	secrets corev1client.SecretsGetter
	clock   clock.PassiveClock
}

// Handler stands between authentication, whose result it reads, and the refusal of who is nobody.
func (e explaining) Handler(next http.Handler, refuse refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, checked := r.Context().Value(authenticatedKey{}).(authenticated)
		scheme, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !checked || found.ok || !strings.EqualFold(scheme, "bearer") {
			next.ServeHTTP(w, r)
			return
		}
		if why := e.why(r.Context(), strings.TrimSpace(credential)); why != "" {
			refuse(w, r, apierrors.NewUnauthorized(why+"; "+another))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// why a token that did not authenticate is no good; empty where it is no standard token.
func (e explaining) why(ctx context.Context, token string) string {
	if id, secret, err := bootstraptokens.ParseToken(token); err == nil {
		return e.whyBootstrap(ctx, id, secret)
	}
	ends, ok := endOfJWT(token)
	switch {
	case !ok:
		return ""
	case e.clock.Now().After(ends):
		return fmt.Sprintf("the token expired at %s", ends.UTC().Format(time.RFC3339))
	}
	return "the token is not one of this hub, or its service account was deleted since"
}

func (e explaining) whyBootstrap(ctx context.Context, id, secret string) string {
	unknown := fmt.Sprintf("bootstrap token %s is not known to this hub", id)
	stored, err := e.secrets.Secrets(metav1.NamespaceSystem).Get(ctx, bootstraputil.BootstrapTokenSecretName(id), metav1.GetOptions{})
	if err != nil || stored.Type != bootstrapapi.SecretTypeBootstrapToken {
		return unknown
	}
	if subtle.ConstantTimeCompare([]byte(secret), stored.Data[bootstrapapi.BootstrapTokenSecretKey]) != 1 {
		return unknown
	}
	if bootstrapsecrets.HasExpired(stored, e.clock.Now()) {
		return fmt.Sprintf("bootstrap token %s expired at %s", id, stored.Data[bootstrapapi.BootstrapTokenExpirationKey])
	}
	return fmt.Sprintf("bootstrap token %s may not be used for authentication: secret %s/%s does not say %s: \"true\"",
		id, stored.Namespace, stored.Name, bootstrapapi.BootstrapTokenUsageAuthentication)
}

// endOfJWT is when a token says itself that it ends. Nothing is trusted: it is a token that was refused already.
func endOfJWT(token string) (ends time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(text, &claims); err != nil || claims.Expires == 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.Expires, 0), true
}
