package clusterstatus

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// observed is what the agent saw of its cluster.
type observed struct {
	version string
	health  int // status code of the API server's health check
	detail  string
	nodes   []*corev1.Node
	claims  []clusterv1.ManagedClusterClaim
	claimed bool // whether claims is what the hub should know; otherwise others may keep them there
}

// clockApart tells whether the hub found this cluster's clock to be wrong; then nothing that the agent says has a time
// that means anything, and it says nothing.
func clockApart(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionFalse(mc.Status.Conditions, clusterv1.ManagedClusterConditionClockSynced)
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
	if o.claimed {
		status.ClusterClaims = o.claims
	}
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
