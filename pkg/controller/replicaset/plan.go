package replicaset

import (
	"time"

	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/replicas"
	"nave/pkg/rollout"
)

// plan is what has to be done about a set.
type plan struct {
	set     *workv1alpha1.ManifestWorkReplicaSet
	content string // of its template
	writes  []write
	removes []*record
	next    time.Time // when time alone changes it; zero: never
}

// write gives a cluster the content, or a work that has it the labels.
type write struct {
	cluster   string
	placement string
	there     *record // nil: to be created
	content   bool    // and not labels only
}

// progress is how far the rollout to a placement is.
type progress struct {
	name   string
	chosen replicas.Selection
	wrong  error // with the strategy
	result *rollout.Result
	works  map[string]*record // by cluster
}

// progressOf judges the works of a placement. The caller holds the lock.
func (c *Controller) progressOf(s *state, ref workv1alpha1.LocalPlacementReference, now time.Time) (*progress, []*record, error) {
	chosen, err := c.selectionOf(s.object.Namespace, ref.Name)
	if err != nil {
		return nil, nil, err
	}
	p := &progress{name: ref.Name, chosen: chosen}
	var surplus []*record
	p.works, surplus = replicas.OnePerCluster(s.of(ref.Name))
	statuses := make(map[string]rollout.Status, len(p.works))
	for cluster, r := range p.works {
		statuses[cluster] = r.status(s, now)
	}
	p.result, p.wrong = rollout.Decide(ref.RolloutStrategy, chosen.Groups, statuses, now)
	return p, surplus, nil
}

// all gives the progress for every placement that the set goes by, and works that are in excess.
func (c *Controller) all(s *state, now time.Time) (all []*progress, surplus []*record, err error) {
	surplus = s.strayed()
	for _, ref := range replicas.RefsOf(s.object) {
		p, more, err := c.progressOf(s, ref, now)
		if err != nil {
			return nil, nil, err
		}
		all, surplus = append(all, p), append(surplus, more...)
	}
	return all, surplus, nil
}

// plan decides what to write. The caller holds the lock.
func (c *Controller) plan(s *state, now time.Time) (*plan, error) {
	all, surplus, err := c.all(s, now)
	if err != nil {
		return nil, err
	}
	out := &plan{set: s.object, content: s.content, removes: surplus}
	paused := rollout.Paused(s.object.Annotations)
	for _, p := range all {
		if p.wrong != nil || p.chosen.Missing {
			continue // what it has stays
		}
		if !paused && p.chosen.Whole {
			for _, cluster := range p.result.Apply {
				out.writes = append(out.writes, write{cluster, p.name, p.works[cluster], true})
			}
		}
		if !p.result.Next.IsZero() && (out.next.IsZero() || p.result.Next.Before(out.next)) {
			out.next = p.result.Next
		}
		for cluster, r := range p.works {
			if s.current(r) && !r.deleting() && !labelled(s.object, p.name, r.ManifestWork) {
				out.writes = append(out.writes, write{cluster, p.name, r, false})
			}
		}
		if p.chosen.Whole {
			for _, cluster := range p.result.Removed {
				if r := p.works[cluster]; !r.deleting() {
					out.removes = append(out.removes, r)
				}
			}
		}
	}
	return out, nil
}
