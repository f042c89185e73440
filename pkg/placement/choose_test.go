package placement

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoice(t *testing.T) {
	for _, test := range []struct {
		name, spec, candidates string
		chosen                 string // the best first
		unscheduled            int
	}{
		{"no number is all of them, by name", "{}", "a; b; c", "a b c", 0},
		{"none are asked for", "numberOfClusters: 0", "a; b", "", 0},
		{"as many as there are", "numberOfClusters: 2", "a; b chosen", "a b", 0},
		{"more than there are", "numberOfClusters: 5", "a; b", "a b", 3},
		{"ties go by name", "numberOfClusters: 2", "a; b; c", "a b", 0},
		{"the best first", "numberOfClusters: 2\n" + policy("Exact", "ResourceAllocatableCPU=1"), "a cpu=1; b cpu=3; c cpu=2", "b c", 0},
		{"the worst first with a negative weight", "numberOfClusters: 2\n" + policy("Exact", "ResourceAllocatableCPU=-1"), "a cpu=3; b cpu=1; c cpu=2", "b c", 0},
		{"unknown is between good and bad", "numberOfClusters: 2\n" + policy("Exact", "ResourceAllocatableCPU=1"), "a cpu=1; b; c cpu=2", "c b", 0},
		{"what is chosen stays", "numberOfClusters: 1", "a; b chosen", "b", 0},
		{"unless others are better by more", "numberOfClusters: 1\n" + policy("Additive", "ResourceAllocatableCPU=1"), "a cpu=2; b cpu=1 chosen", "a", 0},
		{"among equals in balance what is chosen stays", "numberOfClusters: 1", "a elsewhere=2; b chosen elsewhere=2", "b", 0},
		{"without Steady it moves", "numberOfClusters: 1\n" + policy("Exact", "Balance=1"), "a; b chosen", "a", 0},

		{"PreferNoSelect is the last choice, whatever its score", "numberOfClusters: 2\n" + policy("Exact", "ResourceAllocatableCPU=10"), "a cpu=9 avoid=1; b cpu=1; c cpu=2", "c b", 0},
		{"PreferNoSelect is chosen where there is no other", "numberOfClusters: 2", "a avoid=1; b; c avoid=1", "b a", 0},
		{"two such taints are no worse than one", "numberOfClusters: 1", "a avoid=2; b avoid=1", "a", 0},
		{"what is chosen is not driven away by it", "numberOfClusters: 1", "a; b chosen avoid=1", "b", 0},
		{"unless the placement is not steady", "numberOfClusters: 1\n" + policy("Exact", "Balance=1"), "a; b chosen avoid=1", "a", 0},
		{"or wants to be unsteady", "numberOfClusters: 1\n" + policy("Exact", "Steady=-1"), "a; b chosen avoid=1", "a", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			candidates := contenders(t, test.candidates)
			s := planOf(t, test.spec).Select(candidates, 2, false, noon())
			var names []string
			for _, i := range s.Chosen {
				names = append(names, candidates[i].Cluster.Name)
			}
			require.Equal(t, test.chosen, strings.Join(names, " "))
			require.Equal(t, test.unscheduled, s.Unscheduled)
			require.Empty(t, s.HeldBack)
		})
	}
}

// TestNobodyIsScoredInVain: where all are selected, scores are worked out only for who asks.
func TestNobodyIsScoredInVain(t *testing.T) {
	candidates := contenders(t, "a; b")
	for _, spec := range []string{"{}", "numberOfClusters: 2", "numberOfClusters: 7"} {
		require.Nil(t, planOf(t, spec).Select(candidates, 0, false, noon()).Totals, spec)
		require.NotNil(t, planOf(t, spec).Select(candidates, 0, true, noon()).Totals, spec)
	}
	require.NotNil(t, planOf(t, "numberOfClusters: 1").Select(candidates, 0, false, noon()).Totals)
}
