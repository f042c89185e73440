package replicaset

import (
	"cmp"
	"slices"
	"time"

	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
	"nave/pkg/rollout"
)

// evaluation is how far a set is at a moment, and what has to be done about it.
type evaluation struct {
	set        *workv1alpha1.ManifestWorkReplicaSet
	content    string // of its template
	placements []*progress
	writes     []write
	removes    []*record
	next       time.Time // when time alone changes it; zero: never
}

// write gives a cluster the content, or a work that has it the labels.
type write struct {
	cluster   string
	placement string
	there     *record // nil: to be created
	marks     *marks
	content   bool // and not labels only
}

// progress is how far the rollout to a placement is.
type progress struct {
	name   string
	chosen replicas.Selection
	wrong  error // with the strategy, or the labels of the set
	result *rollout.Result
	works  int // there are, with any content
	sum    workv1alpha1.ManifestWorkReplicaSetSummary
}

// evaluate judges a set. The caller holds the lock.
func (c *Controller) evaluate(s *state, now time.Time) (*evaluation, error) {
	e := &evaluation{set: s.object, content: s.content}
	works := s.byPlacement()
	for _, ref := range replicas.RefsOf(s.object) {
		value := replicas.PlacementValue(ref.Name)
		if err := c.rollOutTo(e, s, ref, works[value], now); err != nil {
			return nil, err
		}
		delete(works, value)
	}
	for _, strayed := range works { // of no placement that the set goes by
		e.discard(strayed)
	}
	slices.SortFunc(e.writes, func(a, b write) int { return cmp.Compare(a.cluster, b.cluster) })
	slices.SortFunc(e.removes, func(a, b *record) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return e, nil
}

// pending tells whether anything has to be done.
func (e *evaluation) pending() bool { return len(e.writes)+len(e.removes) > 0 }

// repeats tells whether something is to be done again that was done after another evaluation: somebody undoes it.
func (e *evaluation) repeats(before *evaluation) bool {
	done := map[string]bool{}
	for _, w := range before.writes {
		done[w.cluster] = true
	}
	for _, r := range before.removes {
		done[r.Namespace] = true
	}
	return slices.ContainsFunc(e.writes, func(w write) bool { return done[w.cluster] }) ||
		slices.ContainsFunc(e.removes, func(r *record) bool { return done[r.Namespace] })
}

// rollOutTo judges the works of a placement, and adds what has to be done about them.
func (c *Controller) rollOutTo(e *evaluation, s *state, ref workv1alpha1.LocalPlacementReference, all []*record, now time.Time) error {
	chosen, err := c.selectionOf(e.set.Namespace, ref.Name)
	if err != nil {
		return err
	}
	works, surplus := replicas.OnePerCluster(all)
	e.discard(surplus)
	p := &progress{name: ref.Name, chosen: chosen, works: len(works)}
	p.sum.DesiredTotal = chosen.Total
	e.placements = append(e.placements, p)
	statuses := make(map[string]rollout.Status, len(works))
	marks := marksOf(e.set, ref.Name)
	var unmarked []write
	for cluster, r := range works {
		current := s.current(r)
		statuses[cluster] = r.status(current, s.ruled, now)
		if current && !r.deleting() {
			count(&p.sum, r)
			if !marks.on(r) {
				unmarked = append(unmarked, write{cluster, ref.Name, r, marks, false})
			}
		}
	}
	p.result, p.wrong = rollout.Decide(ref.RolloutStrategy, chosen.Groups, statuses, now)
	if p.wrong == nil {
		p.wrong = marks.check()
	}
	if p.wrong != nil || chosen.Missing {
		return nil // what it has stays
	}
	e.wake(p.result.Next)
	e.writes = append(e.writes, unmarked...)
	if !chosen.Whole {
		return nil
	}
	if !rollout.Paused(e.set.Annotations) {
		for _, cluster := range p.result.Apply {
			e.writes = append(e.writes, write{cluster, ref.Name, works[cluster], marks, true})
		}
	}
	for _, cluster := range p.result.Removed {
		e.discard([]*record{works[cluster]})
	}
	return nil
}

// discard adds works to those that are to be deleted, but for those that are being deleted.
func (e *evaluation) discard(works []*record) {
	for _, r := range works {
		if !r.deleting() {
			e.removes = append(e.removes, r)
		}
	}
}

func (e *evaluation) wake(at time.Time) {
	if !at.IsZero() && (e.next.IsZero() || at.Before(e.next)) {
		e.next = at
	}
}
