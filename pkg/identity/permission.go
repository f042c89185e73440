package identity

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	clusterAPI  = "cluster.open-cluster-management.io"
	registerAPI = "register.open-cluster-management.io"
	workAPI     = "work.open-cluster-management.io"
	addonAPI    = "addon.open-cluster-management.io"
)

// permission is something that a kind of identity can be given at all, whatever roles say.
type permission struct {
	group    string
	resource string // with its subresource, as resource/subresource
	verbs    []string
}

func permits(rules []permission, a authorizer.Attributes) bool {
	resource := resourceOf(a)
	return slices.ContainsFunc(rules, func(p permission) bool {
		return p.group == a.GetAPIGroup() && p.resource == resource && slices.Contains(p.verbs, a.GetVerb())
	})
}

func resourceOf(a authorizer.Attributes) string {
	if a.GetSubresource() == "" {
		return a.GetResource()
	}
	return a.GetResource() + "/" + a.GetSubresource()
}

// described is a resource as people write it: resource.group, with its subresource.
func described(a authorizer.Attributes) string {
	if a.GetAPIGroup() == "" {
		return resourceOf(a)
	}
	return resourceOf(a) + "." + a.GetAPIGroup()
}

// selfReviews let everybody ask about themselves, as klusterlets do before they start (spec 9.4).
func selfReviews() []permission {
	create := []string{"create"}
	return []permission{
		{"authorization.k8s.io", "selfsubjectaccessreviews", create},
		{"authorization.k8s.io", "selfsubjectrulesreviews", create},
		{"authentication.k8s.io", "selfsubjectreviews", create},
	}
}

// publicPath lets identities from outside read what says how the hub is and what it serves, and nothing else that is no
// resource: no metrics, logs or debug pages.
func publicPath(a authorizer.Attributes, who string) (authorizer.Decision, string, error) {
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi", "/cacerts"} {
		if a.GetPath() == path || strings.HasPrefix(a.GetPath(), path+"/") {
			return authorizer.DecisionNoOpinion, "", nil
		}
	}
	return deny("%s have no access to %s", who, a.GetPath())
}
