package placement

import (
	"encoding/binary"
	"fmt"
	"slices"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// SpreadPolicy is what a placement is told is wrong with spec.spreadPolicy. Upstream ignores the field (spec 10.2, C18).
const SpreadPolicy Filter = "SpreadPolicy"

// spreadConstraint wants selected clusters evenly among the values of a label or a claim. As with Kubernetes' pods, a value
// counts if any candidate has it; a cluster without a value is not selected with DoNotSchedule, and is the last choice with
// ScheduleAnyway.
type spreadConstraint struct {
	key   string
	claim bool
	skew  int
	hard  bool // DoNotSchedule
}

// Held is a candidate that a spread constraint does not allow to be selected besides those that are.
type Held struct{ Candidate, Constraint int }

func (p *Plan) compileSpread(spec *clusterv1beta1.PlacementSpec) error {
	for i, from := range spec.SpreadPolicy.SpreadConstraints {
		refuse := func(format string, arguments ...any) error {
			return misconfigured(string(SpreadPolicy), "spread constraint %d: %s", i+1, fmt.Sprintf(format, arguments...))
		}
		switch {
		case from.TopologyKey == "":
			return refuse("topologyKey is required")
		case from.TopologyKeyType != clusterv1beta1.TopologyKeyTypeLabel && from.TopologyKeyType != clusterv1beta1.TopologyKeyTypeClaim:
			return refuse("topologyKeyType is %q, neither Label nor Claim", from.TopologyKeyType)
		case from.MaxSkew < 1:
			return refuse("maxSkew is %d, less than 1", from.MaxSkew)
		case from.WhenUnsatisfiable != "" && from.WhenUnsatisfiable != clusterv1beta1.ScheduleAnyway && from.WhenUnsatisfiable != clusterv1beta1.DoNotSchedule:
			return refuse("whenUnsatisfiable is %q, neither DoNotSchedule nor ScheduleAnyway", from.WhenUnsatisfiable)
		}
		p.spread = append(p.spread, spreadConstraint{
			key: from.TopologyKey, claim: from.TopologyKeyType == clusterv1beta1.TopologyKeyTypeClaim,
			skew: int(from.MaxSkew), hard: from.WhenUnsatisfiable == clusterv1beta1.DoNotSchedule,
		})
	}
	return nil
}

func (c *spreadConstraint) valueOf(mc *clusterv1.ManagedCluster) (string, bool) {
	if !c.claim {
		value, ok := mc.Labels[c.key]
		return value, ok
	}
	for _, claim := range slices.Backward(mc.Status.ClusterClaims) { // of two of a name the last one counts, as for selectors
		if claim.Name == c.key {
			return claim.Value, true
		}
	}
	return "", false
}

// spreads tells whether constraints can make a difference to a choice.
func (p *Plan) spreads(all bool) bool {
	for i := range p.spread {
		if !all || p.spread[i].hard {
			return true
		}
	}
	return false
}

// topology counts the selected clusters by the values of one constraint.
type topology struct {
	*spreadConstraint
	index  map[string]int // of values
	counts []int          // by value
	least  int            // of counts
	at     int            // how many values have that
}

func (t *topology) value(mc *clusterv1.ManagedCluster) int {
	value, ok := t.valueOf(mc)
	if !ok {
		return -1
	}
	i, ok := t.index[value]
	if !ok {
		i = len(t.counts)
		t.index[value], t.counts, t.at = i, append(t.counts, 0), t.at+1
	}
	return i
}

// allows tells whether one more cluster of a value keeps the skew.
func (t *topology) allows(value int) bool { return value >= 0 && t.counts[value]+1-t.least <= t.skew }

// add counts one more cluster of a value, and tells whether that lets other values have more than before.
func (t *topology) add(value int) (rises bool) {
	if value < 0 {
		return false
	}
	if t.counts[value]++; t.counts[value] > t.least+1 {
		return false
	}
	if t.at--; t.at > 0 {
		return false
	}
	t.least++
	for _, n := range t.counts {
		if n == t.least {
			t.at++
		}
	}
	return true
}

// spreadOut chooses among candidates in the order of preference: each time the first one that keeps all constraints with
// DoNotSchedule, of those one that keeps the most important other constraints.
func (p *Plan) spreadOut(s *Selection, candidates []Candidate, order []int, wanted int) {
	all := make([]*topology, len(p.spread))
	for i := range p.spread {
		all[i] = &topology{spreadConstraint: &p.spread[i], index: map[string]int{}}
	}
	queue := newCornerQueue(all, cornersOf(all, candidates, order))
	for len(s.Chosen) < wanted {
		next, ok := queue.next()
		if !ok {
			break
		}
		s.Chosen = append(s.Chosen, next)
	}
	for _, c := range queue.corners {
		if by := forbidding(all, c.values); by >= 0 {
			for _, candidate := range c.candidates {
				s.HeldBack = append(s.HeldBack, Held{candidate, by})
			}
		}
	}
}

// cornersOf divides candidates by their values. Those without a value that DoNotSchedule needs do not make values count.
func cornersOf(all []*topology, candidates []Candidate, order []int) []*corner {
	var corners []*corner
	byValues := map[string]*corner{}
	var key []byte
	for rank, candidate := range order {
		mc := candidates[candidate].Cluster
		values := make([]int, len(all))
		key = key[:0]
		lacks := false
		for _, t := range all {
			if _, ok := t.valueOf(mc); t.hard && !ok {
				lacks = true
			}
		}
		for i, t := range all {
			if values[i] = -1; !lacks {
				values[i] = t.value(mc)
			} else if _, ok := t.valueOf(mc); ok {
				values[i] = -2
			}
			key = binary.AppendVarint(key, int64(values[i]))
		}
		c := byValues[string(key)]
		if c == nil {
			c = &corner{values: values}
			byValues[string(key)] = c
			corners = append(corners, c)
		}
		c.candidates, c.ranks = append(c.candidates, candidate), append(c.ranks, rank)
	}
	return corners
}

// forbidding is the first constraint with DoNotSchedule that one more cluster with these values would break, -1 for none.
// One that the cluster has no value for comes first, as no other choice mends it.
func forbidding(all []*topology, values []int) int {
	for i, t := range all {
		if t.hard && values[i] == -1 {
			return i
		}
	}
	for i, t := range all {
		if t.hard && !t.allows(values[i]) {
			return i
		}
	}
	return -1
}

// WhyHeld tells in one sentence which constraint keeps a cluster out.
func (p *Plan) WhyHeld(h Held, mc *clusterv1.ManagedCluster) string {
	c := &p.spread[h.Constraint]
	what := "label"
	if c.claim {
		what = "claim"
	}
	value, ok := c.valueOf(mc)
	if !ok {
		return fmt.Sprintf("it has no %s %s, which spread constraint %d with DoNotSchedule needs", what, c.key, h.Constraint+1)
	}
	return fmt.Sprintf("spread constraint %d with DoNotSchedule and maxSkew %d allows no more clusters whose %s %s is %q", h.Constraint+1, c.skew, what, c.key, value)
}
