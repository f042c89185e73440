package scheduling

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
	"nave/pkg/reconcile"
)

// maxLabelLength is how long the value of a label may be. PlacementDecisions name their placement in one (spec 5.3).
const maxLabelLength = 63

// target is a placement with all that is kept about it between evaluations.
type target struct {
	namespace, name string

	object   *clusterv1beta1.Placement // nil: there are only decisions that say they are of this placement
	compiled revision                  // that plan or wrong is of
	plan     *placement.Plan
	wrong    *placement.Misconfigured // why there is no plan

	sets      []func(*clusterv1.ManagedCluster) bool // that counted in the last evaluation; nil if there was none
	standings []standing                             // by member's id
	matching  map[int]bool                           // members by id, as long as nobody doubts what is being found out about them

	decisions map[string]*clusterv1beta1.PlacementDecision // as they were last seen or written, by name
	homes     []uint32                                     // by member's id: 1 + index into names of the decision that it is in; 0 for none
	names     []string                                     // of decisions
	untold    shift                                        // what was decided and not written yet
	numbers   map[string]uint32                            // 1 + index, by name
}

// revision is a state of a placement's spec.
type revision struct {
	uid        types.UID
	generation int64
}

// standing is what is kept about a cluster until it changes: how it stands before its taints are looked at, which may be
// tolerated for a time only.
type standing byte

const (
	unknown standing = iota
	outside          // of the sets
	leaving          // it is being deleted
	mismatched
	matched
)

func newTarget(namespace, name string) *target {
	return &target{namespace: namespace, name: name, decisions: map[string]*clusterv1beta1.PlacementDecision{}, numbers: map[string]uint32{}}
}

func (t *target) key() string { return t.namespace + "/" + t.name }

// isCompiled tells whether there is a plan for the object, or what is wrong with it.
func (t *target) isCompiled() bool {
	return t.compiled == revision{t.object.UID, t.object.Generation} && (t.plan != nil || t.wrong != nil)
}

// adopt takes over what came of compiling the object.
func (t *target) adopt(plan *placement.Plan, wrong *placement.Misconfigured) {
	t.compiled, t.plan, t.wrong = revision{t.object.UID, t.object.Generation}, plan, wrong
	t.forget()
}

// grow makes room for what is kept about each cluster.
func (t *target) grow(f *fleet) {
	t.standings = append(t.standings, make([]standing, max(0, len(f.entries)-len(t.standings)))...)
}

// forget makes the next evaluation judge every cluster again.
func (t *target) forget() {
	clear(t.standings)
	clear(t.matching)
}

// doubt makes the next evaluation judge one cluster again.
func (t *target) doubt(m *member) {
	if m.id < len(t.standings) {
		t.standings[m.id] = unknown
	}
	delete(t.matching, m.id)
}

// home is the name of the decision that a cluster is in, empty for none.
func (t *target) home(m *member) string {
	if m == nil || m.id >= len(t.homes) || t.homes[m.id] == 0 {
		return ""
	}
	return t.names[t.homes[m.id]-1]
}

// move puts a cluster into a decision, or with an empty name into none, and counts it.
func (t *target) move(m *member, decision string) {
	if m.id >= len(t.homes) {
		if decision == "" {
			return
		}
		t.homes = append(t.homes, make([]uint32, m.id+1-len(t.homes))...)
	}
	before := t.homes[m.id]
	t.homes[m.id] = t.number(decision)
	switch after := t.homes[m.id]; {
	case before == 0 && after != 0:
		m.decisions++
	case before != 0 && after == 0:
		m.decisions--
	}
}

func (t *target) number(decision string) uint32 {
	if decision == "" {
		return 0
	}
	n := t.numbers[decision]
	if n == 0 {
		t.names = append(t.names, decision)
		n = uint32(len(t.names))
		t.numbers[decision] = n
	}
	return n
}

// see takes over a decision as it is on the server, unless a newer one was seen. It tells whether that was news.
func (t *target) see(d *clusterv1beta1.PlacementDecision, f *fleet) bool {
	before := t.decisions[d.Name]
	if before != nil && !reconcile.Newer(d.ResourceVersion, before.ResourceVersion) {
		return false
	}
	t.decisions[d.Name] = d
	t.rehouse(d.Name, before, clustersOf(d), f)
	return true
}

// lose takes notice that a decision was deleted. Its version may be older than the one that is known, where only a list
// without it told of its end; but an object that is gone does not come back, and another one of its name has another UID.
func (t *target) lose(d *clusterv1beta1.PlacementDecision, f *fleet) bool {
	before := t.decisions[d.Name]
	if before == nil || before.UID != d.UID && !reconcile.Newer(d.ResourceVersion, before.ResourceVersion) {
		return false
	}
	delete(t.decisions, d.Name)
	t.rehouse(d.Name, before, nil, f)
	return true
}

// disown takes notice that a decision does not say any more, in its latest state, that it is of this placement.
func (t *target) disown(latest *clusterv1beta1.PlacementDecision, f *fleet) bool {
	before := t.decisions[latest.Name]
	if before == nil || !reconcile.Newer(latest.ResourceVersion, before.ResourceVersion) {
		return false
	}
	delete(t.decisions, latest.Name)
	t.rehouse(latest.Name, before, nil, f)
	return true
}

// rehouse makes homes what a decision says. It does so only until the placement is evaluated, or if it is not by this
// controller: whoever changes or deletes a decision after that changes nothing about what is chosen.
func (t *target) rehouse(decision string, before *clusterv1beta1.PlacementDecision, after []string, f *fleet) {
	if t.object != nil && t.sets != nil {
		return
	}
	left := map[string]string{} // the decision that a cluster is in yet
	for _, name := range clustersOf(before) {
		if t.home(f.byName[name]) == decision && !slices.Contains(after, name) {
			left[name] = ""
		}
	}
	if len(left) > 0 {
		for other, d := range t.decisions {
			for _, name := range clustersOf(d) {
				if known, leaves := left[name]; leaves && (known == "" || other < known) {
					left[name] = other
				}
			}
		}
	}
	for name, home := range left {
		m := f.byName[name]
		t.move(m, home)
		f.release(m)
	}
	for _, name := range after {
		m := f.member(name)
		if home := t.home(m); home == "" || decision < home { // of two, always the same one
			t.move(m, decision)
		}
	}
}

// follow makes homes what the decisions say, as before the first evaluation: the placement is gone, is another one, or is
// scheduled by somebody else, and what was decided may not have been written.
func (t *target) follow(f *fleet) {
	t.sets = nil
	t.forget()
	var before []*member
	for id, home := range t.homes {
		if home != 0 {
			m := f.entries[id]
			before = append(before, m)
			t.move(m, "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.decisions)) {
		for _, cluster := range clustersOf(t.decisions[name]) {
			if m := f.member(cluster); t.home(m) == "" {
				t.move(m, name)
			}
		}
	}
	for _, m := range before {
		f.release(m)
	}
}

func clustersOf(d *clusterv1beta1.PlacementDecision) []string {
	if d == nil {
		return nil
	}
	names := make([]string, 0, len(d.Status.Decisions))
	for _, decision := range d.Status.Decisions {
		if decision.ClusterName != "" {
			names = append(names, decision.ClusterName)
		}
	}
	return names
}

// there is what layout has to know of the decisions that there are.
func (t *target) there() map[int]held {
	all := make(map[int]held, len(t.decisions))
	for name, d := range t.decisions {
		if n := decisionNumber(t.name, name); n > 0 {
			all[n] = held{groupOf(d), len(d.Status.Decisions)}
		}
	}
	return all
}

func groupOf(d *clusterv1beta1.PlacementDecision) groupKey {
	index, err := strconv.ParseInt(d.Labels[clusterv1beta1.DecisionGroupIndexLabel], 10, 32)
	if err != nil {
		index = -1
	}
	return groupKey{int32(index), d.Labels[clusterv1beta1.DecisionGroupNameLabel]}
}

// assume makes homes what the slices say, so that other placements are balanced by what is decided rather than by what has
// been written so far. What moves is to be told of once it is written.
func (t *target) assume(all []part, f *fleet) {
	homes := make([]uint32, len(f.entries))
	for _, p := range all {
		number := t.number(p.decision)
		for _, name := range p.clusters {
			if m := f.byName[name]; m != nil {
				homes[m.id] = number
			}
		}
	}
	for id, number := range homes {
		m := f.entries[id]
		if m == nil {
			continue
		}
		before := t.home(m) != ""
		switch {
		case number != 0:
			if !before {
				t.untold.in.add(m.name)
			}
			t.move(m, t.names[number-1])
		case before:
			t.untold.out.add(m.name)
			t.move(m, "")
			f.release(m)
		}
	}
}

// shift is which clusters were newly selected, and which are not selected any more.
type shift struct {
	in, out some
	first   bool // there were no decisions before
}

// some are a few names, and how many there are.
type some struct {
	names []string
	count int
}

func (s *some) add(name string) {
	s.count++
	if len(s.names) < maxNamed {
		s.names = append(s.names, name)
	}
}

func (s some) String() string {
	text := strings.Join(s.names, ", ")
	if s.count > len(s.names) {
		text += fmt.Sprintf(" and %d more", s.count-len(s.names))
	}
	return text
}
