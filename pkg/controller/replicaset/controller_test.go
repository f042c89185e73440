package replicaset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
)

func TestProgressIsOfTheNewGenerationOnly(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1, minSuccessTime: 20s}}")
	w.selects(2, "a", "b")
	written, _ := w.step()
	require.Equal(t, []string{"a"}, written)
	w.says("a", yes, yes, 1)
	written, _ = w.step()
	require.Empty(t, written, "it has just succeeded")
	w.clock.Step(21 * time.Second)
	written, _ = w.step()
	require.Equal(t, []string{"b"}, written)
	w.says("b", yes, yes, 1)
	w.step()
	w.clock.Step(21 * time.Second)
	w.step()
	require.Equal(t, "Complete", w.tells("PlacementRolledOut"))

	w.content("two")
	written, _ = w.step()
	require.Equal(t, "Progressing", w.tells("PlacementRolledOut"))
	require.Equal(t, []string{"a"}, written)
	w.clock.Step(time.Hour)
	written, _ = w.step()
	require.Empty(t, written, "what was said of the old content does not count")
	w.says("a", yes, yes, 2)
	written, _ = w.step()
	require.Empty(t, written, "it succeeds since now, though its conditions are as old as the work")
	require.Equal(t, 20*time.Second, w.again, "time alone goes on")
	w.clock.Step(20 * time.Second)
	written, _ = w.step()
	require.Equal(t, []string{"b"}, written)
}

func TestNothingBeginsBeforeAllDecisionsAreThere(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}]}}")
	w.tellsOf()
	w.decides(1, "", "b", "c")
	written, _ := w.step()
	require.Empty(t, written, "the canaries are not known yet")
	w.decides(0, "canary", "a")
	written, _ = w.step()
	require.Empty(t, written, "the status does not tell of them yet")
	require.Contains(t, w.message("PlacementRolledOut"), "not all decisions of it are known")
	w.tellsOf(group{"canary", 1}, group{"", 2})
	written, _ = w.step()
	require.Equal(t, []string{"a"}, written)
}

func TestFailuresStopARollout(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 0}}")
	w.selects(3, "a", "b", "c")
	w.step()
	w.says("a", no, yes, 1)
	written, _ := w.step()
	require.Empty(t, written)
	require.Equal(t, "Progressing", w.tells("PlacementRolledOut"))
	w.content("back")
	written, _ = w.step()
	require.Equal(t, []string{"a"}, written)
	w.says("a", yes, yes, 2)
	written, _ = w.step()
	require.Equal(t, []string{"b"}, written)
}

func TestFailuresThatAreToleratedAndKeepTheirPlaces(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 1}}")
	w.selects(2, "a", "b")
	w.step()
	w.says("a", no, yes, 1)
	written, _ := w.step()
	require.Empty(t, written)
	require.Contains(t, w.message("PlacementRolledOut"), "failed: a, waiting: b, failed clusters have all places")
}

// TestTheNextBatch: what a write makes possible is not taken for a failed attempt; what somebody undoes is.
func TestTheNextBatch(t *testing.T) {
	w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 100%, progressDeadline: 0s}}")
	w.selects(3, "a", "b", "c")
	for _, cluster := range []string{"a", "b", "c"} {
		written, _ := w.step()
		require.Equal(t, []string{cluster}, written)
		require.NoError(t, w.err)
		require.Equal(t, cluster != "c", w.again > 0)
	}
	w.api.mutate = func(_ string, work *workv1.ManifestWork) { delete(work.Labels, "team") }
	w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) { set.Labels = map[string]string{"team": "blue"} })
	w.step()
	require.ErrorIs(t, w.err, errPassing, "attempts are further and further apart")
}

func TestWhatIsNotSelectedGoes(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.selects(3, "a", "b", "c")
	written, _ := w.step()
	require.Equal(t, []string{"a", "b", "c"}, written)
	w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) {
		set.Annotations = map[string]string{"nave.dev/rollout-paused": "true"}
	})
	w.content("two")
	written, removed := w.step()
	require.Empty(t, written, "held")
	require.Empty(t, removed)
	require.Equal(t, "Paused", w.tells("PlacementRolledOut"))

	w.selects(3, "a", "b")
	_, removed = w.step()
	require.Empty(t, removed, "the status tells of three")
	w.selects(2, "a", "b")
	_, removed = w.step()
	require.Equal(t, []string{"c"}, removed, "with old content, and held")

	w.unplace()
	_, removed = w.step()
	require.Empty(t, removed)
	require.Equal(t, "PlacementDecisionNotFound", w.tells("PlacementVerified"))
	require.NotNil(t, w.api.in("a"))

	w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) { set.Spec.PlacementRefs[0].Name = "q" })
	_, removed = w.step()
	require.Equal(t, []string{"a", "b"}, removed, "of a placement that the set does not name any more")
}

func TestLabelsFollow(t *testing.T) {
	w := newWorld(t, "{type: All}")
	labels := func(labels map[string]string) {
		w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) { set.Labels = labels })
	}
	labels(map[string]string{"team": "blue", "old": "x"})
	w.selects(1, "a")
	w.step()
	w.elsewhere("a", func(work *workv1.ManifestWork) bool {
		work.Labels["theirs"] = "y"
		return true
	})
	labels(map[string]string{"team": "red"})
	written, _ := w.step()
	require.Empty(t, written, "labels are not content")
	require.Equal(t, map[string]string{"team": "red", "theirs": "y", replicas.SetLabel: "n.web", replicas.PlacementLabel: "p"}, w.api.in("a").Labels)
	w.step()
	require.Empty(t, w.api.log, "it has them")
}

// TestRacesAreNotFailures: what others do to a work that is about to be written stays, and nobody is told of a failure.
func TestRacesAreNotFailures(t *testing.T) {
	for _, test := range []struct {
		name string
		race func(*workv1.ManifestWork) bool
		held bool // the work stays in the way of a new one
	}{
		{"an agent reports", func(work *workv1.ManifestWork) bool {
			work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: yes, ObservedGeneration: 1}}
			return true
		}, false},
		{"somebody annotates it", func(work *workv1.ManifestWork) bool {
			work.Annotations["theirs"] = "y"
			return true
		}, false},
		{"somebody changes its content", func(work *workv1.ManifestWork) bool {
			work.Spec.Workload.Manifests = nil
			return true
		}, false},
		{"somebody deletes it", func(*workv1.ManifestWork) bool { return false }, false},
		{"it is deleted, and an agent holds it", func(work *workv1.ManifestWork) bool {
			work.Finalizers, work.DeletionTimestamp = []string{"agent"}, &metav1.Time{Time: time.Unix(0, 0)}
			return true
		}, true},
		{"somebody takes it out of the set", func(work *workv1.ManifestWork) bool {
			delete(work.Labels, replicas.SetLabel)
			return true
		}, false},
	} {
		for when, race := range map[string]func(w *world){
			"before it is read":       func(w *world) { w.api.elsewhere("a", test.race) },
			"between read and write":  func(w *world) { w.api.race = func(string) { w.api.elsewhere("a", test.race) } },
			"and the event gets lost": func(w *world) { w.api.elsewhere("a", test.race); w.api.events = nil },
		} {
			t.Run(test.name+", "+when, func(t *testing.T) {
				w := newWorld(t, "{type: All}")
				w.selects(2, "a", "b")
				w.step()
				w.content("two")
				race(w)
				for range 3 { // attempts of the queue
					w.step()
					require.NotContains(t, w.message("PlacementRolledOut"), "cluster a:", "a trouble")
				}
				require.NoError(t, w.err)
				require.Equal(t, "placement p: 0 of 2 clusters have succeeded, under way: a b", w.message("PlacementRolledOut"))
				have := map[string]bool{}
				for _, work := range w.api.works {
					if work.DeletionTimestamp == nil && work.Labels[replicas.SetLabel] != "" {
						have[work.Namespace] = replicas.Content(&work.Spec) == replicas.Content(&w.api.set.Spec.ManifestWorkTemplate)
					}
				}
				want := map[string]bool{"a": true, "b": true}
				if test.held {
					delete(want, "a")
				}
				require.Equal(t, want, have)
			})
		}
	}
}

// TestWorksThatWentAreForgotten: not even an answer that comes after the end of a work brings it back.
func TestWorksThatWentAreForgotten(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.selects(1, "a")
	w.step()
	w.content("two")
	w.api.answered = func(cluster string) {
		w.api.elsewhere(cluster, func(*workv1.ManifestWork) bool { return false })
		w.api.deliver(w.Controller)
	}
	w.step()
	require.Empty(t, w.states["n.web"].works)
	written, _ := w.step()
	require.Equal(t, []string{"a"}, written)

	lost := w.api.in("a").DeepCopy() // an old state of a work that has gone, as informers tell of what they have missed
	w.content("three")
	w.step()
	trim(lost)
	w.workChanged(lost, nil)
	require.Empty(t, w.states["n.web"].works)
}

func TestAnnotationsOfOthersStay(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.selects(1, "a")
	w.step()
	w.elsewhere("a", func(work *workv1.ManifestWork) bool { // as another hub makes them
		work.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "theirs": "y"}
		return true
	})
	w.content("two")
	w.step()
	has := w.api.in("a").Annotations
	require.Equal(t, "{}", has[corev1.LastAppliedConfigAnnotation])
	require.Equal(t, "y", has["theirs"])
	require.Equal(t, w.clock.Now().Format(time.RFC3339), has[replicas.WrittenAnnotation])
	require.NotContains(t, has, contentAnnotation)
}
