// Package rollout decides which clusters get new content next (spec 3.3). What the content is, and how a cluster's state is
// told, is the caller's: the same rules are for replica sets of works and for add-ons.
//
// A rollout is a row of steps: first each mandatory group, which tolerates no failure; then, by strategy, all clusters at
// once (All), all with so many in flight at a time (Progressive), or one group after the other (ProgressivePerGroup). A step
// begins when the one before is over. Too many failures in a step end the rollout there: nothing new is begun, and what has
// the new content keeps it.
package rollout

import (
	"cmp"
	"slices"
	"time"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// Group is a decision group of a placement.
type Group struct {
	Index    int32
	Name     string
	Clusters []string
}

// State is how far a cluster is with the new content.
type State int

// States of a cluster.
const (
	ToApply     State = iota // it does not have the new content
	Progressing              // it has it, and nothing is known about its success
	Succeeded
	Failed
)

// Status is the state of a cluster, and since when it is in it.
type Status struct {
	State State
	Since time.Time
}

// Result is what to do now. Lists are in the order of names.
type Result struct {
	Apply    []string // clusters that get the new content now
	Waiting  []string // that get it later
	Underway []string // that have it and have not succeeded yet
	Soaking  []string // that succeeded less than minSuccessTime ago
	Failed   []string
	TimedOut []string // that have not succeeded within progressDeadline
	Removed  []string // that are in no group any more
	Done     int      // that succeeded for good

	Breached bool      // too many have failed, nothing new is begun
	Stalled  bool      // failed clusters have all places, and as there is no deadline they keep them
	Next     time.Time // when time alone changes the answer; zero: never
}

// Complete tells whether every cluster has succeeded.
func (r *Result) Complete() bool {
	return len(r.Apply)+len(r.Waiting)+len(r.Underway)+len(r.Soaking)+len(r.Failed)+len(r.TimedOut) == 0
}

// Begun is how many clusters have the new content, whatever became of it.
func (r *Result) Begun() int {
	return len(r.Underway) + len(r.Soaking) + len(r.Failed) + len(r.TimedOut) + r.Done
}

// Decide says what to do. Clusters without a status are ToApply. An error says what is wrong with the strategy.
func Decide(strategy clusterv1alpha1.RolloutStrategy, groups []Group, statuses map[string]Status, now time.Time) (*Result, error) {
	rules, err := rulesOf(strategy)
	if err != nil {
		return nil, err
	}
	groups, there := distinct(groups)
	steps := rules.steps(groups)
	result := &Result{}
	running := true
	for i := range steps {
		s := &steps[i]
		s.sort(statuses, rules, now, result)
		if running {
			s.begin(rules, result)
			running = s.over()
		} else {
			result.Waiting = append(result.Waiting, s.toApply...)
		}
	}
	for name := range statuses {
		if !there[name] {
			result.Removed = append(result.Removed, name)
		}
	}
	for _, list := range [][]string{result.Apply, result.Waiting, result.Underway, result.Soaking, result.Failed, result.TimedOut, result.Removed} {
		slices.Sort(list)
	}
	return result, nil
}

// distinct are the groups in their order, with each cluster in the first that has it, and all clusters.
func distinct(groups []Group) ([]Group, map[string]bool) {
	sorted := slices.SortedStableFunc(slices.Values(groups), func(a, b Group) int { return cmp.Compare(a.Index, b.Index) })
	seen := map[string]bool{}
	for i := range sorted {
		var clusters []string
		for _, name := range sorted[i].Clusters {
			if !seen[name] {
				seen[name] = true
				clusters = append(clusters, name)
			}
		}
		slices.Sort(clusters)
		sorted[i].Clusters = clusters
	}
	return sorted, seen
}
