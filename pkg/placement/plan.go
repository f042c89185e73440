// Package placement decides which clusters a Placement selects: which of the clusters in its sets it may have, in which order
// it prefers them, and in which groups they are rolled out to (spec section 5). It is handed everything that it looks at,
// and remembers nothing.
//
// A Placement is compiled into a Plan once; all that can be wrong with it is found then. A cluster is judged by its filters
// on its own, so a verdict holds until that cluster changes; scores and choice are about all candidates together.
package placement

import (
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// Scores finds an AddOnPlacementScore of a cluster by its name; nil if there is none.
type Scores func(cluster, name string) *clusterv1alpha1.AddOnPlacementScore

// Compiler makes placements ready to be evaluated.
type Compiler struct {
	scores Scores
	env    *cel.Env
}

// NewCompiler returns a compiler whose plans find scores of add-ons with the function.
func NewCompiler(scores Scores) (*Compiler, error) {
	env, err := newEnvironment(scores)
	if err != nil {
		return nil, err
	}
	return &Compiler{scores: scores, env: env}, nil
}

// Misconfigured is what is wrong with a placement itself.
type Misconfigured struct {
	Plugin  string // upstream's name of the part that refuses it
	Message string
}

// Error gives it as upstream's condition PlacementMisconfigured does (spec 5.4).
func (m *Misconfigured) Error() string { return m.Plugin + ":" + m.Message }

func misconfigured(plugin, format string, arguments ...any) error {
	return &Misconfigured{plugin, fmt.Sprintf(format, arguments...)}
}

// Plan is a compiled placement. It does not change, and may be used by many at a time.
type Plan struct {
	predicates   []predicate
	tolerations  []clusterv1beta1.Toleration
	prioritizers []prioritizer
	steady       bool   // what is chosen has an advantage
	count        *int32 // nil: all
	groups       grouping
	spread       []spreadConstraint
	sortByScore  bool
	scoreEvery   time.Duration
}

// Compile reads a placement. An error is a *Misconfigured.
func (c *Compiler) Compile(p *clusterv1beta1.Placement) (*Plan, error) {
	plan := &Plan{tolerations: p.Spec.Tolerations, count: p.Spec.NumberOfClusters, sortByScore: p.Spec.SortBy == clusterv1beta1.PlacementSortByScore}
	for _, compile := range []func(*clusterv1beta1.PlacementSpec) error{
		func(spec *clusterv1beta1.PlacementSpec) error { return c.compilePredicates(plan, spec) }, plan.checkTolerations, c.compilePrioritizers(plan), plan.compileGroups, plan.compileSpread, plan.compileScoreRate,
	} {
		if err := compile(&p.Spec); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// SortByScore tells whether decisions are to be in the order of scores, and to show them (spec.sortBy).
func (p *Plan) SortByScore() bool { return p.sortByScore }

// ScoreInterval is how often scores may be written that change nothing else (spec.scoreRateLimit).
func (p *Plan) ScoreInterval() time.Duration { return p.scoreEvery }

// defaultScoreRate is what the definition of Placement has for spec.scoreRateLimit.
const defaultScoreRate = time.Minute

func (p *Plan) compileScoreRate(spec *clusterv1beta1.PlacementSpec) error {
	p.scoreEvery = defaultScoreRate
	if spec.ScoreRateLimit == "" {
		return nil
	}
	every, err := time.ParseDuration(spec.ScoreRateLimit)
	if err != nil || every < 0 {
		return misconfigured("ScoreRateLimit", "%q is no duration, such as 1m", spec.ScoreRateLimit)
	}
	p.scoreEvery = every
	return nil
}

// Filter names a filter as upstream does.
type Filter string

// The filters, in their order.
const (
	Predicate       Filter = "Predicate"
	TaintToleration Filter = "TaintToleration"
)

// Verdict is what the filters say of a cluster. It does not depend on whether the cluster is chosen now.
type Verdict struct {
	Refused Filter           // empty: it passes
	Taint   *clusterv1.Taint // that refuses it or lets it only stay; a part of the cluster
	Keep    bool             // it passes while it is chosen, but is not chosen anew (NoSelectIfNew)
	Avoid   int              // taints PreferNoSelect that are not tolerated
	Until   time.Time        // when a toleration ends, and the verdict with it; zero: it holds until the cluster changes
}

// Judge says whether a cluster may be selected.
func (p *Plan) Judge(mc *clusterv1.ManagedCluster, now time.Time) Verdict {
	if !p.Matches(mc) {
		return Verdict{Refused: Predicate}
	}
	return p.JudgeTaints(mc, now)
}

// Why tells in one sentence why a cluster is refused, with the values that are the reason.
func (p *Plan) Why(mc *clusterv1.ManagedCluster, now time.Time) string {
	switch v := p.Judge(mc, now); {
	case v.Refused == Predicate:
		return p.whyNoMatch(mc)
	case v.Taint != nil:
		return p.WhyTainted(v, now)
	}
	return ""
}
