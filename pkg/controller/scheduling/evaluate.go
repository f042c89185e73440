package scheduling

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/membership"
	"nave/pkg/placement"
)

// evaluation is what a placement selects at a moment, and why.
type evaluation struct {
	scope      scope
	refusals   refusals
	candidates []placement.Candidate // that passed all filters, in the order of names
	selection  placement.Selection
	selected   []*clusterv1.ManagedCluster // in the order of names
	groups     []placement.Group
	until      time.Time // when time alone may change it; zero: never
}

// scope is where a placement may select from.
type scope struct {
	bindings []string // of the namespace, by the name of their set
	bound    []string // sets that are bound and exist
	eligible []string // those of them that the placement wants
	members  []func(*clusterv1.ManagedCluster) bool
}

// refusals counts why clusters of the scope are not among the candidates.
type refusals struct {
	clusters   int // in the scope, whatever became of them
	leaving    int
	mismatched int
	tainted    int
}

// scopeOf reads which sets count. As upstream has it, a binding is valid if its set exists.
func (c *Controller) scopeOf(t *target) (scope, error) {
	s := scope{members: []func(*clusterv1.ManagedCluster) bool{}} // not nil: it was looked up
	bindings, err := c.bindings.ByIndex(byNamespace, t.namespace)
	if err != nil {
		return s, err
	}
	wanted := sets.New(t.object.Spec.ClusterSets...)
	for _, obj := range bindings {
		binding, ok := obj.(*clusterv1beta2.ManagedClusterSetBinding)
		if !ok {
			continue
		}
		s.bindings = append(s.bindings, binding.Name)
		set, err := c.sets.Get(binding.Name)
		if err != nil {
			continue // it does not exist
		}
		s.bound = append(s.bound, set.Name)
		if len(wanted) == 0 || wanted.Has(set.Name) {
			s.eligible = append(s.eligible, set.Name)
			s.members = append(s.members, membership.Of(set))
		}
	}
	slices.Sort(s.bindings)
	slices.Sort(s.bound)
	slices.Sort(s.eligible)
	return s, nil
}

func (s scope) has(mc *clusterv1.ManagedCluster) bool {
	return slices.ContainsFunc(s.members, func(in func(*clusterv1.ManagedCluster) bool) bool { return in(mc) })
}

// evaluate decides what a placement selects. Nothing is written. scored asks for scores that do not matter for the choice.
func (c *Controller) evaluate(t *target, s scope, scored bool, now time.Time) *evaluation {
	e := &evaluation{scope: s, candidates: c.scratch[:0]}
	t.grow(&c.fleet)
	for _, m := range c.fleet.sorted {
		c.consider(t, m, e, now)
	}
	c.scratch = e.candidates
	e.selection = t.plan.Select(e.candidates, c.busiest(t), scored || t.plan.SortByScore(), now)
	e.waits(e.selection.Until)
	chosen := slices.Clone(e.selection.Chosen)
	slices.Sort(chosen)
	for _, i := range chosen {
		e.selected = append(e.selected, e.candidates[i].Cluster)
	}
	e.groups = t.plan.Groups(e.selected)
	return e
}

// busiest is the most decisions that other placements have for any cluster.
func (c *Controller) busiest(t *target) int {
	most := 0
	for _, m := range c.fleet.entries {
		if m != nil && m.decisions > most {
			n := m.decisions
			if t.home(m) != "" {
				n--
			}
			most = max(most, n)
		}
	}
	return most
}

// consider judges one cluster, or remembers how it was judged, and makes it a candidate if nothing is against it.
func (c *Controller) consider(t *target, m *member, e *evaluation, now time.Time) {
	if t.standings[m.id] == unknown {
		t.standings[m.id] = stand(t.plan, e.scope, m.cluster)
	}
	if t.standings[m.id] == outside {
		return
	}
	e.refusals.clusters++
	switch t.standings[m.id] {
	case leaving:
		e.refusals.leaving++
		return
	case mismatched:
		e.refusals.mismatched++
		return
	}
	verdict, chosen := t.plan.JudgeTaints(m.cluster, now), t.home(m) != ""
	if refused(verdict, chosen) {
		e.refusals.tainted++
		return
	}
	e.waits(verdict.Until)
	elsewhere := m.decisions
	if chosen {
		elsewhere--
	}
	e.candidates = append(e.candidates, placement.Candidate{Cluster: m.cluster, Avoid: verdict.Avoid, Chosen: chosen, Elsewhere: elsewhere})
}

// stand tells how a cluster stands.
func stand(plan *placement.Plan, s scope, mc *clusterv1.ManagedCluster) standing {
	switch {
	case !s.has(mc):
		return outside
	case mc.DeletionTimestamp != nil:
		return leaving
	case !plan.Matches(mc):
		return mismatched
	}
	return matched
}

// refused tells whether taints keep a cluster out.
func refused(v placement.Verdict, chosen bool) bool { return v.Refused != "" || v.Keep && !chosen }

// waits takes notice of a moment at which the evaluation may change.
func (e *evaluation) waits(until time.Time) {
	if !until.IsZero() && (e.until.IsZero() || until.Before(e.until)) {
		e.until = until
	}
}

// matters tells whether a change of a cluster can change what a placement selects or says. One that was never evaluated
// is about to be.
func (t *target) matters(before, after *clusterv1.ManagedCluster, difference *placement.Difference) bool {
	if t.object == nil || t.sets == nil {
		return false
	}
	s := scope{members: t.sets}
	was, is := before != nil && s.has(before), after != nil && s.has(after)
	switch {
	case !was && !is:
		return false
	case was != is, (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil):
		return true
	}
	return t.plan != nil && t.plan.Reads(difference)
}

// refusing are the taints that keep clusters out, as key=value:effect, with how many clusters each keeps out, most first.
func (c *Controller) refusing(t *target, now time.Time) []counted {
	counts := map[string]int{}
	for _, m := range c.fleet.sorted {
		if t.standings[m.id] != matched {
			continue
		}
		if v := t.plan.JudgeTaints(m.cluster, now); refused(v, t.home(m) != "") {
			counts[placement.TaintText(v.Taint)]++
		}
	}
	all := make([]counted, 0, len(counts))
	for what, n := range counts {
		all = append(all, counted{what, n})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.what, b.what)) })
	return all
}

type counted struct {
	what string
	n    int
}
