package clusterset

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

func TestManagedNamespaces(t *testing.T) {
	set := func(name string, selector clusterv1beta2.ManagedClusterSelector, namespaces ...string) *clusterv1beta2.ManagedClusterSet {
		s := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: selector}}
		for _, n := range namespaces {
			s.Spec.ManagedNamespaces = append(s.Spec.ManagedNamespaces, clusterv1.ManagedNamespaceConfig{Name: n})
		}
		return s
	}
	global := clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}}
	entry := func(set, name string, conditions ...metav1.Condition) clusterv1.ClusterSetManagedNamespaceConfig {
		return clusterv1.ClusterSetManagedNamespaceConfig{ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: name}, ClusterSet: set, Conditions: conditions}
	}
	applied := metav1.Condition{Type: "NamespaceAvailable", Status: metav1.ConditionTrue}
	now := metav1.Now()
	leaving := set("old", global, "z")
	leaving.DeletionTimestamp = &now
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1beta2.ClusterSetLabel: "prod"}},
		Status: clusterv1.ManagedClusterStatus{ManagedNamespaces: []clusterv1.ClusterSetManagedNamespaceConfig{
			entry("prod", "a", applied), entry("lab", "a", applied), entry("prod", "gone", applied),
		}},
	}
	got := managedNamespaces(mc, []*clusterv1beta2.ManagedClusterSet{
		set("prod", clusterv1beta2.ManagedClusterSelector{}, "b", "a"), set("global", global, "c"), set("lab", clusterv1beta2.ManagedClusterSelector{}, "a"), leaving,
	})
	require.Equal(t, []clusterv1.ClusterSetManagedNamespaceConfig{entry("global", "c"), entry("prod", "a", applied), entry("prod", "b")}, got)
	require.Empty(t, managedNamespaces(mc, nil))
}
