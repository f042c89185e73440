package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"nave/pkg/identity"
)

// agents authenticates every request, once and before anything else, and refuses with words the certificates of clusters
// that are gone or were replaced by another one of the same name; Kubernetes' own 401 says nothing. The requests that it
// lets pass end when their cluster is cut off.
type agents struct {
	next     authenticator.Request
	clusters *clusterView
	running  *running
	guard    *guard
}

// authenticated is what next said about a request.
type authenticated struct {
	response *authenticator.Response
	ok       bool
	err      error
}

type authenticatedKey struct{}

// AuthenticateRequest repeats what Check found out.
func (a *agents) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if found, checked := r.Context().Value(authenticatedKey{}).(authenticated); checked {
		return found.response, found.ok, found.err
	}
	return a.next.AuthenticateRequest(r)
}

// Check wraps the whole chain of handlers.
func (a *agents) Check(next http.Handler, audiences authenticator.Audiences, refuse refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(audiences) > 0 {
			r = r.WithContext(authenticator.WithAudiences(r.Context(), audiences))
		}
		response, ok, err := a.next.AuthenticateRequest(r)
		r = r.WithContext(context.WithValue(r.Context(), authenticatedKey{}, authenticated{response, ok, err}))
		if err != nil || !ok {
			a.guard.failed(r)
			next.ServeHTTP(w, r)
			return
		}
		if err := limitBody(w, r, response.User); err != nil {
			refuse(w, r, err)
			return
		}
		cluster, sure, ok := identity.ClusterOf(response.User.GetName(), response.User.GetGroups())
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		ctx, done := a.running.enter(r.Context(), cluster)
		defer done()
		if sure {
			if err := a.refusal(ctx, cluster, response.User); err != nil {
				refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refusal says why the agent with this certificate is not let in at all. A certificate names the cluster's life by its uid:
// the signer put it there (see pkg/controller/signing).
func (a *agents) refusal(ctx context.Context, cluster string, u user.Info) error {
	if !a.clusters.ready() {
		return apierrors.NewServiceUnavailable("the hub is starting and has not read its managed clusters yet; try again")
	}
	exists, same, err := a.clusters.lives(ctx, cluster, types.UID(u.GetUID()))
	switch {
	case errors.Is(err, context.Canceled):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("managed cluster %s was cut off while its agent was being authenticated", cluster))
	case err != nil:
		return apierrors.NewInternalError(err)
	case !exists:
		return apierrors.NewUnauthorized(fmt.Sprintf("managed cluster %s is not registered with this hub any more; register it again", cluster))
	case !same:
		return apierrors.NewUnauthorized(fmt.Sprintf("managed cluster %s was removed and registered anew since this certificate was issued; register again", cluster))
	}
	return nil
}
