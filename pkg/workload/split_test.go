package workload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// holding is what a hub would hold after a split was written.
func holding(s split) map[int]map[ID]bool {
	parts := map[int]map[ID]bool{}
	for number, objects := range s.parts {
		parts[number] = map[ID]bool{}
		for _, o := range objects {
			parts[number][o.ID] = true
		}
	}
	return parts
}

func numbers(s split) []int { return slices.Sorted(maps.Keys(s.parts)) }

// requireWhole checks what holds of every split: each object once, no part above the limit, none without the first one.
func requireWhole(t *testing.T, objects []Object, s split, limit int) {
	t.Helper()
	seen := map[ID]bool{}
	for number, part := range s.parts {
		size := 0
		for _, o := range part {
			require.False(t, seen[o.ID], "%s is there twice", o)
			seen[o.ID] = true
			size += o.size()
		}
		require.LessOrEqual(t, size, limit, "part %d", number)
		require.NotEmpty(t, part)
	}
	require.Len(t, seen, len(objects))
	require.Contains(t, numbers(s), 1)
}

func TestDivideCharts(t *testing.T) {
	for _, test := range []struct {
		size  string
		parts int
	}{{"small", 1}, {"medium", 1}, {"large", 1}, {"huge", 3}} {
		t.Run(test.size, func(t *testing.T) {
			objects := chart(t, test.size)
			s, err := divide(objects, nil, nil, defaultLimit)
			require.NoError(t, err)
			requireWhole(t, objects, s, defaultLimit)
			require.Len(t, s.parts, test.parts)
			require.Empty(t, s.moved)
			require.Equal(t, "Namespace", s.parts[1][0].Kind)

			again, err := divide(objects, holding(s), nil, defaultLimit)
			require.NoError(t, err)
			require.Equal(t, s, again, "nothing moves without need")

			shuffled := slices.Clone(objects)
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			other, err := divide(shuffled, holding(s), nil, defaultLimit)
			require.NoError(t, err)
			require.Equal(t, holding(s), holding(other), "the order of the input moves nothing")
		})
	}
}

func TestDivide(t *testing.T) {
	m := func(name string, size int) Object { return configMapOf(t, name, size) }
	ids := func(objects ...Object) map[ID]bool {
		out := map[ID]bool{}
		for _, o := range objects {
			out[o.ID] = true
		}
		return out
	}
	a, b, c, d := m("a", 400), m("b", 400), m("c", 400), m("d", 400)
	for _, test := range []struct {
		name    string
		objects []Object
		current map[int]map[ID]bool
		taken   map[int]bool
		want    map[int]map[ID]bool
		moved   map[ID]int
	}{
		{"all in one", []Object{a, b}, nil, nil, map[int]map[ID]bool{1: ids(a, b)}, map[ID]int{}},
		{"a second part", []Object{a, b, c, d}, nil, nil, map[int]map[ID]bool{1: ids(a, b), 2: ids(c, d)}, map[ID]int{}},
		{"a number that is taken", []Object{a, b, c}, nil, map[int]bool{2: true}, map[int]map[ID]bool{1: ids(a, b), 3: ids(c)}, map[ID]int{}},
		{"what was split stays split", []Object{a, b}, map[int]map[ID]bool{1: ids(a), 3: ids(b)}, nil, map[int]map[ID]bool{1: ids(a), 3: ids(b)}, map[ID]int{}},
		{"a part that has grown gives up the last", []Object{m("a", 600), b}, map[int]map[ID]bool{1: ids(a, b)}, nil, map[int]map[ID]bool{1: ids(a), 2: ids(b)}, map[ID]int{b.ID: 2}},
		{"the first part is never empty", []Object{b, c}, map[int]map[ID]bool{1: ids(a), 2: ids(b), 3: ids(c)}, nil, map[int]map[ID]bool{1: ids(c), 2: ids(b)}, map[ID]int{c.ID: 1}},
		{"a move that was cut short goes on", []Object{m("a", 600), b}, map[int]map[ID]bool{1: ids(a, b), 2: ids(b)}, nil, map[int]map[ID]bool{1: ids(a), 2: ids(b)}, map[ID]int{b.ID: 2}},
		{"a move that is needed no more is taken back", []Object{a, b}, map[int]map[ID]bool{1: ids(a, b), 2: ids(b)}, nil, map[int]map[ID]bool{1: ids(a, b)}, map[ID]int{b.ID: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := divide(test.objects, test.current, test.taken, 1100)
			require.NoError(t, err)
			requireWhole(t, test.objects, s, 1100)
			require.Equal(t, test.want, holding(s))
			require.Equal(t, test.moved, s.moved)
		})
	}
}

func TestDivideRefuses(t *testing.T) {
	_, err := divide([]Object{configMapOf(t, "fits", 100), configMapOf(t, "whale", 5000)}, nil, nil, 4096)
	require.ErrorContains(t, err, "ConfigMap whale is")
	require.ErrorContains(t, err, "more than the 4096 bytes")
}

// TestDivideNeverLoses applies changing inputs one after the other, some of which end in the middle, and looks at the hub
// after each write: what was there and is still wanted is always in some work.
func TestDivideNeverLoses(t *testing.T) {
	const limit = 10000
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		hub := map[int]map[ID]bool{}
		for range 12 {
			var objects []Object
			for i := range 40 {
				if random.IntN(4) > 0 {
					objects = append(objects, configMapOf(t, fmt.Sprintf("o%02d", i), random.IntN(1500)))
				}
			}
			s, err := divide(objects, hub, nil, limit)
			require.NoError(t, err)
			requireWhole(t, objects, s, limit)
			kept := map[ID]bool{}
			for _, o := range objects {
				kept[o.ID] = anywhere(hub, o.ID)
			}
			final := holding(s)
			first := s.receiving(hub)
			var writes []int
			writes = append(writes, first...)
			for _, part := range slices.Sorted(maps.Keys(final)) {
				if !slices.Contains(first, part) {
					writes = append(writes, part)
				}
			}
			for part := range hub {
				if final[part] == nil {
					writes = append(writes, part)
				}
			}
			cut := len(writes) // a call may be stopped while it waits for the agent
			if random.IntN(3) == 0 {
				cut = len(first)
			}
			for i, part := range writes[:cut] {
				if hub[part] = final[part]; final[part] == nil {
					delete(hub, part)
				}
				for id, was := range kept {
					require.Equal(t, was, was && anywhere(hub, id), "seed %d: write %d of %v loses %v", seed, i, writes, id)
				}
			}
			if cut == len(first) { // then everything that moves is where it moves to
				for id, part := range s.moved {
					require.True(t, hub[part][id])
				}
			}
		}
	}
}

func anywhere(hub map[int]map[ID]bool, id ID) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(hub)), func(part map[ID]bool) bool { return part[id] })
}
