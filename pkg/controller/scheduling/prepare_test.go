package scheduling

import (
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const innerByExpression = `predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.metadata.labels.ring == 'inner'"]}}}]`

// TestPrepare matches clusters ahead of a decision, while all kinds of things happen to them.
func TestPrepare(t *testing.T) {
	for _, test := range []struct {
		name    string
		happens func(*world)
		want    []string
	}{
		{"nothing", func(*world) {}, []string{"a", "b"}},
		{"what the expression does not read", func(w *world) { w.cluster("a", labelled("colour", "red")) }, []string{"a", "b"}},
		{"what it reads", func(w *world) { w.cluster("a", labelled("ring", "outer")) }, []string{"b"}},
		{"a cluster goes", func(w *world) { w.gone("a") }, []string{"b"}},
		{"another takes its place", func(w *world) { w.gone("a"); w.cluster("c") }, []string{"b"}},
		{"one comes", func(w *world) { w.cluster("c", labelled("ring", "inner")) }, []string{"a", "b", "c"}},
		{"one is being deleted", func(w *world) { w.cluster("b", leavingNow) }, []string{"a"}},
		{"the binding goes", func(w *world) { w.unbind("s", "n") }, []string{}},
		{"the placement changes", func(w *world) { w.placement("p", inner) }, []string{"a", "b"}},
		{"and asks for more than it did", func(w *world) { w.placement("p", "{}") }, []string{"a", "b", "d"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.set("s", "n")
			for _, name := range []string{"a", "b"} {
				w.cluster(name, labelled("ring", "inner"))
			}
			w.cluster("d")
			w.placement("p", innerByExpression)
			p := w.targets["n/p"]
			p.adopt(compile(w.compiler, p.object))
			plan, all, err := w.unmatched(p)
			require.NoError(t, err)
			require.Len(t, all, 3)
			for i := range all {
				if all[i].standing = mismatched; plan.Matches(all[i].cluster) {
					all[i].standing = matched
				}
			}
			test.happens(w)
			w.believe(p, all)
			require.Equal(t, map[string][]string{"p-decision-1": test.want}, w.decided("p"))
		})
	}
}

// TestPreparedIsNotMatchedAgain is what it is for: a decision, which holds the lock, evaluates no expression then.
func TestPreparedIsNotMatchedAgain(t *testing.T) {
	w := newWorld(t)
	w.set("s", "n")
	w.cluster("a", labelled("ring", "inner"))
	w.cluster("b", func(mc *clusterv1.ManagedCluster) { mc.Labels["ring"] = "outer" })
	w.placement("p", innerByExpression)
	p := w.targets["n/p"]
	require.NoError(t, w.prepare(t.Context(), p))
	require.Equal(t, []standing{matched, mismatched}, p.standings)
	_, all, err := w.unmatched(p)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Equal(t, map[string][]string{"p-decision-1": {"a"}}, w.decided("p"))
}
