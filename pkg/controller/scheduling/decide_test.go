package scheduling

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

const inner = "predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {ring: inner}}}}]"

func TestPlacementSays(t *testing.T) {
	tainted := func(key string) func(*clusterv1.ManagedCluster) {
		return func(mc *clusterv1.ManagedCluster) {
			mc.Spec.Taints = []clusterv1.Taint{{Key: key, Value: "v", Effect: clusterv1.TaintEffectNoSelect}}
		}
	}
	for _, test := range []struct {
		name, spec string
		given      func(w *world)
		says       string
		clusters   []string
	}{
		{"no binding", "{}", func(w *world) { w.set("s") },
			"False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace: create a ManagedClusterSetBinding in namespace n, named as the set", nil},
		{"a binding to nothing", "{}", func(w *world) {
			w.set("s", "n")
			w.informers.Cluster().V1beta2().ManagedClusterSets().Informer().GetIndexer().Replace(nil, "")
		}, "False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace: there is no ManagedClusterSet [s]; create it, or bind one that exists", nil},
		{"another set is bound", "clusterSets: [x, z]", func(w *world) { w.set("s", "n") },
			"False NoIntersection: None of ManagedClusterSets [x,z] is bound to placement namespace: bound is [s]; bind one of the former, or name one of the latter", nil},
		{"empty sets", "{}", func(w *world) { w.set("s", "n"); w.set("s2", "n") },
			"False AllManagedClusterSetsEmpty: All ManagedClusterSets [s,s2] have no member ManagedCluster: add clusters to one of them", nil},
		{"all leave", "{}", func(w *world) { w.set("s", "n"); w.cluster("a", leavingNow) },
			"False AllManagedClusterSetsEmpty: All ManagedClusterSets [s] have no member ManagedCluster: all 1 are being deleted", nil},
		{"no predicate matches", inner, func(w *world) { w.set("s", "n"); w.cluster("a") },
			"False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate: none of 1 clusters does; widen spec.predicates or label the clusters", nil},
		{"all are tainted", inner, func(w *world) {
			w.set("s", "n")
			w.cluster("a", labelled("ring", "inner"), tainted("x"))
			w.cluster("b", labelled("ring", "inner"), tainted("y"))
			w.cluster("c", labelled("ring", "inner"), tainted("y"))
			w.cluster("d")
		}, "False NoManagedClusterMatched: No ManagedCluster is left: 3 clusters match the predicates but have taints that spec.tolerations does not tolerate: " +
			"y=v:NoSelect (2), x=v:NoSelect (1); tolerate them, or remove them from the clusters; 1 more clusters match none of the predicates", nil},
		{"too few", "numberOfClusters: 5\n" + inner, func(w *world) {
			w.set("s", "n")
			w.cluster("a", labelled("ring", "inner"))
			w.cluster("b")
			w.cluster("c", labelled("ring", "inner"), leavingNow)
		}, "False NotAllDecisionsScheduled: 4 cluster decisions unscheduled: 1 of 3 clusters in the sets can be selected; 1 match none of the predicates; " +
			"1 are being deleted; add clusters, or lower spec.numberOfClusters to 1", []string{"a"}},
		{"all is well", "numberOfClusters: 1", func(w *world) { w.set("s", "n"); w.cluster("a"); w.cluster("b") },
			"True AllDecisionsScheduled: All cluster decisions scheduled", []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.given(w)
			w.placement("p", test.spec)
			require.Equal(t, map[string][]string{"p-decision-1": append([]string{}, test.clusters...)}, w.decided("p"))
			require.Equal(t, test.says, w.says("p"))
		})
	}
}

func TestDecisionsFollow(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	for _, name := range []string{"a", "b", "c"} {
		w.cluster(name)
	}
	w.placement("p", "numberOfClusters: 2")
	require.Equal(t, map[string][]string{"p-decision-1": {"a", "b"}}, w.decided("p"))

	w.cluster("a", leavingNow)
	w.writes = 0
	require.Equal(t, map[string][]string{"p-decision-1": {"b", "c"}}, w.decided("p"), "one that is being deleted is replaced")
	require.Equal(t, 1, w.writes, "in one write")
	w.gone("a")
	require.Equal(t, map[string][]string{"p-decision-1": {"b", "c"}}, w.decided("p"))
	require.Equal(t, 1, w.writes)

	w.cluster("a0")
	w.placement("p", "numberOfClusters: 3")
	require.Equal(t, map[string][]string{"p-decision-1": {"a0", "b", "c"}}, w.decided("p"))

	w.placement("p", "predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Nonsense}]}}}]")
	require.Equal(t, map[string][]string{"p-decision-1": {"a0", "b", "c"}}, w.decided("p"), "a mistake takes nothing away")
	require.Contains(t, w.says("p"), "the 3 clusters that were selected before stay so")
	w.cluster("c", leavingNow)
	require.Equal(t, map[string][]string{"p-decision-1": {"a0", "b"}}, w.decided("p"), "but what goes by itself")

	w.placement("p", "{}")
	w.unbind("s", "n")
	require.Equal(t, map[string][]string{"p-decision-1": {}}, w.decided("p"), "a binding is the permission")
}

func TestMisconfiguredFromTheStart(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Nonsense}]}}}]")
	require.Equal(t, map[string][]string{"p-decision-1": {}}, w.decided("p"))
	condition := w.targets["n/p"].object.Status.Conditions[0]
	require.Equal(t, metav1.ConditionTrue, condition.Status)
	require.Equal(t, reasonMisconfigured, condition.Reason)
}

func TestSwitchedOff(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	w.annotate("p", true)
	require.Empty(t, w.decided("p"))
	require.Equal(t, "False NotAllDecisionsScheduled: "+schedulingDisabled, w.says("p"))
}

// TestSwitchedOffAndOn: what happened to clusters in between is seen when scheduling is switched on again.
func TestSwitchedOffAndOn(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a", labelled("ring", "inner"))
	w.cluster("b")
	w.placement("p", "predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {ring: inner}}}}]")
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))
	w.annotate("p", true)
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))
	w.cluster("a", labelled("ring", "outer"))
	w.cluster("b", labelled("ring", "inner"))
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"), "it stays as it is")
	w.annotate("p", false)
	require.Equal(t, map[string][]string{"p-decision-1": {"b"}}, w.decided("p"))
}

// TestScheduledByOthers has somebody else move clusters between decisions while scheduling is switched off. They are decided
// for that placement then: they count for balance, and taints let them stay.
func TestScheduledByOthers(t *testing.T) {
	for name, evaluated := range map[string]bool{"at once": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.set("s", "n")
			for _, name := range []string{"a", "b", "c"} {
				w.cluster(name)
			}
			w.placement("p", "numberOfClusters: 2\ndecisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 1}}")
			require.Equal(t, map[string][]string{"p-decision-1": {"a"}, "p-decision-2": {"b"}}, w.decided("p"))
			w.annotate("p", true)
			if evaluated {
				w.decided("p")
			}
			edit := func(name string, clusters ...string) {
				before := w.targets["n/p"].decisions[name]
				after := before.DeepCopy()
				after.ResourceVersion, after.Status.Decisions = w.next(), decisionsOf(clusters, nil)
				w.decisionChanged(before, after)
			}
			edit("p-decision-2", "a", "c") // a is in both for a moment, so that it is never in none
			edit("p-decision-1")
			for name, want := range map[string]int{"a": 1, "b": 0, "c": 1} {
				require.Equal(t, want, w.fleet.byName[name].decisions, name)
			}
			for _, name := range []string{"a", "b", "c"} {
				w.cluster(name, func(mc *clusterv1.ManagedCluster) {
					mc.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelectIfNew}}
				})
			}
			w.annotate("p", false)
			require.ElementsMatch(t, []string{"a", "c"}, slices.Concat(slices.Collect(maps.Values(w.decided("p")))...))
		})
	}
}

// TestGoneBeforeItIsWritten: a placement that goes before what was decided for it has been written, leaves nothing behind.
func TestGoneBeforeItIsWritten(t *testing.T) {
	for _, written := range []bool{false, true} {
		w := newWorld(t)
		w.set("s", "n")
		w.cluster("a")
		w.cluster("b")
		w.placement("p", "numberOfClusters: 1")
		if written {
			w.decided("p")
			w.placement("p", "{}")
		}
		_, err := w.decide(w.targets["n/p"], w.clock.Now())
		require.NoError(t, err)
		decisions := slices.Collect(maps.Values(w.targets["n/p"].decisions))
		w.placementChanged(w.targets["n/p"].object, nil)
		for _, d := range decisions {
			w.decisionChanged(d, nil)
		}
		require.Empty(t, w.targets)
		for _, name := range []string{"a", "b"} {
			require.Zero(t, w.fleet.byName[name].decisions, name)
			w.gone(name)
		}
		require.Empty(t, w.fleet.byName)
	}
}

// TestAnotherOfTheSameName is no heir: what was decided for one that is gone is nothing to it, if it is collected first.
func TestAnotherOfTheSameName(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	w.decided("p")
	w.cluster("a", func(mc *clusterv1.ManagedCluster) {
		mc.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelectIfNew}}
	})
	w.placementChanged(w.targets["n/p"].object, nil)
	w.placement("p", "{}")
	w.decisionChanged(w.targets["n/p"].decisions["p-decision-1"], nil)
	require.Equal(t, map[string][]string{"p-decision-1": {}}, w.decided("p"))
}

// TestDecisionsAreRestored deletes what holds clusters that may stay and would not be selected anew.
func TestDecisionsAreRestored(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	w.decided("p")
	w.cluster("a", func(mc *clusterv1.ManagedCluster) {
		mc.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelectIfNew}}
	})
	w.cluster("b", func(mc *clusterv1.ManagedCluster) {
		mc.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: clusterv1.TaintEffectNoSelectIfNew}}
	})
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))
	w.decisionChanged(w.targets["n/p"].decisions["p-decision-1"], nil)
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))
}

func TestForeignDecisions(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	w.decided("p")
	written := w.targets["n/p"].decisions["p-decision-1"]

	edited := written.DeepCopy()
	edited.ResourceVersion = w.next()
	edited.Status.Decisions = decisionsOf([]string{"a", "intruder"}, nil)
	w.decisionChanged(written, edited)
	require.Equal(t, []string{"p"}, w.due())
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))

	w.decisionChanged(w.targets["n/p"].decisions["p-decision-1"], nil)
	require.Equal(t, []string{"p"}, w.due())
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))

	w.decisionChanged(nil, written) // an old event
	require.Empty(t, w.due(), "an old event is none")

	orphan := decisionWith("fake", "a")
	orphan.Namespace, orphan.ResourceVersion = "n", w.next()
	orphan.Labels[clusterv1beta1.PlacementLabel] = "no-such"
	w.decisionChanged(nil, orphan)
	require.Empty(t, w.due())
	require.Equal(t, 2, w.fleet.byName["a"].decisions, "decisions of nobody's placement count for balance")
	w.decisionChanged(orphan, nil)
	require.Equal(t, 1, w.fleet.byName["a"].decisions)
	require.NotContains(t, w.targets, "n/no-such")
}

// TestOnlyWhatMatters is P2 of the spec: a change is looked at by the placements that it can matter to.
func TestOnlyWhatMatters(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.set("s2", "n")
	w.cluster("a")
	w.placement("all", "clusterSets: [s]")
	w.placement("inner", "clusterSets: [s]\npredicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {ring: inner}}}}]")
	w.placement("other", "clusterSets: [s2]")
	for _, name := range []string{"all", "inner", "other"} {
		w.decided(name)
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"heartbeat", func() { w.cluster("a", func(mc *clusterv1.ManagedCluster) { mc.Status.Version.Kubernetes = "v1" }) }, nil},
		{"a label that one of them reads", func() { w.cluster("a", labelled("ring", "inner")) }, []string{"inner"}},
		{"the same label, which does not match any more", func() { w.cluster("a", labelled("ring", "outer")) }, []string{"inner"}},
		{"the same label, which matches as little as before", func() { w.cluster("a", labelled("ring", "far")) }, nil},
		{"a label that none of them reads", func() { w.cluster("a", labelled("colour", "red")) }, nil},
		{"a taint", func() {
			w.cluster("a", func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = []clusterv1.Taint{{Key: "x", Effect: "NoSelect"}} })
		}, []string{"all", "inner"}},
		{"another set", func() { w.cluster("a", labelled("cluster.open-cluster-management.io/clusterset", "s2")) }, []string{"all", "inner", "other"}},
		{"a new cluster", func() { w.cluster("b") }, []string{"all", "inner"}},
		{"one that goes", func() { w.gone("b") }, []string{"all", "inner"}},
	} {
		step.do()
		require.ElementsMatch(t, step.want, w.due(), step.name)
		for _, name := range []string{"all", "inner", "other"} {
			w.decided(name)
		}
	}
}

func TestIDsAreGivenAgain(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.placement("p", "{}")
	for i := range 100 {
		name := fmt.Sprint("c", i)
		w.cluster(name)
		require.Equal(t, map[string][]string{"p-decision-1": {name}}, w.decided("p"))
		w.gone(name)
		require.Equal(t, map[string][]string{"p-decision-1": {}}, w.decided("p"))
	}
	require.LessOrEqual(t, len(w.fleet.entries), 2)
	require.Empty(t, w.fleet.byName)
}

// TestLostEvents deletes decisions whose last state the controller wrote and was told of by no event: a list without them is
// all that tells of their end.
func TestLostEvents(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	w.decided("p")
	known := w.targets["n/p"].decisions["p-decision-1"]

	another := known.DeepCopy()
	another.UID, another.ResourceVersion = "another", "0"
	w.decisionChanged(another, nil)
	require.Empty(t, w.due(), "one of the same name that was deleted before this one was made")

	stale := known.DeepCopy()
	stale.ResourceVersion = "0"
	w.decisionChanged(stale, nil)
	require.Equal(t, []string{"p"}, w.due())
	w.writes = 0
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))
	require.Equal(t, 1, w.writes)
}

// TestUnwrittenIsToldLater decides, and fails to write: what moved is told once it is written.
func TestUnwrittenIsToldLater(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a")
	w.placement("p", "{}")
	for range 2 {
		o, err := w.decide(w.targets["n/p"], w.clock.Now())
		require.NoError(t, err)
		require.Equal(t, shift{in: some{[]string{"a"}, 1}, first: true}, o.moved)
	}
	w.decided("p")
	w.cluster("b")
	o, err := w.decide(w.targets["n/p"], w.clock.Now())
	require.NoError(t, err)
	require.Equal(t, shift{in: some{[]string{"b"}, 1}}, o.moved)
}
