package identity

import (
	"context"
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

func TestAuthorize(t *testing.T) {
	agent := Agent{Cluster: "cluster1", Name: "a1"}
	own := &user.DefaultInfo{Name: agent.User(), Groups: append(agent.Groups(), user.AllAuthenticated)}
	pass, deny := authorizer.DecisionNoOpinion, authorizer.DecisionDeny
	in := func(group, resource, namespace, name, verb string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{ResourceRequest: true, APIGroup: group, Resource: resource, Namespace: namespace, Name: name, Verb: verb}
	}
	const cluster, work = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
	for _, test := range []struct {
		name string
		user user.Info
		what authorizer.AttributesRecord
		want authorizer.Decision
	}{
		{"works of its own", own, in(work, "manifestworks", "cluster1", "", "list"), pass},
		{"works of another cluster", own, in(work, "manifestworks", "cluster2", "", "list"), deny},
		{"works of a cluster whose name begins alike", own, in(work, "manifestworks", "cluster10", "", "list"), deny},
		{"works of all clusters", own, in(work, "manifestworks", "", "", "watch"), deny},
		{"secrets of the system", own, in("", "secrets", "kube-system", "", "list"), deny},
		{"its own cluster", own, in(cluster, "managedclusters", "", "cluster1", "get"), pass},
		{"another cluster", own, in(cluster, "managedclusters", "", "cluster2", "get"), deny},
		{"all clusters", own, in(cluster, "managedclusters", "", "", "list"), deny},
		{"sets of clusters", own, in(cluster, "managedclustersets", "", "default", "get"), deny},
		{"signing requests", own, in("certificates.k8s.io", "certificatesigningrequests", "", "", "create"), pass},
		{"roles", own, in("rbac.authorization.k8s.io", "clusterroles", "", "", "create"), deny},
		{"impersonation", own, in("", "users", "", "nave-admin", "impersonate"), deny},
		{"health", own, authorizer.AttributesRecord{Path: "/healthz", Verb: "get"}, pass},
		{"groups of two clusters", &user.DefaultInfo{Name: agent.User(), Groups: append(agent.Groups(), ClusterGroup("cluster2"))},
			in(work, "manifestworks", "cluster1", "", "list"), deny},
		{"group of another cluster only", &user.DefaultInfo{Name: agent.User(), Groups: []string{ClusterGroup("cluster2")}},
			in(work, "manifestworks", "cluster2", "", "list"), deny},
		{"a cluster's group under another name", &user.DefaultInfo{Name: "someone", Groups: []string{ClusterGroup("cluster2")}},
			in(work, "manifestworks", "cluster2", "", "list"), deny},
		{"agent without its group", &user.DefaultInfo{Name: agent.User()}, in(work, "manifestworks", "cluster1", "", "list"), deny},
		{"administrator", &user.DefaultInfo{Name: "nave-admin", Groups: []string{"system:masters"}}, in("", "secrets", "", "", "list"), pass},
		{"an add-on's agent", &user.DefaultInfo{Name: "system:open-cluster-management:cluster:c1:addon:a:agent:a",
			Groups: []string{"system:open-cluster-management:cluster:c1:addon:a", "system:open-cluster-management:addon:a"}},
			in("", "configmaps", "c1", "", "list"), pass},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.what.User = test.user
			got, reason, err := Authorize(context.Background(), test.what)
			require.NoError(t, err)
			require.Equal(t, test.want, got, reason)
			require.Equal(t, test.want == deny, reason != "", "a denial says why")
		})
	}
}
