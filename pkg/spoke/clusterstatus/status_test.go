package clusterstatus

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func node(cpu string, unschedulable bool) *corev1.Node {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: unschedulable}, Status: corev1.NodeStatus{Capacity: list, Allocatable: list}}
}

func TestNext(t *testing.T) {
	mc := &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{
		Capacity:    clusterv1.ResourceList{"example.com/gpu": resource.MustParse("3")},
		Allocatable: clusterv1.ResourceList{"example.com/gpu": resource.MustParse("3")},
		Conditions:  []metav1.Condition{{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue}},
	}}
	well := observed{version: "v1.37.2", health: http.StatusOK, nodes: []*corev1.Node{node("2", false), node("4", true)},
		claims: []clusterv1.ManagedClusterClaim{{Name: "a", Value: "1"}}, claimed: true}
	status := next(mc, well)
	for _, kind := range []string{clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
		require.True(t, meta.IsStatusConditionTrue(status.Conditions, kind), kind)
	}
	cpu := status.Capacity[clusterv1.ResourceCPU]
	require.Equal(t, "6", cpu.String())
	cpu = status.Allocatable[clusterv1.ResourceCPU]
	require.Equal(t, "2", cpu.String(), "a node that takes no pods offers nothing")
	require.Contains(t, status.Capacity, clusterv1.ResourceName("example.com/gpu"), "others may add to the capacity")
	require.NotContains(t, status.Allocatable, clusterv1.ResourceName("example.com/gpu"))
	require.Equal(t, []clusterv1.ManagedClusterClaim{{Name: "a", Value: "1"}}, status.ClusterClaims)

	mc.Status = status
	ill := next(mc, observed{health: http.StatusInternalServerError, detail: "etcd failed"})
	available := meta.FindStatusCondition(ill.Conditions, clusterv1.ManagedClusterConditionAvailable)
	require.Equal(t, metav1.ConditionFalse, available.Status)
	require.Equal(t, "The kube-apiserver is not ok, status code: 500, etcd failed", available.Message)
	require.Equal(t, status.Capacity, ill.Capacity, "of an ill cluster nothing else is known, so the rest stays")
	well.claimed = false
	require.Equal(t, status.ClusterClaims, next(mc, well).ClusterClaims, "claims that this agent does not report are left alone")
}

func TestWithRemovals(t *testing.T) {
	one := resource.MustParse("1")
	require.Equal(t, map[string]any{"gone": nil, "cpu": one},
		withRemovals(clusterv1.ResourceList{"gone": one, "cpu": one}, clusterv1.ResourceList{"cpu": one}))
}

func TestClockApart(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus]bool{metav1.ConditionTrue: false, metav1.ConditionFalse: true, "": false} {
		mc := &clusterv1.ManagedCluster{}
		if status != "" {
			mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionClockSynced, Status: status}}
		}
		require.Equal(t, want, clockApart(mc), status)
	}
}
