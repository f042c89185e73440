package clusterprofile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

func cluster(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{clusterv1beta2.ClusterSetLabel: "prod"}}}
	if change != nil {
		change(mc)
	}
	return mc
}

func binding(set string, status metav1.ConditionStatus, leaving bool) *clusterv1beta2.ManagedClusterSetBinding {
	b := &clusterv1beta2.ManagedClusterSetBinding{Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
	b.Status.Conditions = []metav1.Condition{{Type: clusterv1beta2.ClusterSetBindingBoundType, Status: status}}
	if leaving {
		now := metav1.Now()
		b.DeletionTimestamp = &now
	}
	return b
}

func TestWanted(t *testing.T) {
	sets := map[string]*clusterv1beta2.ManagedClusterSet{
		"prod": {ObjectMeta: metav1.ObjectMeta{Name: "prod"}},
		"lab":  {ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
	}
	leaving := cluster(func(mc *clusterv1.ManagedCluster) {
		now := metav1.Now()
		mc.DeletionTimestamp = &now
	})
	type bindings = []*clusterv1beta2.ManagedClusterSetBinding
	for _, test := range []struct {
		name     string
		mc       *clusterv1.ManagedCluster
		bindings bindings
		want     bool
	}{
		{"its set is bound", cluster(nil), bindings{binding("prod", metav1.ConditionTrue, false)}, true},
		{"one of two", cluster(nil), bindings{binding("lab", metav1.ConditionTrue, false), binding("prod", metav1.ConditionTrue, false)}, true},
		{"another set is bound", cluster(nil), bindings{binding("lab", metav1.ConditionTrue, false)}, false},
		{"no binding", cluster(nil), nil, false},
		{"the binding is not bound", cluster(nil), bindings{binding("prod", metav1.ConditionFalse, false)}, false},
		{"the binding is leaving", cluster(nil), bindings{binding("prod", metav1.ConditionTrue, true)}, false},
		{"bound, but the set has gone", cluster(nil), bindings{binding("gone", metav1.ConditionTrue, false)}, false},
		{"the cluster is leaving", leaving, bindings{binding("prod", metav1.ConditionTrue, false)}, false},
		{"the cluster has gone", nil, bindings{binding("prod", metav1.ConditionTrue, false)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := wanted(test.mc, test.bindings, func(name string) *clusterv1beta2.ManagedClusterSet { return sets[name] })
			require.Equal(t, test.want, got)
		})
	}
}

func TestLabelChange(t *testing.T) {
	right := map[string]string{managerLabel: manager, clusterv1.ClusterNameLabelKey: "c1", setLabel: "prod"}
	with := func(key, value string) map[string]string {
		l := map[string]string{}
		for k, v := range right {
			l[k] = v
		}
		if value == "" {
			delete(l, key)
		} else {
			l[key] = value
		}
		return l
	}
	alone := cluster(func(mc *clusterv1.ManagedCluster) { mc.Labels = nil })
	for _, test := range []struct {
		name    string
		mc      *clusterv1.ManagedCluster
		current map[string]string
		want    map[string]any
	}{
		{"right", cluster(nil), right, map[string]any{}},
		{"somebody's own label", cluster(nil), with("team", "a"), map[string]any{}},
		{"none", cluster(nil), nil, map[string]any{managerLabel: manager, clusterv1.ClusterNameLabelKey: "c1", setLabel: "prod"}},
		{"the manager's was taken away", cluster(nil), with(managerLabel, ""), map[string]any{managerLabel: manager}},
		{"another set", cluster(nil), with(setLabel, "lab"), map[string]any{setLabel: "prod"}},
		{"no set any more", alone, right, map[string]any{setLabel: nil}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, labelChange(test.current, labelsOf(test.mc)))
		})
	}
}

func TestStatusOf(t *testing.T) {
	since := metav1.NewTime(time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m", LastTransitionTime: since}
	}
	for _, test := range []struct {
		name    string
		status  clusterv1.ManagedClusterStatus
		current status
		want    status
	}{
		{"nothing known", clusterv1.ManagedClusterStatus{}, status{}, status{Properties: []property{}}},
		{"everything",
			clusterv1.ManagedClusterStatus{
				Version:       clusterv1.ManagedClusterVersion{Kubernetes: "v1.30.0"},
				ClusterClaims: []clusterv1.ManagedClusterClaim{{Name: "id.k8s.io", Value: "1"}, {Name: "region", Value: "eu"}},
				Conditions: []metav1.Condition{condition(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionTrue),
					condition(clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue), condition(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)},
			}, status{},
			status{Version: version{"v1.30.0"}, Properties: []property{{"id.k8s.io", "1"}, {"region", "eu"}},
				Conditions: []metav1.Condition{condition("ControlPlaneHealthy", metav1.ConditionUnknown), condition("Joined", metav1.ConditionTrue)}}},
		{"claims that are no properties",
			clusterv1.ManagedClusterStatus{ClusterClaims: []clusterv1.ManagedClusterClaim{{Name: "empty"}, {Name: "twice", Value: "1"}, {Name: "twice", Value: "2"}}}, status{},
			status{Properties: []property{{"twice", "1"}}}},
		{"what is known no longer, and a condition of somebody else",
			clusterv1.ManagedClusterStatus{},
			status{Version: version{"v1"}, Properties: []property{{"a", "b"}}, Conditions: []metav1.Condition{condition("Joined", metav1.ConditionTrue), condition("Theirs", metav1.ConditionTrue)}},
			status{Properties: []property{}, Conditions: []metav1.Condition{condition("Theirs", metav1.ConditionTrue)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc := cluster(func(mc *clusterv1.ManagedCluster) { mc.Status = test.status })
			require.Equal(t, test.want, statusOf(mc, test.current))
			require.True(t, looksSame(mc, mc.DeepCopy()))
		})
	}
}

func TestLooksSame(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*clusterv1.ManagedCluster)
		want   bool
	}{
		{"capacity", func(mc *clusterv1.ManagedCluster) {
			mc.Status.Capacity = clusterv1.ResourceList{clusterv1.ResourceCPU: {}}
		}, true},
		{"acceptance", func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = true }, true},
		{"a label", func(mc *clusterv1.ManagedCluster) { mc.Labels = map[string]string{"site": "edge"} }, false},
		{"version", func(mc *clusterv1.ManagedCluster) { mc.Status.Version.Kubernetes = "v2" }, false},
		{"deletion", func(mc *clusterv1.ManagedCluster) { now := metav1.Now(); mc.DeletionTimestamp = &now }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, looksSame(cluster(nil), cluster(test.change)))
		})
	}
}
