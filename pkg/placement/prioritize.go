package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// Names of prioritizers, upstream's.
const (
	Steady                    = "Steady"
	Balance                   = "Balance"
	ResourceAllocatableCPU    = "ResourceAllocatableCPU"
	ResourceAllocatableMemory = "ResourceAllocatableMemory"
)

// best and worst are the bounds of a score (spec 5.2).
const (
	best  = 100
	worst = -100
)

// prioritizer gives every candidate a score.
type prioritizer struct {
	name   string
	weight int32
	score  func(*scoring) []int64

	resource clusterv1.ResourceName // of the cluster's status that it reads; empty for none
	addOn    string                 // AddOnPlacementScore that it reads; empty for none
}

// scoring is what prioritizers look at, and what they find besides scores.
type scoring struct {
	candidates []Candidate
	busiest    int
	now        time.Time
	expired    []string // scores of add-ons
	until      time.Time
}

// compilePrioritizers finds out which prioritizers count, in the order of their names (spec 5.2 step 6).
func (c *Compiler) compilePrioritizers(plan *Plan) func(*clusterv1beta1.PlacementSpec) error {
	return func(spec *clusterv1beta1.PlacementSpec) error {
		all := map[string]prioritizer{}
		switch spec.PrioritizerPolicy.Mode {
		case "", clusterv1beta1.PrioritizerPolicyModeAdditive:
			all[Steady], all[Balance] = prioritizer{name: Steady, weight: 1, score: steady}, prioritizer{name: Balance, weight: 1, score: balance}
		case clusterv1beta1.PrioritizerPolicyModeExact:
		default:
			return misconfigured("Prioritizer", "incorrect prioritizer policy mode: %s", spec.PrioritizerPolicy.Mode)
		}
		for _, config := range spec.PrioritizerPolicy.Configurations {
			p, err := c.prioritizer(config)
			if err != nil {
				return err
			}
			all[p.name] = p // the last one of a name counts
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name].weight != 0 {
				plan.prioritizers = append(plan.prioritizers, all[name])
			}
		}
		plan.steady = all[Steady].weight > 0
		return nil
	}
}

func (c *Compiler) prioritizer(config clusterv1beta1.PrioritizerConfig) (prioritizer, error) {
	at := config.ScoreCoordinate
	if at == nil {
		return prioritizer{}, misconfigured("Prioritizer", "scoreCoordinate field is required")
	}
	p := prioritizer{name: at.BuiltIn, weight: config.Weight}
	if at.Type == clusterv1beta1.ScoreCoordinateTypeAddOn {
		if at.AddOn == nil {
			return prioritizer{}, misconfigured("Prioritizer", "addOn should not be empty")
		}
		p.name, p.addOn = strings.Join([]string{"AddOn", at.AddOn.ResourceName, at.AddOn.ScoreName}, "/"), at.AddOn.ResourceName
		p.score = c.addOnScore(at.AddOn.ResourceName, at.AddOn.ScoreName)
		return p, nil
	}
	switch at.BuiltIn {
	case Steady:
		p.score = steady
	case Balance:
		p.score = balance
	case ResourceAllocatableCPU:
		p.resource, p.score = clusterv1.ResourceCPU, allocatable(clusterv1.ResourceCPU)
	case ResourceAllocatableMemory:
		p.resource, p.score = clusterv1.ResourceMemory, allocatable(clusterv1.ResourceMemory)
	default:
		return prioritizer{}, misconfigured("Prioritizer", "incorrect builtin prioritizer: %s", at.BuiltIn)
	}
	return p, nil
}

// steady prefers what is chosen.
func steady(s *scoring) []int64 {
	scores := make([]int64, len(s.candidates))
	for i := range s.candidates {
		if s.candidates[i].Chosen {
			scores[i] = best
		}
	}
	return scores
}

// balance prefers clusters that other placements have few decisions for. The steps of two are upstream's.
func balance(s *scoring) []int64 {
	scores := make([]int64, len(s.candidates))
	for i := range s.candidates {
		scores[i] = best
		if n := s.candidates[i].Elsewhere; n > 0 {
			scores[i] = 2 * int64(float64(best)*(0.5-float64(n)/float64(max(n, s.busiest))))
		}
	}
	return scores
}

// allocatable prefers clusters that have much of a resource left for workloads. One that tells nothing of it has no score.
func allocatable(name clusterv1.ResourceName) func(*scoring) []int64 {
	return func(s *scoring) []int64 {
		scores, values, known := make([]int64, len(s.candidates)), make([]float64, len(s.candidates)), make([]bool, len(s.candidates))
		var least, most float64
		first := true
		for i := range s.candidates {
			if values[i], known[i] = resourceOf(s.candidates[i].Cluster, name); !known[i] {
				continue
			}
			if first || values[i] < least {
				least = values[i]
			}
			if first || values[i] > most {
				most = values[i]
			}
			first = false
		}
		for i := range scores {
			switch {
			case !known[i]:
			case least == most:
				scores[i] = best
			default:
				scores[i] = int64(((values[i]-least)/(most-least) - 0.5) * 2 * best)
			}
		}
		return scores
	}
}

// resourceOf is how much of a resource a cluster has for workloads. As upstream has it, only those that tell their capacity
// as well are scored.
func resourceOf(mc *clusterv1.ManagedCluster, name clusterv1.ResourceName) (float64, bool) {
	left, ok := mc.Status.Allocatable[name]
	if _, also := mc.Status.Capacity[name]; !ok || !also {
		return 0, false
	}
	return left.AsApproximateFloat64(), true
}

// addOnScore takes the score that an add-on gives a cluster; 0 if there is none, or it is not valid any more.
func (c *Compiler) addOnScore(resource, name string) func(*scoring) []int64 {
	return func(s *scoring) []int64 {
		scores := make([]int64, len(s.candidates))
		for i := range s.candidates {
			cluster := s.candidates[i].Cluster.Name
			found := c.scores(cluster, resource)
			if found == nil {
				continue
			}
			if end := found.Status.ValidUntil; end != nil {
				if !s.now.Before(end.Time) {
					s.expired = append(s.expired, cluster+"/"+resource)
					continue
				}
				if s.until.IsZero() || end.Time.Before(s.until) {
					s.until = end.Time
				}
			}
			for _, item := range found.Status.Scores {
				if item.Name == name {
					scores[i] = min(max(int64(item.Value), worst), best)
				}
			}
		}
		return scores
	}
}

// maxExpired is how many scores a warning names.
const maxExpired = 5

func (s *scoring) warnings() []string {
	if len(s.expired) == 0 {
		return nil
	}
	slices.SortFunc(s.expired, cmp.Compare[string])
	named := slices.Compact(s.expired)
	text := "AddOnPlacementScores " + strings.Join(named[:min(len(named), maxExpired)], " ")
	if more := len(named) - maxExpired; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []string{text + " expired"}
}
