package rollout

import (
	"slices"
	"time"
)

// step is clusters that are rolled out to together.
type step struct {
	clusters   []string
	concurrent int // how many may be in flight at a time
	tolerated  int // how many may fail

	toApply                      []string
	flying, failures, unfinished int
}

// steps puts the clusters of groups, which are in their order, into steps.
func (r *rules) steps(groups []Group) []step {
	total := 0
	for i := range groups {
		total += len(groups[i].Clusters)
	}
	var steps []step
	mandatory := make([]bool, len(groups))
	for _, wanted := range r.mandatory {
		for i := range groups {
			named := wanted.GroupName != "" && wanted.GroupName == groups[i].Name
			if !mandatory[i] && (named || wanted.GroupName == "" && wanted.GroupIndex == groups[i].Index) {
				mandatory[i] = true
				steps = append(steps, step{clusters: groups[i].Clusters, concurrent: total})
			}
		}
	}
	var rest []string
	for i := range groups {
		switch {
		case mandatory[i]:
		case r.perGroup:
			steps = append(steps, step{clusters: groups[i].Clusters, concurrent: total, tolerated: r.maxFailures.of(len(groups[i].Clusters))})
		default:
			rest = append(rest, groups[i].Clusters...)
		}
	}
	if r.perGroup {
		return steps
	}
	slices.Sort(rest)
	last := step{clusters: rest, concurrent: len(rest), tolerated: total}
	if !r.all {
		last.tolerated = r.maxFailures.of(total)
		if n := r.maxConcurrency.of(len(rest)); n > 0 {
			last.concurrent = n
		}
	}
	return append(steps, last)
}

// sort tells the clusters of a step by their state.
func (s *step) sort(statuses map[string]Status, r *rules, now time.Time, result *Result) {
	for _, name := range s.clusters {
		status := statuses[name]
		switch status.State {
		case Succeeded:
			if end := status.Since.Add(r.soak); end.After(now) {
				result.wake(end)
				result.Soaking = append(result.Soaking, name)
				s.flying, s.unfinished = s.flying+1, s.unfinished+1
			} else {
				result.Done++
			}
		case Progressing, Failed:
			s.unsuccessful(name, status, r, now, result)
		default:
			s.toApply = append(s.toApply, name)
		}
	}
}

// unsuccessful takes a cluster that has the new content and has not succeeded. After the deadline it does not hold up others
// any more; one that has failed may still recover before.
func (s *step) unsuccessful(name string, status Status, r *rules, now time.Time, result *Result) {
	if r.deadline != never {
		end := status.Since.Add(r.deadline)
		if !end.After(now) {
			result.TimedOut = append(result.TimedOut, name)
			s.failures++
			return
		}
		result.wake(end)
	}
	s.flying++
	if status.State == Failed {
		result.Failed = append(result.Failed, name)
		s.failures++
		return
	}
	result.Underway = append(result.Underway, name)
	s.unfinished++
}

func (s *step) breached() bool { return s.failures > s.tolerated }

// begin lets as many clusters begin as there is room for.
func (s *step) begin(r *rules, result *Result) {
	room := 0
	if s.breached() {
		result.Breached = true
	} else {
		room = min(max(0, s.concurrent-s.flying), len(s.toApply))
		result.Stalled = room == 0 && len(s.toApply) > 0 && s.unfinished == 0 && r.deadline == never
	}
	result.Apply = append(result.Apply, s.toApply[:room]...)
	result.Waiting = append(result.Waiting, s.toApply[room:]...)
}

// over tells whether the next step may begin: nothing is left to be done or waited for, and no more have failed than may.
func (s *step) over() bool { return len(s.toApply) == 0 && s.unfinished == 0 && !s.breached() }

// wake takes notice of a moment at which time changes the answer.
func (r *Result) wake(at time.Time) {
	if r.Next.IsZero() || at.Before(r.Next) {
		r.Next = at
	}
}
