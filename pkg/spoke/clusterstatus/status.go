package clusterstatus

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

const (
	// maxCustomClaims is how many claims beside the reserved ones are reported, as upstream's default has it.
	maxCustomClaims = 20

	spokeOnlyLabel       = "open-cluster-management.io/spoke-only"
	conditionClockSynced = "ManagedClusterConditionClockSynced"
)

// observed is what the agent saw of its cluster.
type observed struct {
	version string
	health  int // status code of the API server's health check
	detail  string
	nodes   []*corev1.Node
	claims  []*clusterv1alpha1.ClusterClaim
}

// clockApart tells whether the hub found this cluster's clock to be wrong; then nothing that the agent says has a time
// that means anything, and it says nothing.
func clockApart(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionFalse(mc.Status.Conditions, conditionClockSynced)
}

// next is the status that the cluster should have by what was observed (spec 2.4).
func next(mc *clusterv1.ManagedCluster, o observed) clusterv1.ManagedClusterStatus {
	status := *mc.Status.DeepCopy()
	set := func(c metav1.Condition) { meta.SetStatusCondition(&status.Conditions, c) }
	set(metav1.Condition{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue, Reason: "ManagedClusterJoined", Message: "Managed cluster joined"})
	if o.health != http.StatusOK {
		set(metav1.Condition{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionFalse, Reason: "ManagedClusterKubeAPIServerUnavailable",
			Message: fmt.Sprintf("The kube-apiserver is not ok, status code: %d, %s", o.health, o.detail)})
		return status
	}
	set(metav1.Condition{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "ManagedClusterAvailable", Message: "Managed cluster is available"})
	status.Version.Kubernetes = o.version
	status.Capacity, status.Allocatable = resources(status.Capacity, o.nodes)
	status.ClusterClaims = claims(o.claims)
	return status
}

// resources sums the nodes up. Capacity of other names, which others may have written, is kept.
func resources(before clusterv1.ResourceList, nodes []*corev1.Node) (capacity, allocatable clusterv1.ResourceList) {
	capacity, allocatable = clusterv1.ResourceList{}, clusterv1.ResourceList{}
	for _, node := range nodes {
		add(capacity, node.Status.Capacity)
		if !node.Spec.Unschedulable {
			add(allocatable, node.Status.Allocatable)
		}
	}
	for name, quantity := range before {
		if _, ours := capacity[name]; !ours {
			capacity[name] = quantity
		}
	}
	return capacity, allocatable
}

func add(sum clusterv1.ResourceList, part corev1.ResourceList) {
	for name, quantity := range part {
		total := sum[clusterv1.ResourceName(name)]
		total.Add(quantity)
		sum[clusterv1.ResourceName(name)] = total
	}
}

// claims are those to report: the reserved ones always, of the others the first by name.
func claims(all []*clusterv1alpha1.ClusterClaim) []clusterv1.ManagedClusterClaim {
	var reserved, custom []clusterv1.ManagedClusterClaim
	for _, claim := range all {
		if _, hidden := claim.Labels[spokeOnlyLabel]; hidden {
			continue
		}
		c := clusterv1.ManagedClusterClaim{Name: claim.Name, Value: claim.Spec.Value}
		if slices.Contains(clusterv1alpha1.ReservedClusterClaimNames[:], claim.Name) {
			reserved = append(reserved, c)
		} else {
			custom = append(custom, c)
		}
	}
	byName := func(a, b clusterv1.ManagedClusterClaim) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(reserved, byName)
	slices.SortFunc(custom, byName)
	return append(reserved, custom[:min(len(custom), maxCustomClaims)]...)
}
