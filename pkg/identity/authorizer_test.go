package identity

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestParseAgent(t *testing.T) {
	for _, test := range []struct {
		name, user string
		want       Agent
		ok         bool
	}{
		{"agent", "system:open-cluster-management:cluster1:a1", Agent{"cluster1", "a1"}, true},
		{"another cluster whose name begins alike", "system:open-cluster-management:cluster10:a1", Agent{"cluster10", "a1"}, true},
		{"no agent name", "system:open-cluster-management:cluster1:", Agent{}, false},
		{"no cluster name", "system:open-cluster-management::a1", Agent{}, false},
		{"an agent name in capitals", "system:open-cluster-management:cluster1:A1", Agent{}, false},
		{"an agent name with letters that look alike", "system:open-cluster-management:cluster1:а1", Agent{}, false},
		{"an agent name with a line break", "system:open-cluster-management:cluster1:a1\n", Agent{}, false},
		{"only a cluster", "system:open-cluster-management:cluster1", Agent{}, false},
		{"a third part", "system:open-cluster-management:cluster1:a1:a2", Agent{}, false},
		{"an add-on's agent", "system:open-cluster-management:cluster:c1:addon:a:agent:a", Agent{}, false},
		{"capitals", "system:open-cluster-management:Cluster1:a1", Agent{}, false},
		{"letters that look alike", "system:open-cluster-management:сluster1:a1", Agent{}, false},
		{"the name that would make its group everybody's", "system:open-cluster-management:managed-clusters:a1", Agent{}, false},
		{"other prefix", "system:serviceaccount:cluster1:a1", Agent{}, false},
		{"empty", "", Agent{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := ParseAgent(test.user)
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.want, got)
			if ok {
				require.Equal(t, test.user, got.User())
			}
		})
	}
}

func TestParseAddOnAgent(t *testing.T) {
	for _, test := range []struct {
		name, user string
		want       AddOnAgent
		ok         bool
	}{
		{"agent", "system:open-cluster-management:cluster:c1:addon:a:agent:x", AddOnAgent{"c1", "a", "x"}, true},
		{"a seventh part", "system:open-cluster-management:cluster:c1:addon:a:agent:x:y", AddOnAgent{}, false},
		{"no agent", "system:open-cluster-management:cluster:c1:addon:a", AddOnAgent{}, false},
		{"capitals", "system:open-cluster-management:cluster:C1:addon:a:agent:x", AddOnAgent{}, false},
		{"other words between", "system:open-cluster-management:cluster:c1:agent:a:addon:x", AddOnAgent{}, false},
		{"a klusterlet agent", "system:open-cluster-management:c1:a1", AddOnAgent{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := ParseAddOnAgent(test.user)
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.want, got)
			if ok {
				require.Equal(t, test.user, got.User())
			}
		})
	}
}

func TestClusterOf(t *testing.T) {
	agent, addon := Agent{"c1", "a1"}, AddOnAgent{"c1", "a", "x"}
	for _, test := range []struct {
		name, user string
		groups     []string
		cluster    string
		sure, ok   bool
	}{
		{"agent", agent.User(), agent.Groups(), "c1", true, true},
		{"agent of an add-on", addon.User(), addon.Groups(), "c1", true, true},
		{"agent of an add-on with another cluster's group", addon.User(), append(addon.Groups(), ClusterGroup("c2")), "", false, false},
		{"agent of an add-on with a token", addon.ServiceAccount(), nil, "c1", false, true},
		{"another service account", "system:serviceaccount:c1:default", nil, "", false, false},
		{"administrator", "nave-admin", []string{"system:masters"}, "", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, sure, ok := ClusterOf(test.user, test.groups)
			require.Equal(t, test.cluster, cluster)
			require.Equal(t, test.sure, sure)
			require.Equal(t, test.ok, ok)
		})
	}
}

const (
	pass   = authorizer.DecisionNoOpinion
	denied = authorizer.DecisionDeny
)

func in(group, resource, namespace, name, verb string) authorizer.AttributesRecord {
	resource, sub, _ := strings.Cut(resource, "/")
	return authorizer.AttributesRecord{ResourceRequest: true, APIGroup: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, Verb: verb}
}

func path(path string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Path: path, Verb: "get"}
}

// standings are those of the clusters in these tests.
func standings(cluster string) Standing {
	switch cluster {
	case "cluster1", "cluster2", "cluster10":
		return Accepted
	case "rejected":
		return NotAccepted
	}
	return Unregistered
}

type authorizeRow struct {
	name string
	user user.Info
	what authorizer.AttributesRecord
	want authorizer.Decision
}

func testAuthorize(t *testing.T, rows []authorizeRow) {
	t.Helper()
	for _, test := range rows {
		t.Run(test.name, func(t *testing.T) {
			test.what.User = test.user
			got, reason, err := Authorizer{Standing: standings}.Authorize(context.Background(), test.what)
			require.NoError(t, err)
			require.Equal(t, test.want, got, reason)
			require.Equal(t, test.want == denied, reason != "", "a denial says why")
		})
	}
}

func TestAuthorizeAgent(t *testing.T) {
	agent := Agent{Cluster: "cluster1", Name: "a1"}
	own := &user.DefaultInfo{Name: agent.User(), Groups: append(agent.Groups(), user.AllAuthenticated)}
	const certificates, masters = "certificates.k8s.io", "system:masters"
	testAuthorize(t, []authorizeRow{
		{"works of its own", own, in(workAPI, "manifestworks", "cluster1", "", "list"), pass},
		{"making works", own, in(workAPI, "manifestworks", "cluster1", "", "create"), denied},
		{"removing works", own, in(workAPI, "manifestworks", "cluster1", "w", "delete"), denied},
		{"works of another cluster", own, in(workAPI, "manifestworks", "cluster2", "", "list"), denied},
		{"works of a cluster whose name begins alike", own, in(workAPI, "manifestworks", "cluster10", "", "list"), denied},
		{"works of all clusters", own, in(workAPI, "manifestworks", "", "", "watch"), denied},
		{"its lease", own, in("coordination.k8s.io", "leases", "cluster1", "managed-cluster-lease", "update"), pass},
		{"removing its lease", own, in("coordination.k8s.io", "leases", "cluster1", "managed-cluster-lease", "delete"), denied},
		{"its events", own, in("events.k8s.io", "events", "cluster1", "", "patch"), pass},
		{"secrets of its own", own, in("", "secrets", "cluster1", "", "list"), denied},
		{"roles of its own", own, in("rbac.authorization.k8s.io", "rolebindings", "cluster1", "", "create"), denied},
		{"removing add-ons", own, in(addonAPI, "managedclusteraddons", "cluster1", "a", "delete"), denied},
		{"token of an add-on", own, in("", "serviceaccounts/token", "cluster1", "a-agent", "create"), pass},
		{"token of another account", own, in("", "serviceaccounts/token", "cluster1", "default", "create"), denied},
		{"secrets of the system", own, in("", "secrets", "kube-system", "", "list"), denied},
		{"its own cluster", own, in(clusterAPI, "managedclusters", "", "cluster1", "get"), pass},
		{"its own status", own, in(clusterAPI, "managedclusters/status", "", "cluster1", "patch"), pass},
		{"removing itself", own, in(clusterAPI, "managedclusters", "", "cluster1", "delete"), denied},
		{"another cluster", own, in(clusterAPI, "managedclusters", "", "cluster2", "get"), denied},
		{"all clusters", own, in(clusterAPI, "managedclusters", "", "", "list"), denied},
		{"sets of clusters", own, in(clusterAPI, "managedclustersets", "", "default", "get"), denied},
		{"joining a set", own, in(clusterAPI, "managedclustersets/join", "", "default", "create"), denied},
		{"signing requests", own, in(certificates, "certificatesigningrequests", "", "", "create"), pass},
		{"approving requests", own, in(certificates, "certificatesigningrequests/approval", "", "r", "update"), denied},
		{"changing requests", own, in(certificates, "certificatesigningrequests", "", "r", "update"), denied},
		{"renewing", own, in(registerAPI, "managedclusters/clientcertificates", "", "", "renew"), pass},
		{"renewing for another cluster", own, in(registerAPI, "managedclusters/clientcertificates", "", "cluster2", "renew"), denied},
		{"accepting itself", own, in(registerAPI, "managedclusters/accept", "", "cluster1", "update"), denied},
		{"asking about itself", own, in("authorization.k8s.io", "selfsubjectaccessreviews", "", "", "create"), pass},
		{"asking about others", own, in("authorization.k8s.io", "subjectaccessreviews", "", "", "create"), denied},
		{"roles", own, in("rbac.authorization.k8s.io", "clusterroles", "", "", "create"), denied},
		{"impersonation", own, in("", "users", "", "nave-admin", "impersonate"), denied},
		{"proxies", own, in("", "services/proxy", "cluster1", "s", "get"), denied},
		{"health", own, path("/healthz"), pass},
		{"discovery", own, path("/apis/work.open-cluster-management.io/v1"), pass},
		{"metrics", own, path("/metrics"), denied},
		{"debug pages", own, path("/debug/pprof/heap"), denied},
		{"logs", own, path("/logs/"), denied},
		{"a path that begins like health", own, path("/healthzzz"), denied},
		{"groups of two clusters", &user.DefaultInfo{Name: agent.User(), Groups: append(agent.Groups(), ClusterGroup("cluster2"))},
			in(workAPI, "manifestworks", "cluster1", "", "list"), denied},
		{"group of another cluster only", &user.DefaultInfo{Name: agent.User(), Groups: []string{ClusterGroup("cluster2")}},
			in(workAPI, "manifestworks", "cluster2", "", "list"), denied},
		{"a cluster's group under another name", &user.DefaultInfo{Name: "someone", Groups: []string{ClusterGroup("cluster2")}},
			in(workAPI, "manifestworks", "cluster2", "", "list"), denied},
		{"agent without its group", &user.DefaultInfo{Name: agent.User()}, in(workAPI, "manifestworks", "cluster1", "", "list"), denied},
		{"administrator", &user.DefaultInfo{Name: "nave-admin", Groups: []string{masters}}, in("", "secrets", "", "", "list"), pass},
	})
}

func TestAuthorizeAgentThatIsNotAccepted(t *testing.T) {
	agent := Agent{Cluster: "rejected", Name: "a1"}
	own := &user.DefaultInfo{Name: agent.User(), Groups: agent.Groups()}
	testAuthorize(t, []authorizeRow{
		{"sees that it is not", own, in(clusterAPI, "managedclusters", "", "rejected", "watch"), pass},
		{"its status", own, in(clusterAPI, "managedclusters/status", "", "rejected", "patch"), denied},
		{"its works", own, in(workAPI, "manifestworks", "rejected", "", "list"), denied},
		{"its lease", own, in("coordination.k8s.io", "leases", "rejected", "managed-cluster-lease", "update"), denied},
		{"signing requests", own, in("certificates.k8s.io", "certificatesigningrequests", "", "", "create"), denied},
		{"renewing", own, in(registerAPI, "managedclusters/clientcertificates", "", "rejected", "renew"), denied},
		{"asking about itself", own, in("authorization.k8s.io", "selfsubjectaccessreviews", "", "", "create"), pass},
		{"health", own, path("/livez"), pass},
		{"its add-on with a token", &user.DefaultInfo{Name: "system:serviceaccount:rejected:a-agent"}, in("", "configmaps", "rejected", "", "list"), denied},
	})
}

func TestAuthorizeAddOn(t *testing.T) {
	agent := AddOnAgent{Cluster: "cluster1", AddOn: "a", Name: "a"}
	own := &user.DefaultInfo{Name: agent.User(), Groups: agent.Groups()}
	gone := AddOnAgent{Cluster: "rejected", AddOn: "a", Name: "a"}
	testAuthorize(t, []authorizeRow{
		{"what its role says", own, in("", "configmaps", "cluster1", "", "list"), pass},
		{"a namespace that is no cluster's", own, in("", "configmaps", "broker", "", "list"), pass},
		{"another cluster's namespace", own, in("", "configmaps", "cluster2", "", "list"), denied},
		{"another cluster", own, in(clusterAPI, "managedclusters", "", "cluster2", "get"), denied},
		{"groups of two clusters", &user.DefaultInfo{Name: agent.User(), Groups: append(agent.Groups(), ClusterGroup("cluster2"))},
			in(workAPI, "manifestworks", "cluster2", "", "list"), denied},
		{"group of another cluster's add-on", &user.DefaultInfo{Name: "someone", Groups: agent.Groups()}, in("", "configmaps", "cluster1", "", "list"), denied},
		{"cluster that is not accepted", &user.DefaultInfo{Name: gone.User(), Groups: gone.Groups()}, in("", "configmaps", "rejected", "", "list"), denied},
	})
}

func TestAuthorizeBootstrap(t *testing.T) {
	shared := &user.DefaultInfo{Name: BootstrapAccount, Groups: []string{"system:serviceaccounts"}}
	bound := &user.DefaultInfo{Name: BootstrapUserPrefix + "abcdef", Groups: []string{BootstrapGroup}, Extra: map[string][]string{JoinClusterExtra: {"new"}}}
	testAuthorize(t, []authorizeRow{
		{"a cluster", shared, in(clusterAPI, "managedclusters", "", "cluster1", "get"), pass},
		{"one cluster of the list", shared, in(clusterAPI, "managedclusters", "", "cluster1", "watch"), pass},
		{"all clusters", shared, in(clusterAPI, "managedclusters", "", "", "list"), denied},
		{"making a cluster", shared, in(clusterAPI, "managedclusters", "", "", "create"), pass},
		{"changing a cluster", shared, in(clusterAPI, "managedclusters", "", "cluster1", "update"), denied},
		{"its status", shared, in(clusterAPI, "managedclusters/status", "", "cluster1", "patch"), denied},
		{"what the hub tells everybody", shared, in("", "configmaps", "kube-public", "cluster-info", "get"), pass},
		{"other configuration", shared, in("", "configmaps", "kube-system", "extension-apiserver-authentication", "get"), denied},
		{"works", shared, in(workAPI, "manifestworks", "cluster1", "", "list"), denied},
		{"metrics", shared, path("/metrics"), denied},
		{"its token's cluster", bound, in(clusterAPI, "managedclusters", "", "new", "get"), pass},
		{"another cluster than its token's", bound, in(clusterAPI, "managedclusters", "", "cluster1", "get"), denied},
		{"asking without a name whether it may", bound, in(clusterAPI, "managedclusters", "", "", "get"), pass},
	})
}
