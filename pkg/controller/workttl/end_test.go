package workttl

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
)

var completed = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// work is complete, and lives for a minute after that.
func work(change func(*workv1.ManifestWork)) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "c1", Labels: map[string]string{"app": "x"}}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte("{}")}}}
	w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan, TTLSecondsAfterFinished: new(int64(60))}
	w.Status.Conditions = []metav1.Condition{
		{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(completed.Add(-time.Hour))},
		{Type: workv1.WorkComplete, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(completed)},
	}
	change(w)
	return w
}

func TestEnd(t *testing.T) {
	ttl := func(seconds int64) func(*workv1.ManifestWork) {
		return func(w *workv1.ManifestWork) { w.Spec.DeleteOption.TTLSecondsAfterFinished = &seconds }
	}
	for _, test := range []struct {
		name   string
		change func(*workv1.ManifestWork)
		after  time.Duration // of completion; negative if there is no end
	}{
		{"a minute", ttl(60), time.Minute},
		{"at once", ttl(0), 0},
		{"less than nothing", ttl(-5), 0},
		{"very long", ttl(100 * 365 * 24 * 3600), 100 * 365 * 24 * time.Hour},
		{"longer than can be counted", ttl(math.MaxInt64), -1},
		{"no time given", func(w *workv1.ManifestWork) { w.Spec.DeleteOption.TTLSecondsAfterFinished = nil }, -1},
		{"no option", func(w *workv1.ManifestWork) { w.Spec.DeleteOption = nil }, -1},
		{"not complete", func(w *workv1.ManifestWork) { w.Status.Conditions[1].Status = metav1.ConditionFalse }, -1},
		{"not known to be complete", func(w *workv1.ManifestWork) { w.Status.Conditions[1].Status = metav1.ConditionUnknown }, -1},
		{"no condition", func(w *workv1.ManifestWork) { w.Status.Conditions = w.Status.Conditions[:1] }, -1},
		{"being deleted", func(w *workv1.ManifestWork) { w.DeletionTimestamp = new(metav1.NewTime(completed)) }, -1},
		{"of a replica set", func(w *workv1.ManifestWork) {
			w.Labels["work.open-cluster-management.io/manifestworkreplicaset"] = "teams.set"
		}, -1},
		{"of a replica set without a name", func(w *workv1.ManifestWork) {
			w.Labels["work.open-cluster-management.io/manifestworkreplicaset"] = ""
		}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := work(test.change)
			at, ends := end(w)
			require.Equal(t, test.after >= 0, ends)
			if ends {
				require.Equal(t, completed.Add(test.after), at)
			}

			// What informers keep comes to the same.
			w.Spec, w.Status = Kept(w)
			require.Empty(t, w.Spec.Workload.Manifests)
			again, still := end(w)
			require.Equal(t, ends, still)
			require.Equal(t, at, again)
		})
	}
}

func TestKeptOfWorksWithoutEnd(t *testing.T) {
	spec, status := Kept(work(func(w *workv1.ManifestWork) { w.Spec.DeleteOption.TTLSecondsAfterFinished = nil }))
	require.Zero(t, spec)
	require.Zero(t, status)
}
