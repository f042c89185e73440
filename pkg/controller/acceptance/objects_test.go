package acceptance

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClusterRole(t *testing.T) {
	accepted := clusterRole("c1", true)
	require.Equal(t, "open-cluster-management:managedcluster:c1", accepted.Name)
	require.Len(t, accepted.Rules, 4)
	denied := clusterRole("c1", false)
	require.Len(t, denied.Rules, 1, "a denied cluster sees that it is denied")
	for _, role := range []*rbacv1.ClusterRole{accepted, denied} {
		require.Equal(t, "c1", role.Labels["open-cluster-management.io/cluster-name"])
		for _, r := range role.Rules {
			if r.APIGroups[0] == clusterGroup {
				require.Equal(t, []string{"c1"}, r.ResourceNames, "never another cluster")
				require.NotContains(t, r.Verbs, "create")
				require.NotContains(t, r.Verbs, "delete")
			}
		}
	}
}

func TestBindingsAreOfOneCluster(t *testing.T) {
	for _, b := range roleBindings("c1") {
		require.Equal(t, "c1", b.Namespace)
		require.Equal(t, []string{"system:open-cluster-management:c1", "open-cluster-management:c1"}, []string{b.Subjects[0].Name, b.Subjects[1].Name})
	}
	require.Equal(t, []string{workFinalizer}, roleBindings("c1")[1].Finalizers)
	require.Empty(t, roleBindings("c1")[0].Finalizers)
}

func TestSharedRolesGiveNoSecrets(t *testing.T) {
	for _, role := range sharedRoles() {
		for _, r := range role.Rules {
			require.NotContains(t, r.Resources, "secrets")
			require.NotContains(t, r.Resources, "*")
			require.NotContains(t, r.Verbs, "*")
		}
	}
}

func TestMerge(t *testing.T) {
	current := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"mine": "x"}, Finalizers: []string{"f"}}}
	wanted := roleBindings("c1")[1]
	require.True(t, mergeLabels(current, wanted))
	require.True(t, mergeFinalizers(current, wanted))
	require.Equal(t, "x", current.Labels["mine"], "others' labels stay")
	require.Equal(t, []string{"f", workFinalizer}, current.Finalizers)
	require.False(t, mergeLabels(current, wanted), "and then nothing is left to change")
	require.False(t, mergeFinalizers(current, wanted))
}
