// Package identity holds the mapping between names and subjects: which user and groups an agent of a managed cluster has
// on the hub, and how such a subject is taken apart again. Peers depend on the spelling (spec 0.3).
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// prefix of every user and group that stands for a managed cluster.
	prefix = "system:open-cluster-management:"

	// ManagedClustersGroup is the group of the agents of all managed clusters.
	ManagedClustersGroup = prefix + "managed-clusters"

	// BootstrapGroup is the group of everyone who may ask to register a cluster and nothing else.
	BootstrapGroup = "system:bootstrappers:managedcluster"

	// BootstrapUserPrefix precedes the token id in the user name of a join or bootstrap token.
	BootstrapUserPrefix = "system:bootstrap:"

	// JoinTokenExtra carries, among what the API server knows of a requester, the id of the join token that it came with.
	JoinTokenExtra = "nave.dev/join-token"

	// JoinClusterExtra carries the one cluster that such a token is for, where it is for one.
	JoinClusterExtra = "nave.dev/join-cluster"

	// BootstrapAccount is the service account that everyone may share who asks to register a cluster (spec 1.6).
	BootstrapAccount = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"

	// RequesterLabel marks a CSR with who made it, as RequesterHash of the user. Only admission sets it.
	RequesterLabel = "nave.dev/requester"

	// CreatedByAnnotation names the user that made a ManagedCluster. Only admission writes it.
	CreatedByAnnotation = "nave.dev/created-by"

	// ForceRemovalAnnotation, set to "true" on a ManagedCluster that is being deleted, lets it go without its agent.
	ForceRemovalAnnotation = "nave.dev/force-removal"

	// ClientCAAnnotation names, on a ManagedCluster, the CA that signed its agent's certificate.
	ClientCAAnnotation = "nave.dev/client-ca"

	// ClusterNameLabel marks what belongs to one managed cluster: CSRs, namespaces, RBAC objects, leases.
	ClusterNameLabel = "open-cluster-management.io/cluster-name"

	// AddOnNameLabel marks the CSRs of add-on agents.
	AddOnNameLabel = "open-cluster-management.io/addon-name"
)

// Agent names the klusterlet agent of one managed cluster.
type Agent struct {
	Cluster string // name of the ManagedCluster
	Name    string // name of the agent within the cluster
}

// User is the agent's user name on the hub, the common name of its certificate.
func (a Agent) User() string { return prefix + a.Cluster + ":" + a.Name }

// Groups are the agent's groups on the hub, the organisations of its certificate.
func (a Agent) Groups() []string { return []string{ClusterGroup(a.Cluster), ManagedClustersGroup} }

// ClusterGroup is the group of all agents of one managed cluster.
func ClusterGroup(cluster string) string { return prefix + cluster }

// ParseAgent takes an agent's user name apart. It reports false for every other user: the name has to be the prefix and
// exactly two parts, a valid name of a cluster and one of an agent, so cluster1 and cluster10 never mix.
func ParseAgent(user string) (Agent, bool) {
	rest, ok := strings.CutPrefix(user, prefix)
	if !ok {
		return Agent{}, false
	}
	cluster, name, ok := strings.Cut(rest, ":")
	if !ok || !validName(name) || !ValidClusterName(cluster) {
		return Agent{}, false
	}
	return Agent{Cluster: cluster, Name: name}, true
}

// AgentOf returns the agent that a user with these groups is. The cluster's own group must be present and no other
// cluster's group may be: a certificate that names two clusters is nobody's.
func AgentOf(user string, groups []string) (Agent, bool) {
	agent, ok := ParseAgent(user)
	if !ok || !slices.Contains(groups, ClusterGroup(agent.Cluster)) {
		return Agent{}, false
	}
	for _, g := range groups {
		if strings.HasPrefix(g, prefix) && g != ManagedClustersGroup && g != ClusterGroup(agent.Cluster) {
			return Agent{}, false
		}
	}
	return agent, true
}

// RequesterHash stands for a user where its name cannot: in the value of a label.
func RequesterHash(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:20])
}

// validName reports whether an agent or an add-on may have this name: small letters, digits, dashes and dots, so that no
// two names only look alike.
func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// reservedNames are names that no managed cluster may have, and why.
func reservedNames() map[string]string {
	const hubs = "the namespace of this name is the hub's own"
	return map[string]string{
		"managed-clusters":            "its group would be the group of all managed clusters",
		"default":                     hubs,
		"kube-system":                 hubs,
		"kube-public":                 hubs,
		"kube-node-lease":             hubs,
		"open-cluster-management":     hubs,
		"open-cluster-management-hub": hubs,
	}
}

// ValidClusterName reports whether a managed cluster may have this name: it becomes a namespace, so it is a DNS label.
func ValidClusterName(name string) bool { return len(CheckClusterName(name)) == 0 }

// CheckClusterName says what is wrong with a managed cluster's name, in the words of Kubernetes' own checks.
func CheckClusterName(name string) []string {
	if why, reserved := reservedNames()[name]; reserved {
		return []string{"the name is reserved: " + why}
	}
	return validation.IsDNS1123Label(name)
}
