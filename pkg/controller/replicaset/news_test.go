package replicaset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// TestOnlyNewsIsLookedAt: a set with thousands of works is not evaluated each time that an agent writes something.
func TestOnlyNewsIsLookedAt(t *testing.T) {
	condition := func(change func(*metav1.Condition)) func(*workv1.ManifestWork) bool {
		return func(work *workv1.ManifestWork) bool {
			change(meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied))
			return true
		}
	}
	for _, test := range []struct {
		name   string
		change func(*workv1.ManifestWork) bool
		news   bool
	}{
		{"feedback", func(work *workv1.ManifestWork) bool {
			work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{}}
			return true
		}, false},
		{"a message", condition(func(c *metav1.Condition) { c.Message = "x" }), false},
		{"a condition of somebody else", func(work *workv1.ManifestWork) bool {
			work.Status.Conditions = append(work.Status.Conditions, metav1.Condition{Type: "Theirs"})
			return true
		}, false},
		{"a finalizer", func(work *workv1.ManifestWork) bool {
			work.Finalizers = []string{"agent"}
			return true
		}, false},
		{"an annotation of somebody else", func(work *workv1.ManifestWork) bool {
			work.Annotations["theirs"] = "x"
			return true
		}, false},
		{"a condition", condition(func(c *metav1.Condition) { c.Status = no }), true},
		{"the generation of a condition", condition(func(c *metav1.Condition) { c.ObservedGeneration = 2 }), true},
		{"the time of a condition", condition(func(c *metav1.Condition) { c.LastTransitionTime = metav1.Now() }), true},
		{"another condition", func(work *workv1.ManifestWork) bool {
			work.Status.Conditions = append(work.Status.Conditions, metav1.Condition{Type: workv1.WorkDegraded})
			return true
		}, true},
		{"no condition any more", func(work *workv1.ManifestWork) bool {
			work.Status.Conditions = nil
			return true
		}, true},
		{"content", func(work *workv1.ManifestWork) bool {
			work.Spec.Workload.Manifests = nil
			return true
		}, true},
		{"a label", func(work *workv1.ManifestWork) bool {
			work.Labels["theirs"] = "x"
			return true
		}, true},
		{"our annotations", func(work *workv1.ManifestWork) bool {
			work.Annotations = nil
			return true
		}, true},
		{"deletion", func(work *workv1.ManifestWork) bool {
			work.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
			return true
		}, true},
		{"its end", func(*workv1.ManifestWork) bool { return false }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "{type: All}")
			w.selects(1, "a")
			w.step()
			w.says("a", yes, yes, 1)
			w.step()
			w.queued = 0
			w.elsewhere("a", test.change)
			require.Equal(t, test.news, w.queued > 0)
		})
	}
}

// TestWhatTheHubWritesIsNoNews: nothing is looked at because of an echo, and time still goes on.
func TestWhatTheHubWritesIsNoNews(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {progressDeadline: 10s}}")
	w.selects(2, "a", "b")
	w.queued = 0
	w.step()
	require.ElementsMatch(t, []string{"create a", "create b", "status"}, w.api.log)
	require.Zero(t, w.queued)
	require.Equal(t, 10*time.Second, w.again, "the deadline of what was just written")
	w.clock.Step(10 * time.Second)
	w.step()
	require.Contains(t, w.message("PlacementRolledOut"), "not done in time: a b")
	require.Zero(t, w.again)

	w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) {
		set.Status = workv1alpha1.ManifestWorkReplicaSetStatus{}
	})
	require.Equal(t, 1, w.queued, "somebody else has written it")
	w.step()
	require.Contains(t, w.message("PlacementRolledOut"), "not done in time: a b")
	require.Equal(t, 1, w.queued)
}
