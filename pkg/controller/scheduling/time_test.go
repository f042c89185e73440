package scheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// TestTimePasses: a placement asks to be evaluated again at the moment at which time alone changes it, and not otherwise. No
// event helps it.
func TestTimePasses(t *testing.T) {
	tainted := func(w *world, name string, effects ...clusterv1.TaintEffect) {
		w.cluster(name, func(mc *clusterv1.ManagedCluster) {
			for i, effect := range effects {
				mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: fmt.Sprint("k", i), Effect: effect, TimeAdded: metav1.Time{Time: w.clock.Now().Add(-10 * time.Second)}})
			}
		})
	}
	valid := func(w *world, cluster string, value int32, seconds time.Duration) {
		status := &clusterv1alpha1.AddOnPlacementScoreStatus{Scores: []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "cpu", Value: value}}}
		if seconds > 0 {
			status.ValidUntil = &metav1.Time{Time: w.clock.Now().Add(seconds * time.Second)}
		}
		w.score(cluster, "usage", status)
	}
	type moment struct {
		after    time.Duration // in seconds, since the one before; 0: it was never to come
		clusters []string
	}
	const best = "numberOfClusters: 1\nprioritizerPolicy: {mode: Exact, configurations: [{weight: 1, scoreCoordinate: {type: AddOn, addOn: {resourceName: usage, scoreName: cpu}}}]}"
	for _, test := range []struct {
		name, spec string
		given      func(w *world)
		moments    []moment
	}{
		{"nothing ends", "tolerations: [{key: k0, operator: Exists}]", func(w *world) { tainted(w, "a", "NoSelect"); w.cluster("b") },
			[]moment{{0, []string{"a", "b"}}}},
		{"a toleration ends, counted from the taint", "tolerations: [{key: k0, operator: Exists, tolerationSeconds: 60}]", func(w *world) { tainted(w, "a", "NoSelect"); w.cluster("b") },
			[]moment{{0, []string{"a", "b"}}, {50, []string{"b"}}}},
		{"two that end one after the other", "tolerations: [{key: k0, operator: Exists, tolerationSeconds: 60}, {key: k1, operator: Exists, tolerationSeconds: 90}]",
			func(w *world) { tainted(w, "a", "NoSelect", "NoSelect"); tainted(w, "b", "PreferNoSelect", "NoSelect") },
			[]moment{{0, []string{"a", "b"}}, {50, []string{"b"}}, {30, []string{}}}},
		{"the longest of two for one taint", "tolerations: [{key: k0, operator: Exists, tolerationSeconds: 60}, {operator: Exists, tolerationSeconds: 90}]",
			func(w *world) { tainted(w, "a", "NoSelect") }, []moment{{0, []string{"a"}}, {80, []string{}}}},
		{"one that has ended already", "tolerations: [{key: k0, operator: Exists, tolerationSeconds: 10}]", func(w *world) { tainted(w, "a", "NoSelect") },
			[]moment{{0, []string{}}}},
		{"one that never ends", fmt.Sprint("tolerations: [{key: k0, operator: Exists, tolerationSeconds: ", uint64(1)<<62, "}]"), func(w *world) { tainted(w, "a", "NoSelect") },
			[]moment{{0, []string{"a"}}, {100*365*24*60*60 - 10, []string{}}}},
		{"what is not selected anew does not depend on time", "tolerations: [{key: k0, operator: Exists, tolerationSeconds: 60}]", func(w *world) { tainted(w, "a", "NoSelectIfNew") },
			[]moment{{0, []string{"a"}}}},
		{"PreferNoSelect counts once it is not tolerated any more", "numberOfClusters: 1\nprioritizerPolicy: {mode: Exact}\ntolerations: [{key: k0, operator: Exists, tolerationSeconds: 60}]",
			func(w *world) { tainted(w, "a", "PreferNoSelect"); w.cluster("b") }, []moment{{0, []string{"a"}}, {50, []string{"b"}}}},
		{"scores that end", best, func(w *world) { w.cluster("a"); w.cluster("b"); valid(w, "a", 40, 30); valid(w, "b", 20, 0) },
			[]moment{{0, []string{"a"}}, {30, []string{"b"}}}},
		{"bad scores that end", best, func(w *world) { w.cluster("a"); w.cluster("b"); valid(w, "a", -40, 30); valid(w, "b", -20, 45) },
			[]moment{{0, []string{"b"}}, {30, []string{"a"}}, {15, []string{"a"}}}},
		{"scores that make no difference", "{}\n", func(w *world) { w.cluster("a"); valid(w, "a", 40, 30) }, []moment{{0, []string{"a"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.set("s", "n")
			test.given(w)
			w.placement("p", test.spec)
			for _, m := range test.moments {
				if m.after > 0 {
					require.Equal(t, w.clock.Now().Add(m.after*time.Second), w.until)
					w.clock.SetTime(w.until)
				}
				require.Equal(t, map[string][]string{"p-decision-1": m.clusters}, w.decided("p"))
			}
			require.Zero(t, w.until, "nothing more is to come")
		})
	}
}
