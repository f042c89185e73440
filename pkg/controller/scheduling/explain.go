package scheduling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

// What keeps a cluster out besides the filters of pkg/placement.
const (
	outOfSets    = "ManagedClusterSet"
	beingDeleted = "Deletion"
	countReached = "NumberOfClusters"
)

// find is a placement as the controller knows it, nil if there is none.
func (c *Controller) find(namespace, name string) *clusterv1beta1.Placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[namespace+"/"+name]; t != nil {
		return t.object
	}
	return nil
}

// explain evaluates a placement, which need not exist, and tells for every cluster what came of it. everyCluster asks for
// those outside of its sets as well. Nothing is decided by asking.
func (c *Controller) explain(ctx context.Context, p *clusterv1beta1.Placement, everyCluster bool) (*placement.Explanation, error) {
	t := c.apart(p)
	if err := c.prepare(ctx, t); err != nil {
		return nil, err
	}
	x, mismatches, err := c.explainPrepared(t, everyCluster)
	if err != nil {
		return nil, err
	}
	for _, m := range mismatches { // without the lock: expressions are evaluated again
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("explain placement %s: %w", t.key(), err)
		}
		x.Clusters[m.at].Reason = t.plan.Why(m.cluster, c.Clock.Now())
	}
	return x, nil
}

// apart is a target for one explanation, which begins with what is known of the placement.
func (c *Controller) apart(p *clusterv1beta1.Placement) *target {
	t := newTarget(p.Namespace, p.Name)
	t.object = p
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.targets[t.key()]; known != nil && known.object == p && known.isCompiled() {
		t.adopt(known.plan, known.wrong)
		t.standings = slices.Clone(known.standings)
	}
	return t
}

// mismatch is a cluster that matches no predicate, and where in the explanation it is.
type mismatch struct {
	at      int
	cluster *clusterv1.ManagedCluster
}

// explainPrepared evaluates and explains all but why clusters match no predicate.
func (c *Controller) explainPrepared(t *target, everyCluster bool) (*placement.Explanation, []mismatch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.targets[t.key()]; known != nil {
		t.decisions, t.homes, t.names, t.numbers = known.decisions, known.homes, known.names, known.numbers // they are only read
	}
	s, err := c.scopeOf(t)
	if err != nil {
		return nil, nil, err
	}
	if !t.isCompiled() {
		t.adopt(compile(c.compiler, t.object))
	}
	x := &placement.Explanation{Placement: bare(t.object)}
	if t.wrong != nil {
		x.Error = t.wrong.Error()
		x.Conditions = conditionsOf(x.Placement, configured(t.wrong), undecided(t.wrong, countOf(c.remaining(t, s))))
		return x, nil, nil
	}
	now := c.Clock.Now()
	e := c.evaluate(t, s, true, now)
	x.Conditions = conditionsOf(x.Placement, configured(nil), c.satisfied(t, e, now))
	x.Warnings = e.selection.Warnings
	explainScores(x, e)
	mismatches := c.explainFilters(x, t, s, everyCluster, now)
	explained := make(map[string]*placement.Explained, len(x.Clusters))
	for i := range x.Clusters {
		explained[x.Clusters[i].Name] = &x.Clusters[i]
	}
	explainRanks(e, explained, t.plan, t.object)
	for _, g := range e.groups {
		for _, name := range g.Clusters {
			explained[name].Group = strings.TrimSuffix(strconv.Itoa(int(g.Index))+"/"+g.Name, "/")
		}
	}
	return x, mismatches, nil
}

// explainFilters lists the clusters, and why filters refuse those that they do.
func (c *Controller) explainFilters(x *placement.Explanation, t *target, s scope, everyCluster bool, now time.Time) (mismatches []mismatch) {
	x.Clusters = make([]placement.Explained, 0, len(c.fleet.sorted))
	passed, tolerated := []string{}, []string{}
	for _, m := range c.fleet.sorted {
		this := placement.Explained{Name: m.name, Decided: t.home(m) != ""}
		switch t.standings[m.id] {
		case outside:
			if !everyCluster {
				continue
			}
			this.Filter, this.Reason = outOfSets, s.without()
		case leaving:
			this.Filter, this.Reason = beingDeleted, "it is being deleted"
		case mismatched:
			this.Filter = string(placement.Predicate)
			mismatches = append(mismatches, mismatch{len(x.Clusters), m.cluster})
		case matched:
			passed = append(passed, m.name)
			if verdict := t.plan.JudgeTaints(m.cluster, now); refused(verdict, this.Decided) {
				this.Filter, this.Reason = string(placement.TaintToleration), t.plan.WhyTainted(verdict, now)
			} else {
				tolerated = append(tolerated, m.name)
			}
		}
		x.Clusters = append(x.Clusters, this)
	}
	x.FilterResults = []placement.FilterResult{
		{Name: string(placement.Predicate), FilteredClusters: passed},
		{Name: string(placement.Predicate) + "," + string(placement.TaintToleration), FilteredClusters: tolerated},
	}
	return mismatches
}

// without says of a cluster outside of the scope what it lacks.
func (s scope) without() string {
	if len(s.eligible) == 0 {
		return "no ManagedClusterSet that the placement may use is bound to its namespace"
	}
	return fmt.Sprintf("it is in none of the sets %s", named(s.eligible))
}

// bare is a placement without what changes by itself, as upstream's debug path shows it.
func bare(p *clusterv1beta1.Placement) *clusterv1beta1.Placement {
	out := &clusterv1beta1.Placement{TypeMeta: p.TypeMeta, Spec: *p.Spec.DeepCopy()}
	out.ObjectMeta = v1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Generation: p.Generation, Labels: p.Labels, Annotations: p.Annotations}
	return out
}

func explainScores(x *placement.Explanation, e *evaluation) {
	for _, by := range e.selection.Prioritizers {
		scores := make(map[string]int64, len(by.Scores))
		for i, score := range by.Scores {
			scores[e.candidates[i].Cluster.Name] = score
		}
		x.PrioritizeResults = append(x.PrioritizeResults, placement.PrioritizeResult{Name: by.Name, Weight: by.Weight, Scores: scores})
	}
	for i, total := range e.selection.Totals {
		x.AggregatedScores = append(x.AggregatedScores, placement.ClusterScore{ClusterName: e.candidates[i].Cluster.Name, Score: total})
	}
	slices.SortStableFunc(x.AggregatedScores, func(a, b placement.ClusterScore) int { return cmp.Compare(b.Score, a.Score) })
}

// explainRanks tells of the clusters that passed the filters where they stand, and why the last of them are not selected.
func explainRanks(e *evaluation, explained map[string]*placement.Explained, plan *placement.Plan, p *clusterv1beta1.Placement) {
	chosen, held := map[int]bool{}, map[int]placement.Held{}
	order := slices.Clone(e.selection.Chosen)
	for _, i := range order {
		chosen[i] = true
	}
	for _, h := range e.selection.HeldBack {
		held[h.Candidate] = h
	}
	var rest []int
	for i := range e.candidates {
		if !chosen[i] {
			rest = append(rest, i)
		}
	}
	slices.SortStableFunc(rest, func(a, b int) int {
		return cmp.Or(cmp.Compare(plan.Avoided(e.candidates[a]), plan.Avoided(e.candidates[b])), cmp.Compare(e.selection.Totals[b], e.selection.Totals[a]))
	})
	for rank, i := range append(order, rest...) {
		this := explained[e.candidates[i].Cluster.Name]
		this.Rank, this.Selected, this.Score = rank+1, chosen[i], e.selection.Totals[i]
		this.Scores = map[string]int64{}
		for _, by := range e.selection.Prioritizers {
			this.Scores[by.Name] = by.Scores[i]
		}
		h, isHeld := held[i]
		switch {
		case chosen[i]:
		case isHeld:
			this.Filter, this.Reason = string(placement.SpreadPolicy), plan.WhyHeld(h, e.candidates[i].Cluster)
		case p.Spec.NumberOfClusters != nil:
			this.Filter, this.Reason = countReached, fmt.Sprintf("it is number %d, and spec.numberOfClusters is %d", rank+1, *p.Spec.NumberOfClusters)
		}
		if e.candidates[i].Avoid > 0 && !chosen[i] {
			this.Reason += "; it has a taint PreferNoSelect"
		}
	}
}
