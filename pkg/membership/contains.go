// Package membership says which clusters are in a cluster set.
package membership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

// Contains tells whether a cluster is in a set (spec 1.7). One that is being deleted still is.
func Contains(set *clusterv1beta2.ManagedClusterSet, mc *clusterv1.ManagedCluster) bool {
	return Of(set)(mc)
}

// Of is Contains for one set and many clusters: it reads the set's selector once.
func Of(set *clusterv1beta2.ManagedClusterSet) func(*clusterv1.ManagedCluster) bool {
	switch set.Spec.ClusterSelector.SelectorType {
	case "", clusterv1beta2.ExclusiveClusterSetLabel:
		name := set.Name
		return func(mc *clusterv1.ManagedCluster) bool { return mc.Labels[clusterv1beta2.ClusterSetLabel] == name }
	case clusterv1beta2.LabelSelector:
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.ClusterSelector.LabelSelector) // nil selects nothing
		if err == nil {
			return func(mc *clusterv1.ManagedCluster) bool { return selector.Matches(labels.Set(mc.Labels)) }
		}
	}
	return func(*clusterv1.ManagedCluster) bool { return false }
}
