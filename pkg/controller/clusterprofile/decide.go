package clusterprofile

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/membership"
)

// shown are the conditions of a cluster that its profile shows, each with the name that it has there.
func shown() [][2]string {
	return [][2]string{
		{clusterv1.ManagedClusterConditionAvailable, "ControlPlaneHealthy"},
		{clusterv1.ManagedClusterConditionJoined, "Joined"},
	}
}

// wanted tells whether a namespace with these bindings has a profile of the cluster. However many of its sets are bound, it
// is one.
func wanted(mc *clusterv1.ManagedCluster, bindings []*clusterv1beta2.ManagedClusterSetBinding, set func(name string) *clusterv1beta2.ManagedClusterSet) bool {
	if mc == nil || mc.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(bindings, func(b *clusterv1beta2.ManagedClusterSetBinding) bool {
		if !bound(b) {
			return false
		}
		s := set(b.Spec.ClusterSet)
		return s != nil && membership.Contains(s, mc)
	})
}

func bound(b *clusterv1beta2.ManagedClusterSetBinding) bool {
	return b.DeletionTimestamp == nil && meta.IsStatusConditionTrue(b.Status.Conditions, clusterv1beta2.ClusterSetBindingBoundType)
}

// labelsOf are the labels that the cluster's profiles have.
func labelsOf(mc *clusterv1.ManagedCluster) map[string]string {
	l := map[string]string{managerLabel: manager, clusterv1.ClusterNameLabelKey: mc.Name}
	if set := mc.Labels[clusterv1beta2.ClusterSetLabel]; set != "" {
		l[setLabel] = set
	}
	return l
}

// labelChange is what to merge into the labels of a profile; nothing if they are right. Labels of others stay.
func labelChange(current, want map[string]string) map[string]any {
	change := map[string]any{}
	for key, value := range want {
		if got, ok := current[key]; !ok || got != value {
			change[key] = value
		}
	}
	if _, ok := current[setLabel]; ok && want[setLabel] == "" {
		change[setLabel] = nil
	}
	return change
}

// statusOf is what a profile says of the cluster. Conditions that others have set on it stay.
func statusOf(mc *clusterv1.ManagedCluster, current status) status {
	next := status{Version: version{Kubernetes: mc.Status.Version.Kubernetes}, Properties: []property{}, Conditions: slices.Clone(current.Conditions)}
	named := map[string]bool{}
	for _, claim := range mc.Status.ClusterClaims {
		// The inventory has no properties without a value, and one of a name.
		if claim.Name == "" || claim.Value == "" || named[claim.Name] {
			continue
		}
		named[claim.Name] = true
		next.Properties = append(next.Properties, property{Name: claim.Name, Value: claim.Value})
	}
	for _, names := range shown() {
		ours, theirs := names[0], names[1]
		c := meta.FindStatusCondition(mc.Status.Conditions, ours)
		if c == nil {
			meta.RemoveStatusCondition(&next.Conditions, theirs)
			continue
		}
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{
			Type: theirs, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return next
}

// looksSame tells whether profiles show the same of a cluster before and after a change of it.
func looksSame(before, after *clusterv1.ManagedCluster) bool {
	return (before.DeletionTimestamp == nil) == (after.DeletionTimestamp == nil) &&
		equality.Semantic.DeepEqual(before.Labels, after.Labels) &&
		equality.Semantic.DeepEqual(statusOf(before, status{}), statusOf(after, status{}))
}
