package clusterstatus

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

func node(cpu string, unschedulable bool) *corev1.Node {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: unschedulable}, Status: corev1.NodeStatus{Capacity: list, Allocatable: list}}
}

func claim(name, value string, labels map[string]string) *clusterv1alpha1.ClusterClaim {
	return &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: value}}
}

func TestNext(t *testing.T) {
	mc := &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{
		Capacity:    clusterv1.ResourceList{"example.com/gpu": resource.MustParse("3")},
		Allocatable: clusterv1.ResourceList{"example.com/gpu": resource.MustParse("3")},
		Conditions:  []metav1.Condition{{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue}},
	}}
	well := observed{version: "v1.37.2", health: http.StatusOK, nodes: []*corev1.Node{node("2", false), node("4", true)},
		claims: []*clusterv1alpha1.ClusterClaim{claim("a", "1", nil)}}
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
}

func TestClaims(t *testing.T) {
	all := []*clusterv1alpha1.ClusterClaim{
		claim("id.k8s.io", "x", nil),
		claim("hidden", "x", map[string]string{spokeOnlyLabel: ""}),
	}
	for i := range maxCustomClaims + 5 {
		all = append(all, claim(fmt.Sprintf("claim-%02d", 99-i), "x", nil))
	}
	got := claims(all)
	require.Len(t, got, maxCustomClaims+1)
	require.Equal(t, "id.k8s.io", got[0].Name, "reserved ones are always there")
	require.Equal(t, "claim-75", got[1].Name, "the others are sorted and cut off")
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
			mc.Status.Conditions = []metav1.Condition{{Type: conditionClockSynced, Status: status}}
		}
		require.Equal(t, want, clockApart(mc), status)
	}
}
