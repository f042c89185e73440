package placement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// contenders are candidates from lines such as "a chosen elsewhere=2 avoid=1 cpu=4 memory=8Gi", separated by semicolons. A
// resource is both allocatable and capacity, unless the word says of which of the two it is.
func contenders(t *testing.T, text string) []Candidate {
	t.Helper()
	var all []Candidate
	for line := range strings.SplitSeq(text, ";") {
		words := strings.Fields(line)
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: words[0]}}
		mc.Status.Allocatable, mc.Status.Capacity = clusterv1.ResourceList{}, clusterv1.ResourceList{}
		c := Candidate{Cluster: mc}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			n, _ := strconv.Atoi(value)
			name := clusterv1.ResourceName(strings.TrimSuffix(strings.TrimSuffix(key, "-capacity"), "-allocatable"))
			switch {
			case key == "chosen":
				c.Chosen = true
			case key == "elsewhere":
				c.Elsewhere = n
			case key == "avoid":
				c.Avoid = n
			case name == clusterv1.ResourceCPU || name == clusterv1.ResourceMemory:
				if !strings.HasSuffix(key, "-capacity") {
					mc.Status.Allocatable[name] = resource.MustParse(value)
				}
				if !strings.HasSuffix(key, "-allocatable") {
					mc.Status.Capacity[name] = resource.MustParse(value)
				}
			default:
				require.Fail(t, "what is "+word)
			}
		}
		all = append(all, c)
	}
	return all
}

// numbers gives a number for each candidate, as "a=1 b=2".
func numbers(candidates []Candidate, values []int64) string {
	var words []string
	for i, value := range values {
		words = append(words, fmt.Sprintf("%s=%d", candidates[i].Cluster.Name, value))
	}
	return strings.Join(words, " ")
}

// scoresGiven is every prioritizer with its weight and what it says of each candidate.
func scoresGiven(s Selection, candidates []Candidate) string {
	var lines []string
	for _, by := range s.Prioritizers {
		lines = append(lines, fmt.Sprintf("%s*%d: %s", by.Name, by.Weight, numbers(candidates, by.Scores)))
	}
	return strings.Join(lines, "; ")
}

// policy is a placement's spec with prioritizers, each as BuiltIn=weight or resource/score=weight.
func policy(mode string, prioritizers ...string) string {
	text := "prioritizerPolicy:\n  mode: " + mode + "\n  configurations:\n"
	for _, p := range prioritizers {
		name, weight, _ := strings.Cut(p, "=")
		if resourceName, scoreName, ok := strings.Cut(name, "/"); ok {
			text += fmt.Sprintf("  - {weight: %s, scoreCoordinate: {type: AddOn, addOn: {resourceName: %s, scoreName: %s}}}\n", weight, resourceName, scoreName)
		} else {
			text += fmt.Sprintf("  - {weight: %s, scoreCoordinate: {type: BuiltIn, builtIn: %s}}\n", weight, name)
		}
	}
	return text
}

// TestScores holds the prioritizers against the formulas of the spec (5.2), worked out by hand.
func TestScores(t *testing.T) {
	for _, test := range []struct {
		name, spec, candidates string
		busiest                int
		scores                 string
		totals                 string
	}{
		{"without a policy", "{}", "a chosen elsewhere=1; b", 2, "Balance*1: a=0 b=100; Steady*1: a=100 b=0", "a=100 b=100"},

		{"Steady", policy("Exact", "Steady=1"), "a; b chosen; c", 0, "Steady*1: a=0 b=100 c=0", "a=0 b=100 c=0"},

		{"Balance: none elsewhere, and quarters of the most", policy("Exact", "Balance=1"),
			"a; b elsewhere=1; c elsewhere=2; d elsewhere=3; e elsewhere=4", 4, "Balance*1: a=100 b=50 c=0 d=-50 e=-100", "a=100 b=50 c=0 d=-50 e=-100"},
		{"Balance: towards zero, in steps of two", policy("Exact", "Balance=1"),
			"a elsewhere=1; b elsewhere=2; c elsewhere=3", 3, "Balance*1: a=32 b=-32 c=-100", "a=32 b=-32 c=-100"},
		// -9.99…, as floats have it, is cut to -9.
		{"Balance: the busiest is no candidate", policy("Exact", "Balance=1"), "a elsewhere=1; b elsewhere=6", 10, "Balance*1: a=80 b=-18", "a=80 b=-18"},
		{"Balance: nothing is decided anywhere", policy("Exact", "Balance=1"), "a; b", 0, "Balance*1: a=100 b=100", "a=100 b=100"},

		{"CPU: least, between, most", policy("Exact", "ResourceAllocatableCPU=1"), "a cpu=2; b cpu=4; c cpu=8", 0,
			"ResourceAllocatableCPU*1: a=-100 b=-33 c=100", "a=-100 b=-33 c=100"},
		{"CPU: thousandths", policy("Exact", "ResourceAllocatableCPU=1"), "a cpu=500m; b cpu=1; c cpu=1500m", 0,
			"ResourceAllocatableCPU*1: a=-100 b=0 c=100", "a=-100 b=0 c=100"},
		{"CPU: all have the same", policy("Exact", "ResourceAllocatableCPU=1"), "a cpu=4; b cpu=4000m", 0,
			"ResourceAllocatableCPU*1: a=100 b=100", "a=100 b=100"},
		{"CPU: only one tells", policy("Exact", "ResourceAllocatableCPU=1"), "a; b cpu=4", 0, "ResourceAllocatableCPU*1: a=0 b=100", "a=0 b=100"},
		{"CPU: nobody tells", policy("Exact", "ResourceAllocatableCPU=1"), "a; b memory=1Gi", 0, "ResourceAllocatableCPU*1: a=0 b=0", "a=0 b=0"},
		{"CPU: none left is the least", policy("Exact", "ResourceAllocatableCPU=1"), "a cpu=0; b cpu=1; c", 0,
			"ResourceAllocatableCPU*1: a=-100 b=100 c=0", "a=-100 b=100 c=0"},
		{"CPU: without both numbers it is not known, and is no bound", policy("Exact", "ResourceAllocatableCPU=1"),
			"a cpu-allocatable=100; b cpu-capacity=100; c cpu=1; d cpu=3", 0, "ResourceAllocatableCPU*1: a=0 b=0 c=-100 d=100", "a=0 b=0 c=-100 d=100"},
		{"memory", policy("Exact", "ResourceAllocatableMemory=1"), "a memory=1Gi; b memory=2Gi; c memory=5Gi; d cpu=64", 0,
			"ResourceAllocatableMemory*1: a=-100 b=-50 c=100 d=0", "a=-100 b=-50 c=100 d=0"},

		{"Additive adds to the two that are always there", policy("Additive", "ResourceAllocatableCPU=2"), "a cpu=1 chosen; b cpu=2", 0,
			"Balance*1: a=100 b=100; ResourceAllocatableCPU*2: a=-100 b=100; Steady*1: a=100 b=0", "a=0 b=300"},
		{"no mode is Additive", policy(`""`, "Steady=3"), "a chosen; b", 0, "Balance*1: a=100 b=100; Steady*3: a=100 b=0", "a=400 b=100"},
		{"Additive: weight 0 takes one away", policy("Additive", "Balance=0"), "a chosen; b", 0, "Steady*1: a=100 b=0", "a=100 b=0"},
		{"Exact: only what is written", policy("Exact", "Balance=10"), "a chosen; b elsewhere=1", 1, "Balance*10: a=100 b=-100", "a=1000 b=-1000"},
		{"Exact: weight 0 is not there", policy("Exact", "Balance=0", "Steady=1"), "a; b chosen", 0, "Steady*1: a=0 b=100", "a=0 b=100"},
		{"Exact, and nothing is written", "prioritizerPolicy: {mode: Exact}", "a; b chosen", 0, "", "a=0 b=0"},
		{"a negative weight", policy("Exact", "ResourceAllocatableMemory=-2"), "a memory=1Gi; b memory=2Gi", 0,
			"ResourceAllocatableMemory*-2: a=-100 b=100", "a=200 b=-200"},
		{"twice the same: the last one counts", policy("Exact", "Steady=1", "Steady=5"), "a chosen; b", 0, "Steady*5: a=100 b=0", "a=500 b=0"},
		{"all four", policy("Additive", "ResourceAllocatableCPU=3", "ResourceAllocatableMemory=-1"), "a cpu=1 memory=1Gi elsewhere=1; b cpu=2 memory=3Gi chosen elsewhere=2", 2,
			"Balance*1: a=0 b=-100; ResourceAllocatableCPU*3: a=-100 b=100; ResourceAllocatableMemory*-1: a=-100 b=100; Steady*1: a=0 b=100", "a=-200 b=200"},
	} {
		t.Run(test.name, func(t *testing.T) {
			candidates := contenders(t, test.candidates)
			s := planOf(t, test.spec).Select(candidates, test.busiest, true, noon())
			require.Equal(t, test.scores, scoresGiven(s, candidates))
			require.Equal(t, test.totals, numbers(candidates, s.Totals))
			require.Empty(t, s.Warnings)
			require.Zero(t, s.Until)
		})
	}
}

// scored are AddOnPlacementScores by cluster/name, from texts such as "cpu=40 memory=-3", with until=-1h for one that is over.
func scored(t *testing.T, texts map[string]string) map[string]*clusterv1alpha1.AddOnPlacementScore {
	t.Helper()
	all := map[string]*clusterv1alpha1.AddOnPlacementScore{}
	for key, text := range texts {
		all[key] = &clusterv1alpha1.AddOnPlacementScore{}
		for _, word := range strings.Fields(text) {
			name, value, _ := strings.Cut(word, "=")
			if name == "until" {
				after, err := time.ParseDuration(value)
				require.NoError(t, err)
				all[key].Status.ValidUntil = &metav1.Time{Time: noon().Add(after)}
				continue
			}
			n, err := strconv.Atoi(value)
			require.NoError(t, err)
			all[key].Status.Scores = append(all[key].Status.Scores, clusterv1alpha1.AddOnPlacementScoreItem{Name: name, Value: int32(n)})
		}
	}
	return all
}

func TestScoresOfAddOns(t *testing.T) {
	one := policy("Exact", "usage/cpu=1")
	for _, test := range []struct {
		name, spec, candidates string
		known                  map[string]string
		scores                 string
		warning                string
		until                  time.Duration // after noon; 0: never
	}{
		{"one score of several", one, "a; b", map[string]string{"a/usage": "cpu=40 memory=7", "b/usage": "memory=9 cpu=-3"}, "AddOn/usage/cpu*1: a=40 b=-3", "", 0},
		{"no such object", one, "a; b", map[string]string{"a/other": "cpu=40", "c/usage": "cpu=1"}, "AddOn/usage/cpu*1: a=0 b=0", "", 0},
		{"no such score in it", one, "a", map[string]string{"a/usage": "memory=40"}, "AddOn/usage/cpu*1: a=0", "", 0},
		{"more than the bounds", one, "a; b", map[string]string{"a/usage": "cpu=250", "b/usage": "cpu=-250"}, "AddOn/usage/cpu*1: a=100 b=-100", "", 0},
		{"one that is over", one, "a; b", map[string]string{"a/usage": "cpu=40 until=-1s", "b/usage": "cpu=-5"}, "AddOn/usage/cpu*1: a=0 b=-5",
			"AddOnPlacementScores a/usage expired", 0},
		{"its last moment is over", one, "a", map[string]string{"a/usage": "cpu=40 until=0s"}, "AddOn/usage/cpu*1: a=0", "AddOnPlacementScores a/usage expired", 0},
		{"the first that ends", one, "a; b; c", map[string]string{"a/usage": "cpu=1 until=9m", "b/usage": "cpu=2 until=5m", "c/usage": "cpu=3"},
			"AddOn/usage/cpu*1: a=1 b=2 c=3", "", 5 * time.Minute},
		{"one that ended does not end again", one, "a; b", map[string]string{"a/usage": "cpu=1 until=-9m", "b/usage": "cpu=2 until=5m"},
			"AddOn/usage/cpu*1: a=0 b=2", "AddOnPlacementScores a/usage expired", 5 * time.Minute},
		{"one object for two scores is named once", policy("Exact", "usage/cpu=1", "usage/memory=2"), "a", map[string]string{"a/usage": "cpu=1 memory=2 until=-1s"},
			"AddOn/usage/cpu*1: a=0; AddOn/usage/memory*2: a=0", "AddOnPlacementScores a/usage expired", 0},
		{"many that are over: five are named", one, "a; b; c; d; e; f; g", map[string]string{"a/usage": "cpu=1 until=-1s", "b/usage": "cpu=1 until=-1s", "c/usage": "cpu=1 until=-1s",
			"d/usage": "cpu=1 until=-1s", "e/usage": "cpu=1 until=-1s", "f/usage": "cpu=1 until=-1s", "g/usage": "cpu=1 until=-1s"},
			"AddOn/usage/cpu*1: a=0 b=0 c=0 d=0 e=0 f=0 g=0", "AddOnPlacementScores a/usage b/usage c/usage d/usage e/usage and 2 more expired", 0},
		{"with weight 0 it is not looked at", policy("Exact", "usage/cpu=0"), "a", map[string]string{"a/usage": "cpu=1 until=-1s"}, "", "", 0},
		{"besides the two that are always there", policy("Additive", "usage/cpu=3"), "a; b chosen", map[string]string{"a/usage": "cpu=40"},
			"AddOn/usage/cpu*3: a=40 b=0; Balance*1: a=100 b=100; Steady*1: a=0 b=100", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := compiler(t, scored(t, test.known)).Compile(&clusterv1beta1.Placement{Spec: *read[clusterv1beta1.PlacementSpec](t, test.spec)})
			require.NoError(t, err)
			candidates := contenders(t, test.candidates)
			s := plan.Select(candidates, 0, true, noon())
			require.Equal(t, test.scores, scoresGiven(s, candidates))
			require.Equal(t, test.warning, strings.Join(s.Warnings, "; "))
			var until time.Time
			if test.until > 0 {
				until = noon().Add(test.until)
			}
			require.Equal(t, until, s.Until)
		})
	}
}
