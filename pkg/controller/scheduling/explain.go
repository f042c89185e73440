package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
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
func (c *Controller) explain(p *clusterv1beta1.Placement, everyCluster bool) (*placement.Explanation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := newTarget(p.Namespace, p.Name)
	if known := c.targets[t.key()]; known != nil {
		t.decisions, t.homes, t.names, t.numbers = known.decisions, known.homes, known.names, known.numbers // they are only read
	}
	t.object = p
	t.compile(c.compiler)
	s, err := c.scopeOf(t)
	if err != nil {
		return nil, err
	}
	x := &placement.Explanation{Placement: bare(p)}
	if t.wrong != nil {
		x.Error = t.wrong.Error()
		x.Conditions = conditionsOf(x.Placement, configured(t.wrong), undecided(t.wrong, countOf(c.remaining(t, s))))
		return x, nil
	}
	now := c.Clock.Now()
	e := c.evaluate(t, s, true, now)
	x.Conditions = conditionsOf(x.Placement, configured(nil), c.satisfied(t, e, now))
	x.Warnings = e.selection.Warnings
	explainScores(x, e)
	explained := make(map[string]*placement.Explained, len(e.candidates))
	x.Clusters = make([]placement.Explained, 0, len(c.fleet.sorted)) // pointers into it stay good
	matched, tolerated := []string{}, []string{}
	for _, m := range c.fleet.sorted {
		in := s.has(m.cluster)
		if !in && !everyCluster {
			continue
		}
		x.Clusters = append(x.Clusters, placement.Explained{Name: m.name, Decided: t.home(m) != ""})
		this := &x.Clusters[len(x.Clusters)-1]
		explained[m.name] = this
		switch verdict := t.plan.Judge(m.cluster, now); {
		case !in:
			this.Filter, this.Reason = outOfSets, fmt.Sprintf("it is in none of the sets %s", named(s.eligible))
		case m.cluster.DeletionTimestamp != nil:
			this.Filter, this.Reason = beingDeleted, "it is being deleted"
		case verdict.Refused == placement.Predicate:
			this.Filter, this.Reason = string(placement.Predicate), t.plan.Why(m.cluster, now)
		case verdict.Refused != "" || verdict.Keep && !this.Decided:
			matched = append(matched, m.name)
			this.Filter, this.Reason = string(placement.TaintToleration), t.plan.Why(m.cluster, now)
		default:
			matched, tolerated = append(matched, m.name), append(tolerated, m.name)
		}
	}
	x.FilterResults = []placement.FilterResult{
		{Name: string(placement.Predicate), FilteredClusters: matched},
		{Name: string(placement.Predicate) + "," + string(placement.TaintToleration), FilteredClusters: tolerated},
	}
	explainRanks(e, explained, t.plan, p)
	for _, g := range e.groups {
		for _, name := range g.Clusters {
			explained[name].Group = strings.TrimSuffix(strconv.Itoa(int(g.Index))+"/"+g.Name, "/")
		}
	}
	return x, nil
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
		return cmp.Or(cmp.Compare(min(e.candidates[a].Avoid, 1), min(e.candidates[b].Avoid, 1)), cmp.Compare(e.selection.Totals[b], e.selection.Totals[a]))
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
