package placement

import (
	"cmp"
	"slices"
	"time"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// Candidate is a cluster that passes the filters.
type Candidate struct {
	Cluster   *clusterv1.ManagedCluster
	Avoid     int  // of its verdict
	Chosen    bool // it is among the decisions of the placement now
	Elsewhere int  // decisions of other placements for it
}

// Selection is which candidates a placement selects. Its indices are those of the candidates.
type Selection struct {
	Chosen       []int               // the best first; in the order of names where nothing was scored
	Totals       []int64             // by candidate, the sum of its scores, each times the weight; nil if nothing was scored
	Prioritizers []PrioritizerScores // that count; nil if nothing was scored
	Unscheduled  int                 // how many more clusters the placement asks for
	HeldBack     []Held              // those that spread constraints do not allow
	Warnings     []string
	Until        time.Time // when the first score ends that counted; zero: never
}

// PrioritizerScores are the scores that a prioritizer gave, by candidate.
type PrioritizerScores struct {
	Name   string
	Weight int32
	Scores []int64
}

// maxSettling bounds how often a choice is made again. Random placements needed two at most.
const maxSettling = 8

// Select chooses among candidates, which are in the order of their names. busiest is the most decisions of other placements
// that any cluster of the hub has. scored asks for scores also where they make no difference.
func (p *Plan) Select(candidates []Candidate, busiest int, scored bool, now time.Time) Selection {
	s := p.choose(candidates, busiest, scored, now)
	if p.steady && len(p.spread) > 1 {
		p.settle(&s, candidates, busiest, now)
	}
	return s
}

// settle makes the choice again, as if what was chosen were decided, until that is chosen. What is chosen comes first the next
// time, and with several spread constraints another order may lead elsewhere: clusters would move though nothing has changed.
func (p *Plan) settle(s *Selection, candidates []Candidate, busiest int, now time.Time) {
	for range maxSettling {
		next := slices.Clone(candidates)
		for i := range next {
			next[i].Chosen = false
		}
		for _, i := range s.Chosen {
			next[i].Chosen = true
		}
		again := p.choose(next, busiest, false, now)
		same := !slices.ContainsFunc(again.Chosen, func(i int) bool { return !next[i].Chosen })
		if same && len(again.Chosen) == len(s.Chosen) {
			return
		}
		s.Chosen, s.HeldBack, s.Unscheduled = again.Chosen, again.HeldBack, again.Unscheduled
	}
}

// choose makes one choice.
func (p *Plan) choose(candidates []Candidate, busiest int, scored bool, now time.Time) Selection {
	wanted := len(candidates)
	var s Selection
	if p.count != nil {
		wanted = max(0, int(*p.count))
		wanted = min(wanted, len(candidates))
	}
	spreads := p.spreads(wanted == len(candidates))
	if scored || spreads || wanted < len(candidates) {
		p.score(&s, candidates, busiest, now)
	}
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	if s.Totals != nil {
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(p.Avoided(candidates[a]), p.Avoided(candidates[b])), cmp.Compare(s.Totals[b], s.Totals[a]), cmp.Compare(a, b))
		})
	}
	if spreads {
		p.spreadOut(&s, candidates, order, wanted)
	} else {
		s.Chosen = order[:wanted]
	}
	if p.count != nil {
		s.Unscheduled = max(0, int(*p.count)-len(s.Chosen))
	}
	return s
}

// Avoided is 1 for a cluster that others are preferred to, whatever their scores. Kubernetes' PreferNoSchedule does not drive
// away what runs already; so a cluster that is chosen stays so if the placement is steady at all.
func (p *Plan) Avoided(c Candidate) int {
	if c.Avoid == 0 || c.Chosen && p.steady {
		return 0
	}
	return 1
}

func (p *Plan) score(s *Selection, candidates []Candidate, busiest int, now time.Time) {
	all := &scoring{candidates: candidates, busiest: busiest, now: now}
	s.Totals = make([]int64, len(candidates))
	for _, by := range p.prioritizers {
		scores := by.score(all)
		for i, score := range scores {
			s.Totals[i] += score * int64(by.weight)
		}
		s.Prioritizers = append(s.Prioritizers, PrioritizerScores{by.name, by.weight, scores})
	}
	s.Warnings, s.Until = all.warnings(), all.until
}
