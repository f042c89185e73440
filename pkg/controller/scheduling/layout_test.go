package scheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nave/pkg/placement"
)

func names(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("c%04d", i))
	}
	return all
}

// settle makes of a layout what the next one finds there.
func settle(parts []part) (map[int]held, func(string) int) {
	there, home := map[int]held{}, map[string]int{}
	for _, p := range parts {
		n := decisionNumber("p", p.decision)
		there[n] = held{p.groupKey, len(p.clusters)}
		for _, c := range p.clusters {
			home[c] = n
		}
	}
	return there, func(c string) int { return home[c] }
}

func TestLayout(t *testing.T) {
	group := func(index int32, name string, clusters []string) placement.Group {
		return placement.Group{Index: index, Name: name, Clusters: clusters}
	}
	for _, test := range []struct {
		name          string
		before, after []placement.Group
		want          map[string][]string // clusters by decision, where not all of names(…)
		sizes         map[string]int
		changed       int // decisions that differ between the two
	}{
		{"nothing", nil, []placement.Group{group(0, "", nil)}, nil, map[string]int{"p-decision-1": 0}, 1},
		{"fresh, as upstream counts", nil, []placement.Group{group(0, "canary", names(0, 2)), group(1, "", names(2, 252))}, nil,
			map[string]int{"p-decision-1": 2, "p-decision-2": 100, "p-decision-3": 100, "p-decision-4": 50}, 4},
		{"one more in front changes one", []placement.Group{group(0, "", names(1, 300))}, []placement.Group{group(0, "", names(0, 300))}, nil,
			map[string]int{"p-decision-1": 100, "p-decision-2": 100, "p-decision-3": 100}, 1},
		{"one takes another's place", []placement.Group{group(0, "", names(0, 250))}, []placement.Group{group(0, "", append(names(1, 250), "x"))}, nil,
			map[string]int{"p-decision-1": 100, "p-decision-2": 100, "p-decision-3": 50}, 1},
		{"a group grows", []placement.Group{group(0, "a", names(0, 100)), group(1, "b", names(200, 300))},
			[]placement.Group{group(0, "a", names(0, 101)), group(1, "b", names(200, 300))}, nil,
			map[string]int{"p-decision-1": 100, "p-decision-2": 100, "p-decision-3": 1}, 1},
		{"a group in front goes: numbers stay without a gap", []placement.Group{group(0, "a", names(0, 2)), group(1, "", names(5, 7))},
			[]placement.Group{group(0, "", names(5, 7))}, map[string][]string{"p-decision-1": names(5, 7)}, map[string]int{"p-decision-1": 2}, 2},
		{"few are left of many", []placement.Group{group(0, "", names(0, 300))}, []placement.Group{group(0, "", names(150, 170))},
			map[string][]string{"p-decision-1": names(150, 170)}, map[string]int{"p-decision-1": 20}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := layout("p", test.before, nil, func(string) int { return 0 })
			there, home := settle(before)
			after := layout("p", test.after, there, home)
			sizes := map[string]int{}
			for _, p := range after {
				sizes[p.decision] = len(p.clusters)
				if want, ok := test.want[p.decision]; ok {
					require.Equal(t, want, p.clusters)
				}
			}
			require.Equal(t, test.sizes, sizes)
			require.Equal(t, test.changed, differing(before, after))
		})
	}
}

func differing(before, after []part) int {
	content := map[string]string{}
	for _, p := range before {
		content[p.decision] = fmt.Sprint(p)
	}
	n := 0
	for _, p := range after {
		if content[p.decision] != fmt.Sprint(p) {
			n++
		}
		delete(content, p.decision)
	}
	return n + len(content)
}

// TestLayoutKeepsItsPromises changes groups at random, again and again.
func TestLayoutKeepsItsPromises(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var parts []part
	for round := range 500 {
		groups := randomGroups(random)
		there, home := settle(parts)
		parts = layout("p", groups, there, home)
		byGroup, numbers := map[groupKey][]string{}, map[int]bool{}
		counts := map[groupKey]int{}
		for _, p := range parts {
			require.LessOrEqual(t, len(p.clusters), maxDecisions)
			require.True(t, slices.IsSorted(p.clusters))
			byGroup[p.groupKey] = append(byGroup[p.groupKey], p.clusters...)
			counts[p.groupKey]++
			numbers[decisionNumber("p", p.decision)] = true
		}
		for n := 1; n <= len(parts); n++ {
			require.True(t, numbers[n], "round %d: number %d is missing", round, n)
		}
		for _, g := range groups {
			key := groupKey{g.Index, g.Name}
			slices.Sort(byGroup[key])
			require.Equal(t, g.Clusters, byGroup[key], "round %d", round)
			require.Equal(t, needed(g), counts[key], "round %d", round)
		}
		there, home = settle(parts)
		require.Zero(t, differing(parts, layout("p", groups, there, home)), "round %d: the same again changes nothing", round)
	}
}

func randomGroups(random *rand.Rand) []placement.Group {
	all := names(0, 1000)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var groups []placement.Group
	for i := range 1 + random.IntN(4) {
		n := random.IntN(260)
		clusters := slices.Sorted(slices.Values(all[:n]))
		all = all[n:]
		groups = append(groups, placement.Group{Index: int32(i), Name: []string{"", "canary"}[random.IntN(2)], Clusters: clusters})
	}
	return groups
}
