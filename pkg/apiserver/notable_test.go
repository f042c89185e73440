package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestNotable(t *testing.T) {
	const admin, agent = "nave-admin", "system:open-cluster-management:c1:a1"
	for _, test := range []struct {
		name                  string
		by, verb              string
		group, resource, sub  string
		object                string
		code                  int32
		token, asSomebodyElse bool
		want                  bool
	}{
		{"token is made", admin, "create", "", "secrets", "", "join-token-a", 201, false, false, true},
		{"token's use is recorded", user.APIServerUser, "update", "", "secrets", "", "join-token-a", 200, false, false, true},
		{"token is used", "system:bootstrap:a", "create", "cluster.open-cluster-management.io", "managedclusters", "", "c1", 201, true, false, true},
		{"token is read with", "system:bootstrap:a", "get", "cluster.open-cluster-management.io", "managedclusters", "", "c1", 200, false, false, false},
		{"cluster is accepted", admin, "patch", "cluster.open-cluster-management.io", "managedclusters", "", "c1", 200, false, false, true},
		{"request is approved by the hub", user.APIServerUser, "update", "certificates.k8s.io", "certificatesigningrequests", "approval", "x", 200, false, false, true},
		{"right is given", admin, "create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "x", 201, false, false, true},
		{"right follows from acceptance", user.APIServerUser, "create", "rbac.authorization.k8s.io", "rolebindings", "", "x", 201, false, false, false},
		{"hub makes its namespaces", user.APIServerUser, "create", "", "namespaces", "", "kube-system", 201, false, false, false},
		{"somebody is denied", agent, "get", "", "secrets", "", "x", 403, false, false, true},
		{"somebody is unknown", "", "list", "", "namespaces", "", "", 401, false, false, true},
		{"somebody asks too much", agent, "create", "", "events", "", "", 429, false, false, true},
		{"somebody is somebody else", admin, "get", "", "namespaces", "", "x", 200, false, true, true},
		{"heartbeat", agent, "update", "coordination.k8s.io", "leases", "", "managed-cluster-lease", 200, false, false, false},
		{"status", agent, "patch", "cluster.open-cluster-management.io", "managedclusters", "status", "c1", 200, false, false, false},
		{"watch", agent, "watch", "work.open-cluster-management.io", "manifestworks", "", "", 200, false, false, false},
		{"conflict", admin, "update", "cluster.open-cluster-management.io", "managedclusters", "", "c1", 409, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &auditinternal.Event{
				Verb: test.verb, User: authenticationv1.UserInfo{Username: test.by}, ResponseStatus: &metav1.Status{Code: test.code},
				ObjectRef: &auditinternal.ObjectReference{APIGroup: test.group, Resource: test.resource, Subresource: test.sub, Name: test.object},
			}
			if test.token {
				e.Annotations = map[string]string{tokenAnnotation: "a"}
			}
			if test.asSomebodyElse {
				e.ImpersonatedUser = &authenticationv1.UserInfo{Username: "x"}
			}
			require.Equal(t, test.want, notable(e))
		})
	}
}
