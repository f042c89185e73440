package identity

import (
	"slices"
	"strings"
)

const (
	// addOnPrefix precedes, in users and groups, the cluster that an add-on's agent runs on.
	addOnPrefix = prefix + "cluster:"
	// addOnGroupPrefix precedes the name of an add-on in the group of its agents on all clusters.
	addOnGroupPrefix = prefix + "addon:"
)

// AddOnAgent names the agent of an add-on on one managed cluster (spec 0.3).
type AddOnAgent struct {
	Cluster string // name of the ManagedCluster
	AddOn   string // name of the ManagedClusterAddOn in the cluster's namespace
	Name    string // name of the agent; one add-on may have several
}

// User is the agent's user name on the hub, the common name of its certificate.
func (a AddOnAgent) User() string {
	return addOnPrefix + a.Cluster + ":addon:" + a.AddOn + ":agent:" + a.Name
}

// Groups are the agent's groups on the hub, the organisations of its certificate.
func (a AddOnAgent) Groups() []string {
	return []string{addOnPrefix + a.Cluster + ":addon:" + a.AddOn, addOnGroupPrefix + a.AddOn}
}

// Host is the one DNS name that the certificate of an add-on's agent may have.
func (a AddOnAgent) Host() string { return a.AddOn + ".addon.open-cluster-management.io" }

// ServiceAccount is the user that the add-on's agent is with a token instead of a certificate (spec 2.6).
func (a AddOnAgent) ServiceAccount() string {
	return serviceAccountPrefix + a.Cluster + ":" + a.AddOn + accountSuffix
}

// ParseAddOnAgent takes the user name of an add-on's agent apart; it reports false for every other user.
func ParseAddOnAgent(user string) (AddOnAgent, bool) {
	rest, ok := strings.CutPrefix(user, addOnPrefix)
	if !ok {
		return AddOnAgent{}, false
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 5 || parts[1] != "addon" || parts[3] != "agent" {
		return AddOnAgent{}, false
	}
	a := AddOnAgent{Cluster: parts[0], AddOn: parts[2], Name: parts[4]}
	if !ValidClusterName(a.Cluster) || !validName(a.AddOn) || !validName(a.Name) {
		return AddOnAgent{}, false
	}
	return a, true
}

// AddOnAgentOf returns the add-on's agent that a user with these groups is. Groups of agents other than its own make it
// nobody.
func AddOnAgentOf(user string, groups []string) (AddOnAgent, bool) {
	a, ok := ParseAddOnAgent(user)
	if !ok {
		return AddOnAgent{}, false
	}
	own := a.Groups()
	foreign := func(g string) bool { return strings.HasPrefix(g, prefix) && !slices.Contains(own, g) }
	if !slices.Contains(groups, own[0]) || slices.ContainsFunc(groups, foreign) {
		return AddOnAgent{}, false
	}
	return a, true
}

// claimsAddOn tells whether a user is, or pretends to be, the agent of an add-on on a cluster.
func claimsAddOn(user string, groups []string) bool {
	if _, ok := ParseAddOnAgent(user); ok {
		return true
	}
	return slices.ContainsFunc(groups, func(g string) bool {
		rest, ok := strings.CutPrefix(g, addOnPrefix)
		return ok && strings.Contains(rest, ":addon:")
	})
}

const (
	serviceAccountPrefix = "system:serviceaccount:"
	accountSuffix        = "-agent"
)

// ClusterOf is the managed cluster whose cut-off ends the access of this user: that of an agent, of an add-on's agent with
// a certificate, or of one with a token, which is a service account in the cluster's namespace. Of a service account the
// name alone does not tell whether its namespace is a cluster's at all; sure is false then.
func ClusterOf(user string, groups []string) (cluster string, sure, ok bool) {
	if agent, ok := AgentOf(user, groups); ok {
		return agent.Cluster, true, true
	}
	if agent, ok := AddOnAgentOf(user, groups); ok {
		return agent.Cluster, true, true
	}
	rest, ok := strings.CutPrefix(user, serviceAccountPrefix)
	if !ok {
		return "", false, false
	}
	namespace, account, _ := strings.Cut(rest, ":")
	if !strings.HasSuffix(account, accountSuffix) || !ValidClusterName(namespace) {
		return "", false, false
	}
	return namespace, false, true
}
