package identity

import (
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// IsBootstrap tells whether a user may ask to register clusters and nothing else: the holder of a join token, of a
// bootstrap token for clusters, or of the shared service account.
func IsBootstrap(u user.Info) bool {
	return u.GetName() == BootstrapAccount || slices.Contains(u.GetGroups(), BootstrapGroup)
}

// JoinClusterOf is the one cluster that the user's join token is for; empty if it is no such user or its token is for any.
func JoinClusterOf(u user.Info) string {
	if values := u.GetExtra()[JoinClusterExtra]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// bootstrapRules are what registering a cluster takes (spec 1.6, 9.2). Which signing requests a list shows is narrowed
// where lists are made, since a self review asks for the right without saying which.
func bootstrapRules() []permission {
	return append(selfReviews(),
		permission{"certificates.k8s.io", "certificatesigningrequests", []string{"create", "get", "list", "watch"}},
		permission{clusterAPI, "managedclusters", []string{"create", "get", "list", "watch"}},
		permission{clusterAPI, "managedclustersets/join", []string{"create"}},
	)
}

// authorizeBootstrap keeps who may ask to register a cluster from seeing other clusters (spec 10.1, S8).
func authorizeBootstrap(a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() {
		return publicPath(a, "bootstrap identities")
	}
	if a.GetNamespace() != "" {
		if a.GetNamespace() == "kube-public" && a.GetAPIGroup() == "" && a.GetResource() == "configmaps" && a.GetVerb() == "get" {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return deny("bootstrap identities have no access to namespace %s", a.GetNamespace())
	}
	if !permits(bootstrapRules(), a) {
		return deny("bootstrap identities may not %s %s", a.GetVerb(), described(a))
	}
	if a.GetAPIGroup() != clusterAPI || a.GetResource() != "managedclusters" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if a.GetName() == "" && (a.GetVerb() == "list" || a.GetVerb() == "watch") {
		return deny("bootstrap identities may %s managedclusters one at a time only: add fieldSelector=metadata.name=NAME", a.GetVerb())
	}
	if own := JoinClusterOf(a.GetUser()); own != "" && a.GetName() != "" && a.GetName() != own {
		return deny("this join token is for cluster %s and has no access to cluster %s", own, a.GetName())
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func deny(format string, arguments ...any) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, fmt.Sprintf(format, arguments...), nil
}
