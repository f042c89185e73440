package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"nave/pkg/identity"
)

// narrowing shows to each identity from outside the signing requests that are its business (spec 10.1, S8): to an agent
// those that it made itself, to who asks for registration those of the cluster that it asks about. Since an agent never
// sees requests that others made in its cluster's name, nobody can make it believe that it made too many (S7).
type narrowing struct {
	kube kubernetes.Interface
}

// scope is what part of all signing requests somebody may see; nil is everything.
type scope struct {
	user user.Info
	// own are labels that every visible request has.
	own labels.Set
	// ask is set where the caller has to say by label which cluster it means.
	ask bool
}

func scopeOf(u user.Info) *scope {
	if agent, ok := identity.AgentOf(u.GetName(), u.GetGroups()); ok {
		return &scope{user: u, own: labels.Set{
			identity.ClusterNameLabel: agent.Cluster,
			identity.RequesterLabel:   identity.RequesterHash(u.GetName()),
		}}
	}
	if !identity.IsBootstrap(u) {
		return nil
	}
	s := &scope{user: u, ask: true}
	if cluster := identity.JoinClusterOf(u); cluster != "" {
		s.own = labels.Set{identity.ClusterNameLabel: cluster}
	}
	return s
}

// Handler stands between authorization and the handlers of resources.
func (n narrowing) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok1 := request.RequestInfoFrom(r.Context())
		u, ok2 := request.UserFrom(r.Context())
		if !ok1 || !ok2 || !info.IsResourceRequest || info.APIGroup != certificates.GroupName || info.Resource != "certificatesigningrequests" {
			next.ServeHTTP(w, r)
			return
		}
		s := scopeOf(u)
		if s == nil {
			next.ServeHTTP(w, r)
			return
		}
		visible, err := r, error(nil)
		switch info.Verb {
		case "list", "watch":
			visible, err = s.narrow(r)
		case "get":
			err = n.visible(r, s, info.Name)
		}
		if err != nil {
			responsewriters.ErrorNegotiated(err, legacyscheme.Codecs, metav1.SchemeGroupVersion, w, r)
			return
		}
		next.ServeHTTP(w, visible)
	})
}

// narrow adds to what the caller selects what it may see at all.
func (s *scope) narrow(r *http.Request) (*http.Request, error) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("labelSelector: %v", err))
	}
	if s.ask {
		if err := s.checkAsked(selector); err != nil {
			return nil, err
		}
	}
	requirements, _ := selector.Requirements()
	own, _ := s.own.AsSelector().Requirements()
	query.Set("labelSelector", labels.NewSelector().Add(append(requirements, own...)...).String())
	narrowed := r.Clone(r.Context())
	narrowed.URL.RawQuery = query.Encode()
	return narrowed, nil
}

// checkAsked wants the selector to name one cluster, and the right one where there is one.
func (s *scope) checkAsked(selector labels.Selector) error {
	asked, found := selector.RequiresExactMatch(identity.ClusterNameLabel)
	if !found {
		return s.forbidden(fmt.Sprintf("bootstrap identities see signing requests of one cluster at a time only: add labelSelector=%s=NAME", identity.ClusterNameLabel))
	}
	if own := s.own[identity.ClusterNameLabel]; own != "" && own != asked {
		return s.forbidden(fmt.Sprintf("this join token is for cluster %s and has no access to signing requests of cluster %s", own, asked))
	}
	return nil
}

// visible looks at the request that is asked for by name. The handler reads it once more; its labels never change.
func (n narrowing) visible(r *http.Request, s *scope, name string) error {
	csr, err := n.kube.CertificatesV1().CertificateSigningRequests().Get(r.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("read signing request %s: %w", name, err))
	}
	selector := s.own.AsSelector()
	if s.ask {
		some, err := labels.NewRequirement(identity.ClusterNameLabel, selection.Exists, nil)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		selector = selector.Add(*some)
	}
	if !selector.Matches(labels.Set(csr.Labels)) {
		return s.forbidden(fmt.Sprintf("signing request %s is not of %s", name, s.user.GetName()))
	}
	return nil
}

func (s *scope) forbidden(text string) error {
	err := apierrors.NewForbidden(certificates.Resource("certificatesigningrequests"), "", fmt.Errorf("%s", text))
	err.ErrStatus.Message = fmt.Sprintf("user %q: %s", s.user.GetName(), text)
	return err
}
