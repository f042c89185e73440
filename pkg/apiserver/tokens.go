package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"nave/pkg/identity"
	"nave/pkg/token"
)

// joinTokens authenticates requests that carry a join token. Standard bootstrap tokens and service-account tokens pass it
// by untouched.
type joinTokens struct {
	secrets corev1client.SecretsGetter
	clock   clock.PassiveClock
	guard   *guard
	replays *replays
}

// verified is a join token that may be used, and the cluster that it is for, if it is for one.
type verified struct{ id, cluster string }

type verifiedKey struct{}

// Check looks at a join token before anything else does, so that one that is used up, expired or revoked is refused with
// words that say so; Kubernetes' own 401 says nothing. Only who holds the token's secret learns more than "unknown".
func (t *joinTokens) Check(next http.Handler, refuse refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, ok := bearer(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		cluster, err := t.verify(r.Context(), id, secret)
		if err != nil {
			t.refused(r, id, cluster, err)
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), verifiedKey{}, verified{id, cluster})))
	})
}

// refused notes a token that is no good wherever that matters: a wrong one slows its sender down, and one that was used
// before is worth an Event.
func (t *joinTokens) refused(r *http.Request, id, cluster string, err error) {
	switch causeOf(err) {
	case "":
		return // not the token's fault
	case token.CauseUnknown:
		t.guard.failed(r)
	case token.CauseUsed:
		t.replays.tell(r.Context(), id, cluster, fmt.Sprintf("%s; it came from %s", err, sourceOf(r)))
	}
}

func causeOf(err error) metav1.CauseType {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return ""
	}
	return status.Status().Details.Causes[0].Type
}

// AuthenticateRequest names the user of a request whose token Check has let pass.
func (t *joinTokens) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	v, ok := r.Context().Value(verifiedKey{}).(verified)
	if !ok {
		return nil, false, nil
	}
	r.Header.Del("Authorization") // so that it reaches no log and no other authenticator
	extra := map[string][]string{identity.JoinTokenExtra: {v.id}}
	if v.cluster != "" {
		extra[identity.JoinClusterExtra] = []string{v.cluster}
	}
	return &authenticator.Response{User: &user.DefaultInfo{
		Name:   identity.BootstrapUserPrefix + v.id,
		Groups: []string{identity.BootstrapGroup, "system:bootstrappers", user.AllAuthenticated},
		Extra:  extra,
	}}, true, nil
}

func bearer(r *http.Request) (id, secret string, ok bool) {
	scheme, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", "", false
	}
	return token.ParseBearer(strings.TrimSpace(credential))
}

// verify returns the one cluster that the token is for, if it is for one already.
func (t *joinTokens) verify(ctx context.Context, id, secret string) (cluster string, err error) {
	stored, err := t.secrets.Secrets(token.Namespace).Get(ctx, token.SecretName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", unusable(token.CauseUnknown, fmt.Sprintf("join token %s is not known to this hub", id))
	}
	if err != nil {
		return "", apierrors.NewInternalError(fmt.Errorf("read join token %s: %w", id, err))
	}
	record, err := token.FromSecret(stored)
	if err != nil {
		return "", apierrors.NewInternalError(fmt.Errorf("read join token %s: %w", id, err))
	}
	if !record.Matches(secret) {
		return "", unusable(token.CauseUnknown, fmt.Sprintf("join token %s is not known to this hub", id))
	}
	if cause, text := record.Unusable(t.clock.Now()); cause != "" {
		return record.Cluster, unusable(cause, text)
	}
	return record.Cluster, nil
}

func unusable(cause metav1.CauseType, text string) error {
	err := apierrors.NewUnauthorized(text)
	err.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause, Message: text}}}
	return err
}
