package scheduling

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

// outcome is what has to be written about a placement.
type outcome struct {
	object  *clusterv1beta1.Placement
	changes changes
	status  *clusterv1beta1.PlacementStatus // nil: it is as it should be
	moved   shift
	total   int // clusters that are selected
	scores  string
	warns   []string // of what was evaluated
	until   time.Time
}

// decide evaluates a placement and says what has to be written. The caller holds the lock.
func (c *Controller) decide(t *target, now time.Time) (*outcome, error) {
	o := &outcome{object: t.object}
	if disabled(t.object) {
		if len(t.object.Status.Conditions) == 0 {
			o.status = t.object.Status.DeepCopy()
			o.status.Conditions = conditionsOf(t.object, configured(nil), unsatisfied(reasonNotScheduled, schedulingDisabled))
		}
		return o, nil
	}
	if !t.isCompiled() {
		t.adopt(compile(c.compiler, t.object))
	}
	s, err := c.scopeOf(t)
	if err != nil {
		return nil, err
	}
	t.sets = s.members
	var parts []part
	var satisfied metav1.Condition
	var scores map[string]int64
	if t.wrong != nil {
		parts = c.remaining(t, s)
		satisfied = undecided(t.wrong, countOf(parts))
	} else {
		e := c.evaluate(t, s, false, now)
		parts = layout(t.name, e.groups, t.there(), func(cluster string) int { return decisionNumber(t.name, t.home(c.fleet.byName[cluster])) })
		satisfied, scores, o.until, o.scores = c.satisfied(t, e, now), e.totals(t.plan), e.until, e.best()
		o.warns = e.selection.Warnings
	}
	o.total = countOf(parts)
	wanted, scored := t.wanted(parts, scores, now, o)
	o.changes = diff(t.decisions, wanted)
	t.untold.first = t.untold.first || len(t.decisions) == 0
	t.assume(parts, &c.fleet)
	o.moved = t.untold
	status := statusOf(parts, t.object)
	status.Conditions = conditionsOf(t.object, configured(t.wrong), satisfied)
	if scored {
		status.LastScoreUpdateTime = &metav1.Time{Time: now.Truncate(time.Second)} // as it is stored
	}
	if !equality.Semantic.DeepEqual(status, t.object.Status) {
		o.status = &status
	}
	return o, nil
}

// disabled tells whether somebody else schedules a placement.
func disabled(p *clusterv1beta1.Placement) bool {
	return p.Annotations[clusterv1beta1.PlacementDisableAnnotation] == "true"
}

// remaining is what is left of the decisions of a placement that cannot be evaluated: those for clusters that have not left
// by themselves. What others did to the objects meanwhile does not count. One that never had any gets an empty one, which
// clients wait for.
func (c *Controller) remaining(t *target, s scope) []part {
	parts := map[string]*part{}
	for _, g := range t.object.Status.DecisionGroups {
		for _, name := range g.Decisions {
			parts[name] = &part{groupKey: groupKey{g.DecisionGroupIndex, g.DecisionGroupName}, decision: name}
		}
	}
	for _, m := range c.fleet.sorted {
		name := t.home(m)
		if name == "" || m.cluster.DeletionTimestamp != nil || !s.has(m.cluster) {
			continue
		}
		if parts[name] == nil {
			parts[name] = &part{decision: name}
			if d := t.decisions[name]; d != nil {
				parts[name].groupKey = groupOf(d)
			}
		}
		parts[name].clusters = append(parts[name].clusters, m.name)
	}
	if len(parts) == 0 && len(t.name) <= maxLabelLength {
		return layout(t.name, []placement.Group{{}}, nil, func(string) int { return 0 })
	}
	all := make([]part, 0, len(parts))
	for _, p := range parts {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(decisionNumber(t.name, a.decision), decisionNumber(t.name, b.decision)), cmp.Compare(a.decision, b.decision))
	})
	return all
}

func countOf(parts []part) int {
	n := 0
	for _, p := range parts {
		n += len(p.clusters)
	}
	return n
}

// totals are the scores that decisions are sorted by and show, nil if they do neither.
func (e *evaluation) totals(plan *placement.Plan) map[string]int64 {
	if !plan.SortByScore() {
		return nil
	}
	all := make(map[string]int64, len(e.selection.Chosen))
	for _, i := range e.selection.Chosen {
		all[e.candidates[i].Cluster.Name] = e.selection.Totals[i]
	}
	return all
}

// best are the first few clusters with their scores, for an event; empty if nothing was scored.
func (e *evaluation) best() string {
	if e.selection.Totals == nil {
		return ""
	}
	text := ""
	for n, i := range e.selection.Chosen {
		if n == maxNamed {
			return text + "…"
		}
		text += e.candidates[i].Cluster.Name + ":" + strconv.FormatInt(e.selection.Totals[i], 10) + " "
	}
	return text
}

// wanted are the decisions as they are to be, and whether they show scores that changed. Where nothing but scores would
// change, they stay until spec.scoreRateLimit allows it.
func (t *target) wanted(parts []part, scores map[string]int64, now time.Time, o *outcome) (all []*clusterv1beta1.PlacementDecision, scored bool) {
	fresh := true
	if last := t.object.Status.LastScoreUpdateTime; scores != nil && last != nil {
		due := last.Add(t.plan.ScoreInterval())
		fresh = !due.After(now)
		if !fresh {
			o.waits(due)
		}
	}
	for _, p := range parts {
		d := t.decision(p)
		d.Status.Decisions = decisionsOf(p.clusters, scores)
		if before := t.decisions[p.decision]; scores != nil && before != nil && !slices.Equal(before.Status.Decisions, d.Status.Decisions) {
			if !fresh && sameClusters(before, d) {
				d.Status.Decisions = before.Status.Decisions
			} else {
				scored = true
			}
		} else if scores != nil && before == nil {
			scored = true
		}
		all = append(all, d)
	}
	return all, scored
}

func (o *outcome) waits(until time.Time) {
	if o.until.IsZero() || until.Before(o.until) {
		o.until = until
	}
}

// decisionsOf are the entries for clusters: in the order of names, or the best first if there are scores.
func decisionsOf(clusters []string, scores map[string]int64) []clusterv1beta1.ClusterDecision {
	all := make([]clusterv1beta1.ClusterDecision, 0, len(clusters))
	for _, name := range clusters {
		all = append(all, clusterv1beta1.ClusterDecision{ClusterName: name, Score: scores[name]})
	}
	if scores != nil {
		slices.SortStableFunc(all, func(a, b clusterv1beta1.ClusterDecision) int { return cmp.Compare(b.Score, a.Score) })
	}
	return all
}

func sameClusters(a, b *clusterv1beta1.PlacementDecision) bool {
	return maps.Equal(nameSet(a), nameSet(b))
}

// decision is the object for a part, without its entries; whatever others put on it stays.
func (t *target) decision(p part) *clusterv1beta1.PlacementDecision {
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: p.decision, Namespace: t.namespace}}
	if before := t.decisions[p.decision]; before != nil {
		before.ObjectMeta.DeepCopyInto(&d.ObjectMeta)
	}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	d.Labels[clusterv1beta1.PlacementLabel] = t.name
	d.Labels[clusterv1beta1.DecisionGroupIndexLabel] = strconv.Itoa(int(p.index))
	d.Labels[clusterv1beta1.DecisionGroupNameLabel] = p.name
	owner := *metav1.NewControllerRef(t.object, schema.GroupVersion(clusterv1beta1.GroupVersion).WithKind("Placement"))
	d.OwnerReferences = append(slices.DeleteFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }), owner)
	return d
}

// statusOf is the status of a placement with these decisions, but for conditions.
func statusOf(parts []part, of *clusterv1beta1.Placement) clusterv1beta1.PlacementStatus {
	status := clusterv1beta1.PlacementStatus{NumberOfSelectedClusters: int32(countOf(parts)), LastScoreUpdateTime: of.Status.LastScoreUpdateTime}
	for _, p := range parts {
		n := len(status.DecisionGroups)
		if n == 0 || status.DecisionGroups[n-1].DecisionGroupIndex != p.index {
			status.DecisionGroups = append(status.DecisionGroups, clusterv1beta1.DecisionGroupStatus{DecisionGroupIndex: p.index, DecisionGroupName: p.name})
			n++
		}
		g := &status.DecisionGroups[n-1]
		g.Decisions = append(g.Decisions, p.decision)
		g.ClustersCount += int32(len(p.clusters))
	}
	return status
}

// satisfiedOf is how a status says that a placement is satisfied or not, for comparison.
func satisfiedOf(conditions []metav1.Condition) (status metav1.ConditionStatus, reason string) {
	if c := meta.FindStatusCondition(conditions, clusterv1beta1.PlacementConditionSatisfied); c != nil {
		return c.Status, c.Reason
	}
	return "", ""
}
