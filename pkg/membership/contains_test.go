package membership

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

func TestContains(t *testing.T) {
	edge := map[string]string{"site": "edge", clusterv1beta2.ClusterSetLabel: "prod"}
	for _, test := range []struct {
		name     string
		selector clusterv1beta2.ManagedClusterSelector
		want     bool
	}{
		{"exclusive, of the label", clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.ExclusiveClusterSetLabel}, true},
		{"no type is exclusive", clusterv1beta2.ManagedClusterSelector{}, true},
		{"labels that match", clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": "edge"}}}, true},
		{"labels that do not", clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": "lab"}}}, false},
		{"empty selector is all", clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}}, true},
		{"no selector is none", clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.LabelSelector}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: test.selector}}
			require.Equal(t, test.want, Contains(set, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: edge}}))
		})
	}
	other := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "production"}}
	require.False(t, Contains(other, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: edge}}))
}
