package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// rounds is how many random placements each property is tried with.
const rounds = 600

// trial is a random placement with random clusters, and what is decided before it is evaluated.
type trial struct {
	*rand.Rand
	object    *clusterv1beta1.Placement
	clusters  []*clusterv1.ManagedCluster // in any order
	scores    map[string]*clusterv1alpha1.AddOnPlacementScore
	chosen    map[string]bool
	elsewhere map[string]int
}

// trials calls f with random trials. A failure shows the seed, which makes the same trial again.
func trials(t *testing.T, f func(t *testing.T, x *trial)) {
	t.Helper()
	first := rand.Uint64()
	for round := range uint64(rounds) {
		seed := first + round
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { f(t, newTrial(seed)) }) {
			return
		}
	}
}

func newTrial(seed uint64) *trial {
	x := &trial{Rand: rand.New(rand.NewPCG(seed, 0)), object: &clusterv1beta1.Placement{}, scores: map[string]*clusterv1alpha1.AddOnPlacementScore{},
		chosen: map[string]bool{}, elsewhere: map[string]int{}}
	for i := range x.IntN(14) {
		mc := x.cluster(fmt.Sprintf("c%02d", i))
		x.clusters = append(x.clusters, mc)
		x.chosen[mc.Name], x.elsewhere[mc.Name] = x.IntN(3) == 0, x.IntN(4)
		if x.IntN(2) == 0 {
			x.scores[mc.Name+"/usage"] = x.score()
		}
	}
	x.spec(&x.object.Spec)
	return x
}

// one is any of some values.
func one[T any](x *trial, values ...T) T { return values[x.IntN(len(values))] }

func (x *trial) cluster(name string) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for range 8 {
		x.alter(mc)
	}
	return mc
}

// alter changes anything of a cluster that placements may look at, and some that they do not.
func (x *trial) alter(mc *clusterv1.ManagedCluster) {
	toggle := func(labels map[string]string, key string, values ...string) map[string]string {
		if value := one(x, append(values, "")...); value != "" {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
		} else {
			delete(labels, key)
		}
		return labels
	}
	amounts := func(list clusterv1.ResourceList) clusterv1.ResourceList {
		if list = list.DeepCopy(); list == nil {
			list = clusterv1.ResourceList{}
		}
		name := one(x, clusterv1.ResourceCPU, clusterv1.ResourceMemory)
		delete(list, name)
		if x.IntN(4) > 0 {
			list[name] = resource.MustParse(one(x, "500m", "1", "2", "4", "4000m", "9"))
		}
		return list
	}
	switch x.IntN(10) {
	case 0, 1:
		mc.Labels = toggle(mc.Labels, one(x, "zone", "ring", "unread"), "x", "y", "z")
	case 2:
		mc.Annotations = toggle(mc.Annotations, one(x, "rack", "unread"), "x", "y")
	case 3, 4:
		claim := clusterv1.ManagedClusterClaim{Name: one(x, "host", "platform", "unread"), Value: one(x, "x", "y")}
		mc.Status.ClusterClaims = slices.DeleteFunc(slices.Clone(mc.Status.ClusterClaims), func(c clusterv1.ManagedClusterClaim) bool { return c.Name == claim.Name })
		if x.IntN(3) > 0 {
			mc.Status.ClusterClaims = append(mc.Status.ClusterClaims, claim)
		}
	case 5:
		mc.Status.Allocatable = amounts(mc.Status.Allocatable)
	case 6:
		mc.Status.Capacity = amounts(mc.Status.Capacity)
	case 7:
		mc.Spec.Taints = slices.Clone(mc.Spec.Taints)
		if len(mc.Spec.Taints) > 0 && x.IntN(2) == 0 {
			i := x.IntN(len(mc.Spec.Taints))
			mc.Spec.Taints = slices.Delete(mc.Spec.Taints, i, i+1)
		} else {
			mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: one(x, "k", "l"), Value: one(x, "", "v"), TimeAdded: metav1.Time{Time: noon().Add(-time.Duration(x.IntN(100)) * time.Second)},
				Effect: one(x, clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectPreferNoSelect, clusterv1.TaintEffectPreferNoSelect, clusterv1.TaintEffectNoSelectIfNew)})
		}
	case 8:
		mc.ResourceVersion = fmt.Sprint(x.IntN(1000))
		mc.Status.Conditions = one(x, nil, []metav1.Condition{}, []metav1.Condition{{Type: "Available", Message: fmt.Sprint(x.IntN(1000))}})
	case 9:
		mc.Status.Version.Kubernetes = one(x, "", "v1.30.1", "v1.31.0")
	}
}

func (x *trial) score() *clusterv1alpha1.AddOnPlacementScore {
	score := &clusterv1alpha1.AddOnPlacementScore{}
	for _, name := range []string{"cpu", "memory"} {
		if x.IntN(4) > 0 {
			score.Status.Scores = append(score.Status.Scores, clusterv1alpha1.AddOnPlacementScoreItem{Name: name, Value: int32(x.IntN(240) - 120)})
		}
	}
	if x.IntN(2) == 0 {
		score.Status.ValidUntil = &metav1.Time{Time: noon().Add(time.Duration(x.IntN(200)-50) * time.Second)}
	}
	return score
}

func (x *trial) spec(spec *clusterv1beta1.PlacementSpec) {
	if x.IntN(4) > 0 {
		spec.NumberOfClusters = new(int32(x.IntN(len(x.clusters) + 3)))
	}
	for range max(0, x.IntN(4)-1) {
		spec.Predicates = append(spec.Predicates, clusterv1beta1.ClusterPredicate{RequiredClusterSelector: x.selector()})
	}
	for range x.IntN(4) {
		t := clusterv1beta1.Toleration{Key: one(x, "k", "l", ""), Effect: one(x, "", "", clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectPreferNoSelect), Operator: clusterv1beta1.TolerationOpExists}
		if t.Key != "" && x.IntN(2) == 0 {
			t.Operator, t.Value = one(x, clusterv1beta1.TolerationOpEqual, ""), one(x, "", "v")
		}
		if x.IntN(2) == 0 {
			t.TolerationSeconds = new(one(x, int64(x.IntN(200)), int64(x.IntN(200)), math.MaxInt64))
		}
		spec.Tolerations = append(spec.Tolerations, t)
	}
	x.prioritizers(spec)
	for range max(0, x.IntN(4)-1) {
		spec.SpreadPolicy.SpreadConstraints = append(spec.SpreadPolicy.SpreadConstraints, one(x,
			clusterv1beta1.SpreadConstraintsTerm{TopologyKey: "zone", TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel, MaxSkew: int32(1 + x.IntN(2)), WhenUnsatisfiable: one(x, clusterv1beta1.DoNotSchedule, clusterv1beta1.ScheduleAnyway)},
			clusterv1beta1.SpreadConstraintsTerm{TopologyKey: "host", TopologyKeyType: clusterv1beta1.TopologyKeyTypeClaim, MaxSkew: int32(1 + x.IntN(2)), WhenUnsatisfiable: one(x, clusterv1beta1.DoNotSchedule, clusterv1beta1.ScheduleAnyway)}))
	}
	strategy := &spec.DecisionStrategy.GroupStrategy
	strategy.ClustersPerDecisionGroup = one(x, intstr.IntOrString{}, intstr.FromInt32(2), intstr.FromString("40%"))
	for i := range x.IntN(3) {
		from := x.selector()
		strategy.DecisionGroups = append(strategy.DecisionGroups, clusterv1beta1.DecisionGroup{GroupName: fmt.Sprint("group-", i),
			ClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: from.LabelSelector, ClaimSelector: from.ClaimSelector}})
	}
}

func (x *trial) prioritizers(spec *clusterv1beta1.PlacementSpec) {
	spec.PrioritizerPolicy.Mode = one(x, clusterv1beta1.PrioritizerPolicyModeAdditive, clusterv1beta1.PrioritizerPolicyModeExact)
	for range x.IntN(4) {
		at := &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: one(x, Steady, Balance, ResourceAllocatableCPU, ResourceAllocatableMemory)}
		if x.IntN(3) == 0 {
			at = &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "usage", ScoreName: one(x, "cpu", "memory")}}
		}
		spec.PrioritizerPolicy.Configurations = append(spec.PrioritizerPolicy.Configurations, clusterv1beta1.PrioritizerConfig{ScoreCoordinate: at, Weight: int32(x.IntN(7) - 3)})
	}
}

func (x *trial) selector() clusterv1beta1.ClusterSelector {
	requirement := func(key string) metav1.LabelSelectorRequirement {
		return one(x, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist},
			metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "z"}}, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}})
	}
	var s clusterv1beta1.ClusterSelector
	switch x.IntN(5) {
	case 0:
		s.LabelSelector.MatchLabels = map[string]string{"zone": one(x, "x", "y")}
	case 1, 2:
		s.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{requirement(one(x, "zone", "ring"))}
	}
	if x.IntN(3) == 0 {
		s.ClaimSelector.MatchExpressions = []metav1.LabelSelectorRequirement{requirement(one(x, "host", "platform"))}
	}
	for range max(0, x.IntN(4)-2) {
		s.CelSelector.CelExpressions = append(s.CelSelector.CelExpressions, one(x,
			`managedCluster.metadata.labels["zone"] != "y"`,
			`!has(managedCluster.metadata.labels.ring)`,
			`managedCluster.metadata.?annotations[?"rack"].orValue("x") == "x"`,
			`managedCluster.metadata.labels.exists(k, k == "ring")`,
			`managedCluster.status.clusterClaims.exists(c, c.name == "host" && c.value == "x")`,
			`!has(managedCluster.status.version.kubernetes) || managedCluster.status.version.kubernetes.endsWith("1")`,
			`quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity("1"))`,
			`managedCluster.spec.?taints.orValue([]).all(t, t.key != "k")`,
			`managedCluster.status.conditions.size() == 0`,
			`managedCluster.scores("usage").exists(s, s.value > 0)`,
			`managedCluster.?metadata.optMap(m, m.name < "c07").orValue(false)`,
		))
	}
	return s
}

func (x *trial) compile(t *testing.T) *Plan {
	t.Helper()
	plan, err := compiler(t, x.scores).Compile(x.object)
	require.NoError(t, err)
	return plan
}

// answer is everything that comes of a trial.
type answer struct {
	candidates []Candidate
	Selection
	refused  map[string]Filter // by cluster; empty: by none
	reasons  map[string]string // why a cluster is not selected, as far as that is for itself or spread to say
	selected []string          // in the order of names
	groups   []Group
	until    time.Time // before which nothing changes by itself
}

// ask evaluates a placement as its caller is to do it.
func (x *trial) ask(plan *Plan, now time.Time) answer {
	a := answer{refused: map[string]Filter{}, reasons: map[string]string{}}
	sorted := slices.SortedFunc(slices.Values(x.clusters), func(a, b *clusterv1.ManagedCluster) int { return cmp.Compare(a.Name, b.Name) })
	busiest := 0
	for _, mc := range sorted {
		busiest = max(busiest, x.elsewhere[mc.Name])
		v := plan.Judge(mc, now)
		a.waits(v.Until)
		if v.Keep && !x.chosen[mc.Name] {
			v.Refused = TaintToleration
		}
		if v.Refused != "" {
			a.refused[mc.Name], a.reasons[mc.Name] = v.Refused, plan.Why(mc, now)
			continue
		}
		a.candidates = append(a.candidates, Candidate{Cluster: mc, Avoid: v.Avoid, Chosen: x.chosen[mc.Name], Elsewhere: x.elsewhere[mc.Name]})
	}
	a.Selection = plan.Select(a.candidates, busiest, true, now)
	a.waits(a.Selection.Until)
	for _, h := range a.HeldBack {
		mc := a.candidates[h.Candidate].Cluster
		a.reasons[mc.Name] = plan.WhyHeld(h, mc)
	}
	var clusters []*clusterv1.ManagedCluster
	for _, i := range slices.Sorted(slices.Values(a.Chosen)) {
		clusters = append(clusters, a.candidates[i].Cluster)
		a.selected = append(a.selected, a.candidates[i].Cluster.Name)
	}
	a.groups = plan.Groups(clusters)
	return a
}

func (a *answer) waits(until time.Time) {
	if !until.IsZero() && (a.until.IsZero() || until.Before(a.until)) {
		a.until = until
	}
}

// String has of an answer what must not depend on chance: who is selected in which order and group, the scores, the reasons.
func (a answer) String() string {
	var b strings.Builder
	for rank, i := range a.Chosen {
		fmt.Fprintf(&b, "%d. %s\n", rank+1, a.candidates[i].Cluster.Name)
	}
	for i, c := range a.candidates {
		fmt.Fprintf(&b, "%s: %d, avoid %d\n", c.Cluster.Name, a.Totals[i], c.Avoid)
	}
	for _, name := range slices.Sorted(keys(a.reasons)) {
		fmt.Fprintf(&b, "%s: %s\n", name, a.reasons[name])
	}
	fmt.Fprintln(&b, a.groups, a.Unscheduled, a.Warnings)
	return b.String()
}

// decision has of an answer what is decided, and by which filter: a reason is told of a cluster as it is by then.
func (a answer) decision() string {
	for name := range a.reasons {
		a.reasons[name] = string(a.refused[name])
	}
	return a.String()
}

func keys[V any](all map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range all {
			if !yield(key) {
				return
			}
		}
	}
}

func TestSameQuestionSameAnswer(t *testing.T) {
	trials(t, func(t *testing.T, x *trial) {
		plan := x.compile(t)
		want := x.ask(plan, noon()).String()
		require.Equal(t, want, x.ask(plan, noon()).String(), "again")
		x.Shuffle(len(x.clusters), func(i, j int) { x.clusters[i], x.clusters[j] = x.clusters[j], x.clusters[i] })
		for i := range x.clusters {
			x.clusters[i] = x.clusters[i].DeepCopy()
		}
		require.Equal(t, want, x.ask(x.compile(t), noon()).String(), "by another plan, of clusters in another order")
	})
}

func TestChoiceIsAllowed(t *testing.T) {
	trials(t, func(t *testing.T, x *trial) {
		a := x.ask(x.compile(t), noon())
		wanted := len(x.clusters)
		if n := x.object.Spec.NumberOfClusters; n != nil {
			wanted = int(*n)
			require.Equal(t, wanted-len(a.selected), a.Unscheduled)
		}
		require.LessOrEqual(t, len(a.selected), wanted)
		require.Len(t, slices.Compact(slices.Clone(a.selected)), len(a.selected), "nobody is selected twice")
		for _, mc := range x.clusters {
			if a.refused[mc.Name] != Predicate {
				require.Equal(t, x.intolerable(mc, noon()) != "", a.refused[mc.Name] == TaintToleration, "%s: %s", mc.Name, x.intolerable(mc, noon()))
			}
			switch selected := slices.Contains(a.selected, mc.Name); {
			case selected:
				require.Empty(t, a.refused[mc.Name], mc.Name)
			case len(a.selected) < wanted:
				require.NotEmpty(t, a.reasons[mc.Name], "there is room for %s, and nothing that keeps it out", mc.Name)
			}
		}
		var grouped []string
		for _, g := range a.groups {
			require.True(t, slices.IsSorted(g.Clusters))
			grouped = append(grouped, g.Clusters...)
		}
		require.ElementsMatch(t, a.selected, grouped, "everybody who is selected is in one group")
	})
}

// intolerable is the first taint that keeps a cluster out, in the words of the API's documentation.
func (x *trial) intolerable(mc *clusterv1.ManagedCluster, now time.Time) string {
	for _, taint := range mc.Spec.Taints {
		if taint.Effect == clusterv1.TaintEffectPreferNoSelect || taint.Effect == clusterv1.TaintEffectNoSelectIfNew && x.chosen[mc.Name] {
			continue
		}
		if !slices.ContainsFunc(x.object.Spec.Tolerations, func(t clusterv1beta1.Toleration) bool {
			key := t.Key == "" || t.Key == taint.Key
			effect := t.Effect == "" || t.Effect == taint.Effect
			value := t.Operator == clusterv1beta1.TolerationOpExists || t.Value == taint.Value
			inTime := t.TolerationSeconds == nil || taint.Effect == clusterv1.TaintEffectNoSelectIfNew || now.Unix()-taint.TimeAdded.Unix() < *t.TolerationSeconds
			return key && effect && value && inTime
		}) {
			return fmt.Sprint(taint)
		}
	}
	return ""
}

// TestSteadyIsSteady: with the weights that a placement has by itself, and no cluster busier than another, what was selected
// stays selected.
func TestSteadyIsSteady(t *testing.T) {
	trials(t, func(t *testing.T, x *trial) {
		x.object.Spec.PrioritizerPolicy, x.elsewhere = clusterv1beta1.PrioritizerPolicy{}, map[string]int{}
		plan := x.compile(t)
		first := x.ask(plan, noon())
		x.chosen = map[string]bool{}
		for _, name := range first.selected {
			x.chosen[name] = true
		}
		require.Equal(t, first.selected, x.ask(plan, noon()).selected)
	})
}

// TestNothingChangesBefore: nobody is selected or dropped before the time at which a plan says that it has to be asked again.
func TestNothingChangesBefore(t *testing.T) {
	trials(t, func(t *testing.T, x *trial) {
		plan := x.compile(t)
		a := x.ask(plan, noon())
		last := noon().Add(time.Hour)
		if !a.until.IsZero() {
			require.True(t, a.until.After(noon()), "it waits for what is over")
			last = a.until.Add(-time.Second)
		}
		later := noon().Add(time.Duration(x.Int64N(int64(last.Sub(noon())) + 1)))
		for _, now := range []time.Time{later, last} {
			b := x.ask(plan, now)
			for _, said := range []*answer{&a, &b} { // which of two taints is named as the reason may change, not that there is one
				for name := range said.reasons {
					said.reasons[name] = "out"
				}
			}
			require.Equal(t, a.String(), b.String(), "asked at noon, and then at %s", now)
		}
	})
}

// TestReadsIsSound: where a plan says that it does not look at a change of a cluster, the change makes no difference.
func TestReadsIsSound(t *testing.T) {
	unread := 0
	trials(t, func(t *testing.T, x *trial) {
		plan := x.compile(t)
		if len(x.clusters) == 0 {
			return
		}
		want := x.ask(plan, noon()).decision()
		for range 8 {
			i := x.IntN(len(x.clusters))
			before, after := x.clusters[i], x.clusters[i].DeepCopy()
			x.alter(after)
			x.clusters[i] = after
			got := x.ask(plan, noon()).decision()
			if !plan.Reads(DifferenceOf(before, after)) {
				unread++
				require.Equal(t, want, got, "a change that is not read:\n%v\n%v", before, after)
			}
			want = got
		}
	})
	require.Greater(t, unread, rounds, "most changes are none that a placement reads")
}

func TestReadsScoreIsSound(t *testing.T) {
	trials(t, func(t *testing.T, x *trial) {
		if len(x.clusters) == 0 {
			return
		}
		plan := x.compile(t)
		before := x.ask(plan, noon()).String()
		x.scores[one(x, x.clusters...).Name+"/usage"] = x.score()
		if !plan.ReadsScore("usage") {
			require.Equal(t, before, x.ask(plan, noon()).String())
		}
		require.False(t, plan.ReadsScore("another"))
	})
}
