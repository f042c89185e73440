package scheduling

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"nave/pkg/placement"
)

// maxDecisions is how many clusters one PlacementDecision holds at most (spec 5.3).
const maxDecisions = 100

// part is what one PlacementDecision is to hold: a decision group, or some of it.
type part struct {
	groupKey
	decision string   // name of the PlacementDecision
	clusters []string // in the order of names
}

// groupKey is what the labels of a PlacementDecision say of its group.
type groupKey struct {
	index int32
	name  string
}

// held is what a PlacementDecision that there is holds.
type held struct {
	groupKey
	size int
}

// layout divides groups among PlacementDecisions such that few of those that there are change: a cluster stays where it is
// while its group keeps that one. Upstream counts through all groups anew each time, so one cluster more rewrites nearly all
// of them (spec 10.3, P9). What is kept of upstream is that names are numbered from 1 without a gap, and that a group has
// as few as it can.
//
// there are the PlacementDecisions of the placement by their number, home says in which of them a cluster is, 0 for none.
func layout(name string, groups []placement.Group, there map[int]held, home func(cluster string) int) []part {
	l := layouter{groups: groups, there: there, numbers: make([][]int, len(groups))}
	for _, g := range groups {
		l.total += needed(g)
	}
	l.home = func(cluster string) int {
		if n := home(cluster); n <= l.total {
			return n
		}
		return 0 // that one is not needed any more
	}
	l.claim()
	l.assignRest()
	var all []part
	for i := range groups {
		all = append(all, l.fill(i, name)...)
	}
	return all
}

func needed(g placement.Group) int { return max(1, (len(g.Clusters)+maxDecisions-1)/maxDecisions) }

type layouter struct {
	groups []placement.Group
	there  map[int]held
	home   func(string) int
	total  int

	taken   map[int]bool // numbers that belong to a group
	numbers [][]int      // by group
}

// claim gives each number to the group that has the most clusters in it, as long as that group needs it.
func (l *layouter) claim() {
	l.taken = map[int]bool{}
	votes := make([]map[int]int, len(l.groups)) // by group: clusters by number
	best := map[int]int{}                       // group by number
	for i, g := range l.groups {
		votes[i] = map[int]int{}
		for _, c := range g.Clusters {
			if n := l.home(c); n > 0 {
				votes[i][n]++
			}
		}
		for n, v := range votes[i] {
			before, ok := best[n]
			if !ok || v > votes[before][n] || v == votes[before][n] && l.labelled(n, i) && !l.labelled(n, before) {
				best[n] = i
			}
		}
	}
	for n, i := range best {
		l.numbers[i] = append(l.numbers[i], n)
	}
	for i, g := range l.groups {
		slices.SortFunc(l.numbers[i], func(a, b int) int { return cmp.Or(cmp.Compare(votes[i][b], votes[i][a]), cmp.Compare(a, b)) })
		l.numbers[i] = l.numbers[i][:min(len(l.numbers[i]), needed(g))]
		for _, n := range l.numbers[i] {
			l.taken[n] = true
		}
	}
}

// labelled tells whether the PlacementDecision of a number says that it is of the group.
func (l *layouter) labelled(n, group int) bool {
	h, ok := l.there[n]
	return ok && h.groupKey == groupKey{l.groups[group].Index, l.groups[group].Name}
}

// assignRest gives groups the numbers that they still need, if they can those that already say that they are theirs.
func (l *layouter) assignRest() {
	free := map[groupKey][]int{}
	for n, h := range l.there {
		if n <= l.total && !l.taken[n] {
			free[h.groupKey] = append(free[h.groupKey], n)
		}
	}
	for i, g := range l.groups {
		rest := free[groupKey{g.Index, g.Name}]
		slices.Sort(rest)
		for _, n := range rest[:min(len(rest), needed(g)-len(l.numbers[i]))] {
			l.take(i, n)
		}
	}
	next := 1
	for i, g := range l.groups {
		for len(l.numbers[i]) < needed(g) {
			for l.taken[next] {
				next++
			}
			l.take(i, next)
		}
		slices.Sort(l.numbers[i])
	}
}

func (l *layouter) take(group, n int) {
	l.taken[n] = true
	l.numbers[group] = append(l.numbers[group], n)
}

// fill puts the clusters of a group into its PlacementDecisions. One that takes the place of another goes where that one
// was: both changes are one write then, and nobody sees one without the other.
func (l *layouter) fill(group int, name string) []part {
	g, numbers := l.groups[group], l.numbers[group]
	content := make(map[int][]string, len(numbers))
	for _, n := range numbers {
		content[n] = nil
	}
	var newcomers []string
	for _, c := range g.Clusters {
		n := l.home(c)
		if in, ours := content[n]; ours && len(in) < maxDecisions {
			content[n] = append(in, c)
		} else {
			newcomers = append(newcomers, c)
		}
	}
	for _, upTo := range []func(n int) int{
		func(n int) int { return min(l.there[n].size, maxDecisions) },
		func(int) int { return maxDecisions },
	} {
		for _, n := range numbers {
			room := min(max(0, upTo(n)-len(content[n])), len(newcomers))
			content[n] = append(content[n], newcomers[:room]...)
			newcomers = newcomers[room:]
		}
	}
	all := make([]part, 0, len(numbers))
	for _, n := range numbers {
		slices.Sort(content[n])
		all = append(all, part{groupKey{g.Index, g.Name}, decisionName(name, n), content[n]})
	}
	return all
}

func decisionName(placement string, n int) string { return placement + "-decision-" + strconv.Itoa(n) }

// decisionNumber is the number in the name of a PlacementDecision, 0 if it is not one that this controller would choose.
func decisionNumber(placement, name string) int {
	text, ok := strings.CutPrefix(name, placement+"-decision-")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || strconv.Itoa(n) != text {
		return 0
	}
	return n
}
