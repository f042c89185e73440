package scheduling

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/placement"
)

// history is a controller that lives through random events.
type history struct {
	*world
	*rand.Rand
	until map[string]time.Time // by placement, when it is to be evaluated without an event
	log   []string
}

// TestAsIfItHadJustStarted gives one controller random events, a few at a time, and compares it with one that has just
// started and finds the objects as they are then: what they say of each cluster, and what they decide. A placement that
// nothing asks to be evaluated has to be as a new controller would have it.
func TestAsIfItHadJustStarted(t *testing.T) {
	histories(t, func(h *history) {
		for range 40 {
			for range 1 + h.IntN(3) {
				h.happen()
			}
			h.compare()
		}
	})
}

// histories calls f with controllers that know nothing but a set. A failure shows the seed, which makes the same events again.
func histories(t *testing.T, f func(h *history)) {
	first := rand.Uint64()
	for round := range uint64(30) {
		seed := first + round
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{world: newWorld(t), Rand: rand.New(rand.NewPCG(seed, 0)), until: map[string]time.Time{}}
			h.set("s", "n")
			f(h)
		}) {
			return
		}
	}
}

// TestWritesFail has many writes fail, some of them for good since their placement is gone before they are tried again. Once
// they succeed, everything is as if they always had.
func TestWritesFail(t *testing.T) {
	histories(t, func(h *history) {
		for range 12 {
			for range 1 + h.IntN(6) {
				h.happen()
				for _, name := range h.due() {
					if !h.tried(name) {
						h.enqueue("n/" + name) // as an error does
					}
				}
			}
			for _, name := range []string{"p", "q", "r"} {
				if t := h.targets["n/"+name]; t != nil && t.object != nil {
					h.decided(name)
					h.until[name] = h.world.until
					h.check(t)
				}
			}
			h.compare()
		}
	})
}

// tried evaluates a placement whose writes may fail, and tells whether none did.
func (h *history) tried(name string) bool {
	t := h.targets["n/"+name]
	if t == nil || t.object == nil {
		return true
	}
	o, err := h.decide(t, h.clock.Now())
	require.NoError(h.t, err)
	ok := h.take(t, o, func() bool { return h.IntN(3) == 0 })
	h.note("placement %s is evaluated, and all is written: %t", name, ok)
	return ok
}

func (h *history) note(format string, arguments ...any) {
	h.log = append(h.log, fmt.Sprintf(format, arguments...))
}

// told are the last few events, for a failure.
func (h *history) told() string {
	return strings.Join(h.log[max(0, len(h.log)-40):], "\n")
}

func pick[T any](h *history, values ...T) T { return values[h.IntN(len(values))] }

// happen is one random event.
func (h *history) happen() {
	cluster, name := fmt.Sprintf("c%d", h.IntN(9)), pick(h, "p", "q", "r")
	t := h.targets["n/"+name]
	exists := t != nil && t.object != nil
	switch n := h.IntN(20); {
	case n < 8:
		h.clusterEvent(cluster)
	case n == 8:
		if h.clusters[cluster] != nil {
			h.note("%s is gone", cluster)
			h.gone(cluster)
		}
	case n < 11:
		h.scoreEvent(cluster)
	case n < 13:
		h.setEvent()
	case n < 16 || !exists:
		spec := h.spec()
		h.note("placement %s: %q", name, spec)
		h.placement(name, spec)
	case n == 16:
		h.note("placement %s is deleted", name)
		h.placementChanged(t.object, nil)
	case n == 17:
		off := h.IntN(2) == 0
		h.note("placement %s is switched off: %t", name, off)
		h.annotate(name, off)
	case n == 18:
		h.collect()
		h.schedule(t)
	default:
		by := time.Duration(h.IntN(60)) * time.Second
		h.note("%s pass", by)
		h.clock.Step(by)
	}
}

func (h *history) clusterEvent(name string) {
	what := "nothing"
	h.cluster(name, func(mc *clusterv1.ManagedCluster) {
		switch h.IntN(8) {
		case 0, 1:
			key, value := pick(h, "ring", "zone", "unread"), pick(h, "x", "y", "")
			what = key + " " + value
			if mc.Labels[key] = value; value == "" {
				delete(mc.Labels, key)
			}
		case 2, 3:
			mc.Spec.Taints = slices.Clone(mc.Spec.Taints)
			if len(mc.Spec.Taints) > 0 && h.IntN(2) == 0 {
				mc.Spec.Taints = mc.Spec.Taints[1:]
			} else {
				mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: pick(h, "k", "l"), TimeAdded: metav1.Time{Time: h.clock.Now()},
					Effect: pick(h, clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectPreferNoSelect, clusterv1.TaintEffectNoSelectIfNew)})
			}
			what = fmt.Sprint(mc.Spec.Taints)
		case 4:
			amount := clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(pick(h, "1", "2", "3"))}
			mc.Status.Allocatable, mc.Status.Capacity = amount, amount
			what = fmt.Sprint(amount)
		case 5:
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "host", Value: pick(h, "x", "y")}}
			what = fmt.Sprint(mc.Status.ClusterClaims)
		case 6:
			mc.Labels[clusterv1beta2.ClusterSetLabel] = pick(h, "s", "s", "s2", "s3")
			what = "set " + mc.Labels[clusterv1beta2.ClusterSetLabel]
		case 7:
			if h.IntN(3) == 0 {
				leavingNow(mc)
				what = "is leaving"
			}
		}
	})
	h.note("%s: %s", name, what)
}

func (h *history) scoreEvent(cluster string) {
	var status *clusterv1alpha1.AddOnPlacementScoreStatus
	if h.IntN(4) > 0 {
		status = &clusterv1alpha1.AddOnPlacementScoreStatus{Scores: []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "cpu", Value: int32(h.IntN(5) * 20)}}}
		if h.IntN(2) == 0 {
			status.ValidUntil = &metav1.Time{Time: h.clock.Now().Add(time.Duration(h.IntN(90)) * time.Second)}
		}
	}
	h.note("score of %s: %v", cluster, status)
	h.score(cluster, "usage", status)
}

func (h *history) setEvent() {
	name := pick(h, "s", "s2", "s3")
	sets := h.informers.Cluster().V1beta2().ManagedClusterSets().Informer().GetIndexer()
	known, there, _ := sets.GetByKey(name)
	_, bound, _ := h.bindings.GetByKey("n/" + name)
	switch {
	case !there || !bound:
		h.note("set %s is bound", name)
		h.set(name, "n")
	case h.IntN(2) == 0:
		h.note("set %s is not bound any more", name)
		h.unbind(name, "n")
	default:
		h.note("set %s is gone", name)
		require.NoError(h.t, sets.Delete(known))
		h.setChanged(known.(*clusterv1beta2.ManagedClusterSet), nil)
	}
}

// spec is a random one.
func (h *history) spec() string {
	all := []string{pick(h, "numberOfClusters: 1", "numberOfClusters: 3", "numberOfClusters: 20", "")}
	if h.IntN(3) == 0 {
		all = append(all, pick(h, "clusterSets: [s]", "clusterSets: [s2, s3]", "clusterSets: [none]"))
	}
	if h.IntN(2) == 0 {
		all = append(all, "predicates: [{requiredClusterSelector: {"+pick(h,
			"labelSelector: {matchLabels: {ring: x}}",
			"labelSelector: {matchExpressions: [{key: ring, operator: DoesNotExist}]}",
			"labelSelector: {matchExpressions: [{key: ring, operator: Nonsense}]}",
			"claimSelector: {matchExpressions: [{key: host, operator: In, values: [x]}]}",
			`celSelector: {celExpressions: ["managedCluster.metadata.labels.zone == 'x'"]}`,
			`celSelector: {celExpressions: ["managedCluster.scores('usage').all(s, s.value > 30)"]}`,
			`celSelector: {celExpressions: ["managedCluster.spec.?taints.orValue([]).size() < 2"]}`,
		)+"}}]")
	}
	if h.IntN(2) == 0 {
		all = append(all, "tolerations: ["+pick(h, "{key: k, operator: Exists}", "{key: k, operator: Exists, tolerationSeconds: 45}",
			"{key: k, operator: Exists, tolerationSeconds: 45}, {key: l, operator: Exists, tolerationSeconds: 90}", "{operator: Exists, effect: PreferNoSelect, tolerationSeconds: 30}")+"]")
	}
	if h.IntN(2) == 0 {
		all = append(all, "prioritizerPolicy: {mode: "+pick(h, "Additive", "Exact")+", configurations: ["+pick(h,
			"{weight: 2, scoreCoordinate: {type: BuiltIn, builtIn: ResourceAllocatableCPU}}",
			"{weight: 1, scoreCoordinate: {type: BuiltIn, builtIn: Steady}}",
			"{weight: 0, scoreCoordinate: {type: BuiltIn, builtIn: Balance}}",
			"{weight: 3, scoreCoordinate: {type: AddOn, addOn: {resourceName: usage, scoreName: cpu}}}",
		)+"]}")
	}
	if h.IntN(4) == 0 {
		all = append(all, "spreadPolicy: {spreadConstraints: [{topologyKey: zone, topologyKeyType: Label, maxSkew: 1, whenUnsatisfiable: "+pick(h, "DoNotSchedule", "ScheduleAnyway")+"}]}")
	}
	if h.IntN(3) == 0 {
		all = append(all, "decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: "+pick(h, "2", "50%")+", decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {zone: x}}}}]}}")
	}
	if h.IntN(4) == 0 {
		all = append(all, "sortBy: Score\nscoreRateLimit: 20s")
	}
	return strings.Join(all, "\n")
}

// collect removes the decisions of placements that are gone, as the garbage collector does.
func (h *history) collect() {
	for _, key := range slices.Sorted(maps.Keys(h.targets)) {
		t := h.targets[key]
		for _, name := range slices.Sorted(maps.Keys(t.decisions)) {
			if d := t.decisions[name]; t.object == nil || metav1.GetControllerOf(d).UID != t.object.UID {
				h.note("%s is collected", name)
				h.decisionChanged(d, nil)
			}
		}
	}
}

// schedule moves clusters between the decisions of a placement that is switched off, as somebody who schedules in the hub's
// place does.
func (h *history) schedule(t *target) {
	if t.object == nil || t.object.Annotations[clusterv1beta1.PlacementDisableAnnotation] != "true" || len(t.decisions) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(t.decisions))
	from, to, cluster := pick(h, names...), pick(h, names...), fmt.Sprintf("c%d", h.IntN(9))
	edit := func(name string, in bool) {
		d := t.decisions[name].DeepCopy()
		d.ResourceVersion = h.next()
		d.Status.Decisions = slices.DeleteFunc(d.Status.Decisions, func(d clusterv1beta1.ClusterDecision) bool { return d.ClusterName == cluster })
		if in {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
		}
		h.note("%s has %s: %t", name, cluster, in)
		h.decisionChanged(t.decisions[name], d)
	}
	edit(to, true)
	for _, name := range names {
		if name != to && (name == from || slices.Contains(clustersOf(t.decisions[name]), cluster)) {
			edit(name, false)
		}
	}
}

// fresh is a controller that has just started, with everything that there is now.
func (h *history) fresh() *world {
	w := newWorld(h.t)
	w.clock.SetTime(h.clock.Now())
	w.version = h.version
	copyAll := func(from, to interface {
		List() []any
		Add(any) error
	}) {
		for _, object := range from.List() {
			require.NoError(h.t, to.Add(object))
		}
	}
	theirs, ours := h.informers.Cluster(), w.informers.Cluster()
	copyAll(theirs.V1beta2().ManagedClusterSets().Informer().GetIndexer(), ours.V1beta2().ManagedClusterSets().Informer().GetIndexer())
	copyAll(theirs.V1alpha1().AddOnPlacementScores().Informer().GetIndexer(), ours.V1alpha1().AddOnPlacementScores().Informer().GetIndexer())
	copyAll(h.bindings, w.bindings)
	var all []func()
	for _, name := range slices.Sorted(maps.Keys(h.clusters)) {
		w.clusters[name] = h.clusters[name]
		all = append(all, func() { w.clusterChanged(nil, h.clusters[name]) })
	}
	for _, key := range slices.Sorted(maps.Keys(h.targets)) {
		t := h.targets[key]
		if t.object != nil {
			all = append(all, func() { w.placementChanged(nil, t.object) })
		}
		for _, name := range slices.Sorted(maps.Keys(t.decisions)) {
			all = append(all, func() { w.decisionChanged(nil, t.decisions[name]) })
		}
	}
	h.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, event := range all {
		event()
	}
	return w
}

// compare evaluates what is due, and compares it with what a fresh controller says and does.
func (h *history) compare() {
	now, due, fresh := h.clock.Now(), h.due(), h.fresh()
	for _, name := range []string{"p", "q", "r"} {
		t := h.targets["n/"+name]
		if t == nil || t.object == nil {
			continue
		}
		require.Equal(h.t, explained(fresh, name), explained(h.world, name), "placement %s is explained after\n%s", name, h.told())
		until := h.until[name]
		if slices.Contains(due, name) || !until.IsZero() && !until.After(now) {
			h.note("placement %s is evaluated", name)
			require.Equal(h.t, fresh.decided(name), h.decided(name), "placement %s after\n%s", name, h.told())
			require.Equal(h.t, stated(fresh, name), stated(h.world, name), "placement %s after\n%s", name, h.told())
			require.Equal(h.t, fresh.until, h.world.until, "placement %s after\n%s", name, h.told())
			h.until[name] = h.world.until
			h.check(t)
		} else if !restless(t.object) {
			before := h.there(name)
			require.Equal(h.t, fresh.decided(name), before, "placement %s, which is not evaluated, after\n%s", name, h.told())
		}
	}
}

// check looks at what has just been decided by itself.
func (h *history) check(t *target) {
	if disabled(t.object) {
		return // with what it had, be it half written
	}
	seen := map[string]bool{}
	for _, d := range t.decisions {
		for _, name := range clustersOf(d) {
			require.False(h.t, seen[name], "%s is selected twice after\n%s", name, h.told())
			seen[name] = true
		}
	}
	for name := range seen {
		mc := h.clusters[name]
		require.True(h.t, mc != nil && mc.DeletionTimestamp == nil, "%s is not there, or not for long, after\n%s", name, h.told())
		require.Contains(h.t, []string{"s", "s2", "s3"}, mc.Labels[clusterv1beta2.ClusterSetLabel])
	}
	x, err := h.explain(h.t.Context(), t.object, true)
	require.NoError(h.t, err)
	for _, c := range x.Clusters {
		require.Equal(h.t, !c.Selected, c.Filter != "" && c.Reason != "", "what keeps %s out after\n%s", c.Name, h.told())
	}
	if !restless(t.object) {
		before := h.there(t.name)
		h.writes = 0
		require.Equal(h.t, before, h.decided(t.name), "evaluated again after\n%s", h.told())
		require.Zero(h.t, h.writes, "evaluated again after\n%s", h.told())
	}
	if n := t.object.Spec.NumberOfClusters; n != nil && len(x.Clusters) > 0 {
		require.LessOrEqual(h.t, len(seen), int(*n), "selected after\n%s", h.told())
	}
}

// explained is all that a controller says of the clusters of a placement.
func explained(w *world, name string) string {
	x, err := w.explain(w.t.Context(), w.targets["n/"+name].object, true)
	require.NoError(w.t, err)
	for i := range x.Conditions {
		x.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	text, err := json.MarshalIndent(x, "", " ")
	require.NoError(w.t, err)
	return string(text)
}

// stated is the status of a placement without when its conditions changed.
func stated(w *world, name string) clusterv1beta1.PlacementStatus {
	status := w.targets["n/"+name].object.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return *status
}

// there are the decisions of a placement as they are.
func (h *history) there(name string) map[string][]string {
	all := map[string][]string{}
	for name, d := range h.targets["n/"+name].decisions {
		all[name] = clustersOf(d)
	}
	return all
}

// restless tells whether a placement may be evaluated to something else though nothing has happened to it: what other
// placements decide counts for Balance, and what it decides itself for the scores that it shows. Neither is an event to it.
func restless(p *clusterv1beta1.Placement) bool {
	if p.Spec.SortBy == clusterv1beta1.PlacementSortByScore {
		return true
	}
	balances := p.Spec.PrioritizerPolicy.Mode != clusterv1beta1.PrioritizerPolicyModeExact
	for _, c := range p.Spec.PrioritizerPolicy.Configurations {
		if c.ScoreCoordinate.BuiltIn == placement.Balance {
			balances = c.Weight != 0
		}
	}
	return balances && (p.Spec.NumberOfClusters != nil || len(p.Spec.SpreadPolicy.SpreadConstraints) > 0)
}
