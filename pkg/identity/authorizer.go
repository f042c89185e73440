package identity

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Standing is how a managed cluster stands with the hub.
type Standing string

// Standings. A cluster that is being deleted stays what it was, so that its agent can clean up.
const (
	Unregistered Standing = "unregistered" // there is no such ManagedCluster
	NotAccepted  Standing = "not accepted" // nobody accepted it yet, or it was rejected
	Accepted     Standing = "accepted"
)

// Authorizer draws the lines that no role can move: whoever is an agent of one managed cluster touches, of that cluster's
// namespace, its ManagedCluster and its signing requests, what an agent needs, while the cluster is accepted; and who may
// ask to register a cluster does just that (D5). It only ever denies; what it lets pass, RBAC still has to allow.
type Authorizer struct {
	// Standing tells how a cluster stands.
	Standing func(cluster string) Standing
}

// agentNamespaceRules are what an agent needs in its cluster's namespace (spec 9.2, 9.3).
func agentNamespaceRules() []permission {
	events := []string{"create", "patch", "update"}
	return []permission{
		{"coordination.k8s.io", "leases", []string{"get", "list", "watch", "update"}},
		{addonAPI, "managedclusteraddons", []string{"get", "list", "watch"}},
		{addonAPI, "managedclusteraddons/status", []string{"patch", "update"}},
		{workAPI, "manifestworks", []string{"get", "list", "watch", "update", "patch"}},
		{workAPI, "manifestworks/status", []string{"patch", "update"}},
		{"", "events", events},
		{"events.k8s.io", "events", events},
		{"", "serviceaccounts/token", []string{"create"}}, // of add-ons with a token, see below
	}
}

// agentClusterRules are what an agent needs outside of namespaces. A ManagedCluster is its own, and so is a renewal.
func agentClusterRules() []permission {
	return append(selfReviews(),
		permission{"certificates.k8s.io", "certificatesigningrequests", []string{"create", "get", "list", "watch"}},
		permission{registerAPI, "managedclusters/clientcertificates", []string{"renew"}},
		permission{clusterAPI, "managedclusters", []string{"get", "list", "watch", "update"}},
		permission{clusterAPI, "managedclusters/status", []string{"patch", "update"}},
	)
}

// waitingRules are what is left of them to the agent of a cluster that is not accepted: to see that it is not.
func waitingRules() []permission {
	return append(selfReviews(), permission{clusterAPI, "managedclusters", []string{"get", "list", "watch"}})
}

// Authorize is an authorizer.AuthorizerFunc.
func (z Authorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u := a.GetUser()
	if u == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	switch name, groups := u.GetName(), u.GetGroups(); {
	case claimsCluster(name, groups):
		if agent, ok := AgentOf(name, groups); ok {
			return z.authorizeAgent(agent, a)
		}
		return deny("user and groups do not name one and the same managed cluster")
	case claimsAddOn(name, groups):
		if agent, ok := AddOnAgentOf(name, groups); ok {
			return z.authorizeAddOn(agent.Cluster, a)
		}
		return deny("user and groups do not name one and the same add-on of one managed cluster")
	case IsBootstrap(u):
		return authorizeBootstrap(a)
	default:
		if cluster, _, ok := ClusterOf(name, groups); ok && z.Standing(cluster) == NotAccepted {
			return z.authorizeAddOn(cluster, a)
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

func (z Authorizer) authorizeAgent(agent Agent, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() {
		return publicPath(a, "agents")
	}
	if ns := a.GetNamespace(); ns != "" && ns != agent.Cluster {
		return deny("agents of cluster %s have no access to namespace %s", agent.Cluster, ns)
	}
	if named := a.GetName(); isManagedCluster(a) && named != agent.Cluster && (named != "" || a.GetAPIGroup() == clusterAPI) {
		return deny("agents of cluster %s have no access to other clusters", agent.Cluster)
	}
	if z.Standing(agent.Cluster) != Accepted {
		if a.GetNamespace() == "" && permits(waitingRules(), a) {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return deny("cluster %s is not accepted by this hub", agent.Cluster)
	}
	rules := agentClusterRules()
	if a.GetNamespace() != "" {
		rules = agentNamespaceRules()
	}
	if !permits(rules, a) {
		return deny("agents of managed clusters may not %s %s", a.GetVerb(), described(a))
	}
	if a.GetResource() == "serviceaccounts" && !strings.HasSuffix(a.GetName(), accountSuffix) {
		return deny("agents of managed clusters have no access to tokens of service accounts other than those of add-on agents, whose names end in %s", accountSuffix)
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// authorizeAddOn leaves to the add-on's own roles what its agent may do, but on no account in another cluster's namespace
// or for a cluster that is not accepted.
func (z Authorizer) authorizeAddOn(cluster string, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if z.Standing(cluster) != Accepted {
		if !a.IsResourceRequest() {
			return publicPath(a, "agents of clusters that are not accepted")
		}
		return deny("cluster %s is not accepted by this hub", cluster)
	}
	if ns := a.GetNamespace(); ns != "" && ns != cluster && z.Standing(ns) != Unregistered {
		return deny("agents of cluster %s have no access to namespace %s, which is another cluster's", cluster, ns)
	}
	if named := a.GetName(); isManagedCluster(a) && named != "" && named != cluster {
		return deny("agents of cluster %s have no access to other clusters", cluster)
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// isManagedCluster tells whether a request is about ManagedClusters or about rights that bear their name.
func isManagedCluster(a authorizer.Attributes) bool {
	return a.GetResource() == "managedclusters" && (a.GetAPIGroup() == clusterAPI || a.GetAPIGroup() == registerAPI)
}

// claimsCluster tells whether a user is, or pretends to be, the klusterlet agent of a cluster. The agents of add-ons have
// names and groups of their own (spec 0.3).
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
