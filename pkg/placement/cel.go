package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"

	"nave/pkg/expression"
)

const (
	// clusterVariable is the ManagedCluster in an expression, as it is in JSON.
	clusterVariable = "managedCluster"

	// costLimit bounds what the expressions of a placement may cost for one cluster, in Kubernetes' units; a million is about a
	// tenth of a second. It is less than upstream has for one predicate: ten thousand clusters are to be looked at.
	costLimit = 100_000

	// maxExpressions bounds the expressions of one predicate.
	maxExpressions = 32

	// maxQuoted is how much of an expression a message quotes.
	maxQuoted = 120
)

// celSelector requires expressions to be true of a cluster.
type celSelector struct {
	view  *view
	all   []celExpression
	reads celReads
}

type celExpression struct {
	text    string
	program cel.Program
}

// newEnvironment has what upstream's placements have: the libraries of Kubernetes, parseJSON, and the scores of add-ons.
func newEnvironment(scores Scores) (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.Variable(clusterVariable, cel.MapType(cel.StringType, cel.DynType)),
		cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(),
		library.Lists(), library.Regex(), library.URLs(), library.Quantity(), library.IP(), library.CIDR(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		cel.Function("scores", cel.MemberOverload("cluster_scores", []*cel.Type{cel.DynType, cel.StringType}, cel.ListType(cel.DynType),
			cel.BinaryBinding(func(cluster, name ref.Val) ref.Val { return scoresOf(scores, cluster, name) }))),
		cel.Function("parseJSON",
			cel.Overload("parse_json", []*cel.Type{cel.StringType}, cel.DynType, cel.UnaryBinding(parseJSON)),
			cel.MemberOverload("string_parse_json", []*cel.Type{cel.StringType}, cel.DynType, cel.UnaryBinding(parseJSON))),
	)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return env, nil
}

// scoresOf gives the scores of a cluster as a list of {name, value}. As upstream has it, scores that are over count here, and
// a cluster without the object does not match.
func scoresOf(scores Scores, cluster, name ref.Val) ref.Val {
	mapping, ok := cluster.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(cluster)
	}
	metadata, ok := mapping.Get(types.String("metadata")).(traits.Mapper)
	if !ok {
		return types.NewErr("the cluster has no metadata")
	}
	clusterName, ok := metadata.Get(types.String("name")).Value().(string)
	scoreName, also := name.Value().(string)
	if !ok || !also {
		return types.NewErr("the cluster has no name")
	}
	found := scores(clusterName, scoreName)
	if found == nil {
		return types.NewErr("there is no AddOnPlacementScore %s/%s", clusterName, scoreName)
	}
	all := make([]any, 0, len(found.Status.Scores))
	for _, item := range found.Status.Scores {
		all = append(all, map[string]any{"name": item.Name, "value": int64(item.Value)})
	}
	return types.DefaultTypeAdapter.NativeToValue(all)
}

func parseJSON(text ref.Val) ref.Val {
	given, ok := text.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(text)
	}
	var value any
	if err := json.Unmarshal([]byte(given), &value); err != nil {
		return types.NewErr("parseJSON: %v", err)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// estimator charges for the functions that Kubernetes does not know.
type estimator struct{ library.CostEstimator }

func (e *estimator) CallCost(function, overload string, arguments []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "parseJSON":
		if text, ok := arguments[0].(types.String); ok {
			return new(1 + uint64(len(text))/10)
		}
	case "scores":
		if list, ok := result.(traits.Lister); ok {
			if n, ok := list.Size().(types.Int); ok {
				return new(1 + uint64(n))
			}
		}
	}
	return e.CostEstimator.CallCost(function, overload, arguments, result)
}

func (c *Compiler) compileCEL(texts []string) (*celSelector, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) > maxExpressions {
		return nil, fmt.Errorf("celSelector: there are %d expressions, more than the limit of %d", len(texts), maxExpressions)
	}
	selector := &celSelector{}
	for _, text := range texts {
		program, err := c.compileExpression(text, &selector.reads)
		if err != nil {
			return nil, fmt.Errorf("celSelector: expression %s: %w", quoted(text), err)
		}
		selector.all = append(selector.all, celExpression{text, program})
	}
	selector.view = newView(selector.reads.paths)
	return selector, nil
}

func (c *Compiler) compileExpression(text string, reads *celReads) (program cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil { // expressions come from the network
			program, err = nil, fmt.Errorf("CEL does not take it: %v", r)
		}
	}()
	if err := expression.CheckText(text); err != nil {
		return nil, err
	}
	parsed, issues := c.env.Parse(text)
	if err := issues.Err(); err != nil {
		return nil, firstLine(err)
	}
	if err := expression.CheckGrowth(parsed.NativeRep().Expr()); err != nil {
		return nil, err
	}
	checked, issues := c.env.Check(parsed)
	if err := issues.Err(); err != nil {
		return nil, firstLine(err)
	}
	if kind := checked.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives %s, not bool", kind)
	}
	if err := reads.add(checked.NativeRep().Expr()); err != nil {
		return nil, err
	}
	return c.env.Program(checked, cel.CostLimit(costLimit), cel.CostTracking(&estimator{}))
}

// firstLine is what an error of CEL says is wrong, and where; the rest of it draws the expression.
func firstLine(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

func quoted(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + " …"
	}
	return fmt.Sprintf("%q", text)
}

// refuses tells why a cluster does not match, empty if it does. What cannot be evaluated does not match.
func (s *celSelector) refuses(view map[string]any, budget *budget) string {
	for _, e := range s.all {
		value, err := e.eval(view, budget)
		if err != nil {
			return fmt.Sprintf("expression %s fails: %v", quoted(e.text), firstLine(err))
		}
		switch holds, ok := value.Value().(bool); {
		case !ok:
			return fmt.Sprintf("expression %s gives %s, not bool", quoted(e.text), value.Type().TypeName())
		case !holds:
			return fmt.Sprintf("expression %s is false", quoted(e.text))
		}
	}
	return ""
}

func (e *celExpression) eval(view map[string]any, budget *budget) (ref.Val, error) {
	overspent := fmt.Errorf("the expressions of the placement cost more than the limit of %d", costLimit)
	if budget.left == 0 {
		return nil, overspent
	}
	value, details, err := e.program.Eval(map[string]any{clusterVariable: view})
	// One that fails has cost something, too: the limit that it was stopped at, it may be.
	if !budget.pays(details) && err == nil {
		err = overspent
	}
	return value, err
}

// budget is what expressions may still cost for one cluster.
type budget struct{ left uint64 }

func newBudget() *budget { return &budget{costLimit} }

// pays takes off what an evaluation has cost, and tells whether there was enough. A cost that nobody knows is too much.
func (b *budget) pays(details *cel.EvalDetails) bool {
	if details == nil || details.ActualCost() == nil || *details.ActualCost() > b.left {
		b.left = 0
		return false
	}
	b.left -= *details.ActualCost()
	return true
}
