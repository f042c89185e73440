package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCornersChooseAsOneByOne compares the queue with a look at every candidate for every choice.
func TestCornersChooseAsOneByOne(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := rand.New(rand.NewPCG(seed, 0))
	for round := range 500 {
		var constraints []spreadConstraint
		for range 1 + x.IntN(3) {
			constraints = append(constraints, spreadConstraint{key: fmt.Sprint("zone", x.IntN(3)), skew: 1 + x.IntN(3), hard: x.IntN(2) == 0})
		}
		candidates := candidatesOf("")
		for i := range x.IntN(40) {
			mc := candidatesOf(fmt.Sprintf("c%02d", i))
			for key := range 3 {
				if value := x.IntN(2 + 8*key); value > 0 { // of the last one there are many
					mc[0].Cluster.Labels[fmt.Sprint("zone", key)] = fmt.Sprint(value)
				}
			}
			candidates = append(candidates, mc...)
		}
		order, wanted := x.Perm(len(candidates)), x.IntN(len(candidates)+1)
		plan := &Plan{spread: constraints}
		var s Selection
		plan.spreadOut(&s, candidates, order, wanted)
		require.Equal(t, oneByOne(plan, candidates, order, wanted), s.Chosen, "round %d", round)
	}
}

// oneByOne chooses the way that spreadOut is told to, with no regard to what it costs.
func oneByOne(p *Plan, candidates []Candidate, order []int, wanted int) (chosen []int) {
	var all []*topology
	for i := range p.spread {
		all = append(all, &topology{spreadConstraint: &p.spread[i], index: map[string]int{}})
	}
	values := map[int][]int{}
	for _, c := range cornersOf(all, candidates, order) {
		for _, candidate := range c.candidates {
			values[candidate] = c.values
		}
	}
	for len(chosen) < wanted {
		best, most := -1, []bool(nil)
		for _, candidate := range order {
			if slices.Contains(chosen, candidate) || forbidding(all, values[candidate]) >= 0 {
				continue
			}
			var keeps []bool
			for i, t := range all {
				keeps = append(keeps, !t.hard && t.allows(values[candidate][i]))
			}
			if best < 0 || slices.CompareFunc(keeps, most, func(a, b bool) int {
				switch {
				case a == b:
					return 0
				case a:
					return 1
				}
				return -1
			}) > 0 {
				best, most = candidate, keeps
			}
		}
		if best < 0 {
			break
		}
		chosen = append(chosen, best)
		for i, t := range all {
			t.add(values[best][i])
		}
	}
	return chosen
}

// BenchmarkSpread has as many corners as candidates.
func BenchmarkSpread(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var candidates []Candidate
			order := make([]int, n)
			for i := range n {
				candidates = append(candidates, candidatesOf(fmt.Sprintf("c%d@z%d/%d", i, i, i%2))...)
				order[i] = i
			}
			plan := &Plan{spread: []spreadConstraint{{key: "zone", skew: 1, hard: true}, {key: "host", claim: true, skew: 1}}}
			for b.Loop() {
				var s Selection
				plan.spreadOut(&s, candidates, order, n/2)
			}
		})
	}
}
