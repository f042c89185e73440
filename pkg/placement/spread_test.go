package placement

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

func planOf(t *testing.T, spec string) *Plan {
	t.Helper()
	plan, err := compiler(t, nil).Compile(&clusterv1beta1.Placement{Spec: *read[clusterv1beta1.PlacementSpec](t, spec)})
	require.NoError(t, err)
	return plan
}

// candidatesOf are clusters from names with zone and host, such as a1@z1/h1; what is left out they do not have.
func candidatesOf(texts string) []Candidate {
	var all []Candidate
	for _, text := range strings.Fields(texts) {
		name, topology, _ := strings.Cut(text, "@")
		zone, host, _ := strings.Cut(topology, "/")
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if zone != "" {
			mc.Labels["zone"] = zone
		}
		if host != "" {
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "host", Value: host}}
		}
		all = append(all, Candidate{Cluster: mc})
	}
	return all
}

func chosenOf(s Selection, candidates []Candidate) string {
	var names []string
	for _, i := range s.Chosen {
		names = append(names, candidates[i].Cluster.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestSpread(t *testing.T) {
	const (
		strict = "{topologyKey: zone, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}"
		loose  = "{topologyKey: zone, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}"
		hosts  = "{topologyKey: host, topologyKeyType: Claim, maxSkew: 1}"
	)
	for _, test := range []struct {
		name        string
		count       string
		constraints string
		candidates  string
		chosen      string
		unscheduled int
		held        string // the reason of each, by candidate
	}{
		{"evenly", "numberOfClusters: 4", strict, "a@x b@x c@x d@y e@y f@z", "a b d f", 0,
			`c: spread constraint 1 with DoNotSchedule and maxSkew 1 allows no more clusters whose label zone is "x"`},
		{"one zone has too few", "numberOfClusters: 5", strict, "a@x b@x c@x d@y", "a b d", 2,
			`c: spread constraint 1 with DoNotSchedule and maxSkew 1 allows no more clusters whose label zone is "x"`},
		{"all that are allowed", "", strict, "a@x b@x c@x d@y", "a b d", 0,
			`c: spread constraint 1 with DoNotSchedule and maxSkew 1 allows no more clusters whose label zone is "x"`},
		{"a larger skew", "", strings.Replace(strict, "maxSkew: 1", "maxSkew: 2", 1), "a@x b@x c@x d@y", "a b c d", 0, ""},
		{"no zone", "", strict, "a@x b c@y", "a c", 0, "b: it has no label zone, which spread constraint 1 with DoNotSchedule needs"},
		{"anyway, but evenly first", "numberOfClusters: 3", loose, "a@x b@x c@x d@y e", "a b d", 0, ""},
		{"anyway, as many as are asked for", "numberOfClusters: 4", loose, "a@x b@x c@x d@y", "a b c d", 0, ""},
		{"anyway, without a zone last", "numberOfClusters: 2", loose, "a b@x c@y", "b c", 0, ""},
		{"anyway, all", "", loose, "a@x b@x c", "a b c", 0, ""},
		{"the first constraint matters more", "numberOfClusters: 2", loose + ", " + hosts, "a@x/1 b@x/2 c@y/1", "a c", 0, ""},
		{"among equals the second one counts", "numberOfClusters: 2", loose + ", " + hosts, "a@x/1 b@y/1 c@y/2", "a c", 0, ""},
		{"one constraint after the other", "numberOfClusters: 2", strict + ", " + hosts, "a@x/1 b@y/1 c@x/2", "a b", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, candidates := planOf(t, test.count+"\nspreadPolicy: {spreadConstraints: ["+test.constraints+"]}"), candidatesOf(test.candidates)
			s := plan.Select(candidates, 0, false, noon())
			require.Equal(t, test.chosen, chosenOf(s, candidates))
			require.Equal(t, test.unscheduled, s.Unscheduled)
			var held []string
			for _, h := range s.HeldBack {
				mc := candidates[h.Candidate].Cluster
				held = append(held, mc.Name+": "+plan.WhyHeld(h, mc))
			}
			require.Equal(t, test.held, strings.Join(held, "; "))
		})
	}
}

func TestWrongSpread(t *testing.T) {
	for constraint, message := range map[string]string{
		"{topologyKey: '', topologyKeyType: Label, maxSkew: 1}":                            "SpreadPolicy:spread constraint 1: topologyKey is required",
		"{topologyKey: a, topologyKeyType: Node, maxSkew: 1}":                              `SpreadPolicy:spread constraint 1: topologyKeyType is "Node", neither Label nor Claim`,
		"{topologyKey: a, topologyKeyType: Label}":                                         "SpreadPolicy:spread constraint 1: maxSkew is 0, less than 1",
		"{topologyKey: a, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: Perhaps}": `SpreadPolicy:spread constraint 1: whenUnsatisfiable is "Perhaps", neither DoNotSchedule nor ScheduleAnyway`,
	} {
		spec := read[clusterv1beta1.PlacementSpec](t, "spreadPolicy: {spreadConstraints: ["+constraint+"]}")
		_, err := compiler(t, nil).Compile(&clusterv1beta1.Placement{Spec: *spec})
		require.EqualError(t, err, message)
	}
}

func TestSpreadReads(t *testing.T) {
	plan := planOf(t, "spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 1}, {topologyKey: host, topologyKeyType: Claim, maxSkew: 1}]}")
	before := candidatesOf("a@x/1")[0].Cluster
	for after, reads := range map[string]bool{"a@x/1": false, "a@y/1": true, "a@x/2": true, "a@x": true, "a": true} {
		require.Equal(t, reads, plan.Reads(DifferenceOf(before, candidatesOf(after)[0].Cluster)), after)
	}
}

// TestSpreadHolds chooses among random clusters: the skew is kept, the choice stays as it is when nothing changes, and no
// more clusters could have been selected.
func TestSpreadHolds(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	for round := range 300 {
		skew, count := 1+r.Intn(3), r.Intn(20)
		plan := planOf(t, fmt.Sprintf("numberOfClusters: %d\nspreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: %d, whenUnsatisfiable: DoNotSchedule}, "+
			"{topologyKey: host, topologyKeyType: Claim, maxSkew: 1}]}", count, skew))
		var texts []string
		for i := range r.Intn(25) {
			texts = append(texts, fmt.Sprintf("c%02d@%s/%d", i, []string{"", "x", "y", "z"}[r.Intn(4)], r.Intn(3)))
		}
		candidates := candidatesOf(strings.Join(texts, " "))
		for i := range candidates {
			candidates[i].Elsewhere = r.Intn(4)
		}
		s := plan.Select(candidates, 3, false, noon())
		require.LessOrEqual(t, len(s.Chosen), count, "round %d", round)
		counts := map[string]int{}
		for i := range candidates {
			if zone, ok := candidates[i].Cluster.Labels["zone"]; ok {
				counts[zone] += 0
			}
		}
		for _, i := range s.Chosen {
			require.Contains(t, candidates[i].Cluster.Labels, "zone", "round %d", round)
			counts[candidates[i].Cluster.Labels["zone"]]++
			candidates[i].Chosen = true
		}
		least := len(candidates)
		for _, n := range counts {
			least = min(least, n)
		}
		for zone, n := range counts {
			require.LessOrEqual(t, n-least, skew, "round %d: zone %s of %v", round, zone, counts)
		}
		if len(s.Chosen) < min(count, len(candidates)) {
			require.Len(t, s.HeldBack, len(candidates)-len(s.Chosen), "round %d: what is not selected is held back", round)
		}
		require.Equal(t, chosenOf(s, candidates), chosenOf(plan.Select(candidates, 3, false, noon()), candidates), "round %d", round)
	}
}

// TestSpreadSettles chooses by several constraints: what was chosen is chosen again when nothing changes.
func TestSpreadSettles(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	any := func(values ...string) string { return values[r.Intn(len(values))] }
	c := compiler(t, nil)
	for round := range 2000 {
		p := &clusterv1beta1.Placement{}
		for _, key := range []string{"zone", "ring", "site"}[:2+r.Intn(2)] {
			p.Spec.SpreadPolicy.SpreadConstraints = append(p.Spec.SpreadPolicy.SpreadConstraints, clusterv1beta1.SpreadConstraintsTerm{TopologyKey: key, TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel,
				MaxSkew: int32(1 + r.Intn(2)), WhenUnsatisfiable: clusterv1beta1.UnsatisfiableMaxSkewAction(any("DoNotSchedule", "ScheduleAnyway"))})
		}
		var candidates []Candidate
		for i := range 4 + r.Intn(14) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", i), Labels: map[string]string{}}}
			for _, key := range []string{"zone", "ring", "site"} {
				if value := any("", "x", "y", "z"); value != "" {
					mc.Labels[key] = value
				}
			}
			candidates = append(candidates, Candidate{Cluster: mc, Chosen: r.Intn(2) == 0, Avoid: r.Intn(4) / 3})
		}
		p.Spec.NumberOfClusters = new(int32(1 + r.Intn(len(candidates))))
		plan, err := c.Compile(p)
		require.NoError(t, err)
		first := plan.Select(candidates, 0, false, noon())
		for i := range candidates {
			candidates[i].Chosen = slices.Contains(first.Chosen, i)
		}
		require.Equal(t, chosenOf(first, candidates), chosenOf(plan.Select(candidates, 0, false, noon()), candidates), "round %d", round)
	}
}
