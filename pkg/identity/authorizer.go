package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// clusterScoped are the resources outside of namespaces that an agent needs (spec 9.2, 9.4), by group and name.
var clusterScoped = map[string]bool{
	"certificates.k8s.io/certificatesigningrequests":            true,
	"register.open-cluster-management.io/managedclusters":       true,
	"authorization.k8s.io/selfsubjectaccessreviews":             true,
	"authorization.k8s.io/selfsubjectrulesreviews":              true,
	"authentication.k8s.io/selfsubjectreviews":                  true,
	"cluster.open-cluster-management.io/managedclusters":        true, // its own, see below
	"cluster.open-cluster-management.io/managedclusters/status": true,
}

// Authorize draws the line that no role can move: whoever is an agent of one managed cluster touches that cluster's
// namespace, its own ManagedCluster and its own signing requests, and nothing else (D5). It only ever denies; what it lets
// pass, RBAC still has to allow. It is an authorizer.AuthorizerFunc.
func Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u := a.GetUser()
	if u == nil || !claimsCluster(u.GetName(), u.GetGroups()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	agent, ok := AgentOf(u.GetName(), u.GetGroups())
	if !ok {
		return authorizer.DecisionDeny, "user and groups do not name one and the same managed cluster", nil
	}
	if !a.IsResourceRequest() {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if ns := a.GetNamespace(); ns != "" {
		if ns == agent.Cluster {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return authorizer.DecisionDeny, fmt.Sprintf("agents of cluster %s have no access to namespace %s", agent.Cluster, ns), nil
	}
	return agent.authorizeClusterScope(a)
}

func (agent Agent) authorizeClusterScope(a authorizer.Attributes) (authorizer.Decision, string, error) {
	resource := a.GetAPIGroup() + "/" + a.GetResource()
	if a.GetAPIGroup() == "cluster.open-cluster-management.io" && a.GetResource() == "managedclusters" && a.GetName() != agent.Cluster {
		return authorizer.DecisionDeny, fmt.Sprintf("agents of cluster %s have no access to other clusters", agent.Cluster), nil
	}
	if !clusterScoped[resource] {
		return authorizer.DecisionDeny, fmt.Sprintf("agents of cluster %s have no access to %s outside of its namespace", agent.Cluster, resource), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// claimsCluster tells whether a user is, or pretends to be, the klusterlet agent of a cluster. The agents of add-ons have
// names and groups of their own (spec 0.3) and rights that their add-on gives them.
func claimsCluster(user string, groups []string) bool {
	if slices.Contains(groups, ManagedClustersGroup) {
		return true
	}
	if _, ok := ParseAgent(user); ok {
		return true
	}
	return slices.ContainsFunc(groups, func(g string) bool {
		cluster, ok := strings.CutPrefix(g, prefix)
		return ok && ValidClusterName(cluster)
	})
}
