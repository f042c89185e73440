package workload

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
	"nave/pkg/rollout"
)

// replicaSet is a set of the bench's namespace, which need not exist.
func (b *bench) replicaSet(name string) ReplicaSet {
	b.t.Helper()
	h, err := shared()
	require.NoError(b.t, err)
	clusters, err := clusterclient.NewForConfig(h.Admin)
	require.NoError(b.t, err)
	heads, err := metadata.NewForConfig(h.Admin)
	require.NoError(b.t, err)
	return ReplicaSet{Works: b.hub, Clusters: clusters, Metadata: heads, Clock: clock.RealClock{}, Namespace: b.cluster, Name: name}
}

// decided makes a placement of the bench's namespace that nobody schedules, with one decision for each group.
func (b *bench) decided(r ReplicaSet, name string, groups map[string][]string) {
	b.t.Helper()
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{clusterv1beta1.PlacementDisableAnnotation: "true"}}}
	p, err := r.Clusters.ClusterV1beta1().Placements(r.Namespace).Create(b.t.Context(), p, metav1.CreateOptions{})
	require.NoError(b.t, err)
	for index, group := range []string{"canary", "rest"} {
		yes := true
		d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Name: name + "-decision-" + group,
			Labels: map[string]string{
				clusterv1beta1.PlacementLabel: name, clusterv1beta1.DecisionGroupNameLabel: group, clusterv1beta1.DecisionGroupIndexLabel: fmt.Sprint(index),
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1beta1.GroupVersion.String(), Kind: "Placement", Name: name, UID: p.UID, Controller: &yes}},
		}}
		d, err := r.Clusters.ClusterV1beta1().PlacementDecisions(r.Namespace).Create(b.t.Context(), d, metav1.CreateOptions{})
		require.NoError(b.t, err)
		for _, cluster := range groups[group] {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
		}
		_, err = r.Clusters.ClusterV1beta1().PlacementDecisions(r.Namespace).UpdateStatus(b.t.Context(), d, metav1.UpdateOptions{})
		require.NoError(b.t, err)
	}
}

// replica makes a work for a cluster, in a namespace that may be new, as the hub makes one for a set.
func (b *bench) replica(r ReplicaSet, placement, cluster, name string, objects []Object) *workv1.ManifestWork {
	b.t.Helper()
	h, err := shared()
	require.NoError(b.t, err)
	kube, err := kubernetes.NewForConfig(h.Admin)
	require.NoError(b.t, err)
	_, _ = kube.CoreV1().Namespaces().Create(b.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, metav1.CreateOptions{})
	work := newWork(cluster, r.Name, 1, objects, Options{})
	work.Name, work.Labels = name, map[string]string{replicas.SetLabel: replicas.SetValue(r.Namespace, r.Name), replicas.PlacementLabel: replicas.PlacementValue(placement)}
	work, err = b.hub.WorkV1().ManifestWorks(cluster).Create(b.t.Context(), work, metav1.CreateOptions{})
	require.NoError(b.t, err)
	return work
}

func TestProgress(t *testing.T) {
	b := newBench(t)
	r := b.replicaSet("till")
	objects, old := []Object{configMapOf(t, "new", 10)}, []Object{configMapOf(t, "old", 10)}
	cluster := func(letter string) string { return b.cluster + "-" + letter }
	b.decided(r, "p", map[string][]string{"canary": {cluster("a"), cluster("b")}, "rest": {cluster("c"), cluster("d")}})
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Generation: 1}}
	set.Spec.ManifestWorkTemplate = newWork("", r.Name, 1, objects, Options{}).Spec
	perGroup := clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup, ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p", RolloutStrategy: perGroup}, {Name: "p"}, {Name: "nowhere"}}

	for letter, applied := range map[string]metav1.ConditionStatus{"a": metav1.ConditionTrue, "b": metav1.ConditionFalse} {
		work := b.replica(r, "p", cluster(letter), "till-new", objects)
		require.NoError(t, report(t.Context(), b.hub, work, applied, "the cluster says no"))
	}
	b.replica(r, "p", cluster("c"), "till-old", old)
	b.replica(r, "p", cluster("gone"), "till-new", objects)
	b.replica(r, "other", cluster("d"), "till-other", objects)

	all, err := r.Progress(t.Context(), set)
	require.NoError(t, err)
	require.Len(t, all, 2, "a placement that is named twice counts once")
	p := all[0]
	require.Equal(t, []any{"p", true, 4, 1, true}, []any{p.Placement, p.Whole, p.Selected, p.Done, p.Breached})
	require.Equal(t, map[string]string{cluster("b"): "ConfigMap new is failed: the cluster says no"}, p.Reasons)
	require.Equal(t, [][]string{{cluster("b")}, {cluster("c"), cluster("d")}, {cluster("gone")}, nil}, [][]string{p.Failed, p.Waiting, p.Removed, p.Underway})
	require.True(t, all[1].Missing)

	broken := set.DeepCopy()
	broken.Spec.PlacementRefs[0].RolloutStrategy = clusterv1alpha1.RolloutStrategy{Type: "Sometimes"}
	_, err = r.Progress(t.Context(), broken)
	require.ErrorContains(t, err, `replica set till of namespace `+r.Namespace+`, placement p: rollout strategy: type "Sometimes"`)

	set.Status.Conditions = []metav1.Condition{{Type: workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	set.Status.PlacementsSummary = []workv1alpha1.PlacementSummary{{Name: "p", Summary: workv1alpha1.ManifestWorkReplicaSetSummary{Total: 4, DesiredTotal: 4}}}
	all, err = r.Progress(t.Context(), set)
	require.NoError(t, err)
	require.Equal(t, []Progress{{Placement: "p", Whole: true, Selected: 4, Result: &rollout.Result{Done: 4}}}, all, "what is complete has been counted by the hub")
}

func TestFailureOf(t *testing.T) {
	work := &workv1.ManifestWork{}
	work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkDegraded, Status: metav1.ConditionTrue, Message: "no replicas"}}
	require.Equal(t, "no replicas", failureOf(work))
	work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionFalse, Message: "some failed"}}
	require.Equal(t, "some failed", failureOf(work))
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`)}}}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "ConfigMap", Name: "a", Namespace: "n"},
		Conditions:   []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, Message: "no namespace n"}},
	}}
	require.Equal(t, "ConfigMap n/a is failed: no namespace n", failureOf(work))
}
