package cluster

import (
	"slices"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// KeepAvailability keeps the taints by which the hub says that a cluster cannot be reached, or is not well, in what anybody but
// the hub writes. They share a list with those of users, and kubectl apply of such a list takes away what is not in it. The hub
// would put them back at once; but meanwhile placements would choose the cluster, and the seconds for which these tolerate the
// taint would begin anew with every apply. A new cluster begins with the taint, since nothing has been heard of it. old is nil on
// create.
func KeepAvailability(mc, old *clusterv1.ManagedCluster) {
	kept := []clusterv1.Taint{{Key: clusterv1.ManagedClusterTaintUnreachable, Effect: clusterv1.TaintEffectNoSelect}}
	if old != nil {
		kept = slices.Clone(old.Spec.Taints)
	}
	for _, taint := range kept {
		ofHub := taint.Key == clusterv1.ManagedClusterTaintUnreachable || taint.Key == clusterv1.ManagedClusterTaintUnavailable
		if ofHub && !slices.ContainsFunc(mc.Spec.Taints, func(t clusterv1.Taint) bool { return t.Key == taint.Key }) {
			mc.Spec.Taints = append(mc.Spec.Taints, taint)
		}
	}
}
