// Package conditions evaluates the condition rules of a work on applied objects (spec 4.6).
package conditions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// maxRules bounds the rules of one object, and maxExpressions the expressions of one rule; what they may cost together is
	// bounded by Kubernetes' budget for one object.
	maxRules       = 32
	maxExpressions = 32

	// maxMessageBytes bounds what a rule may make the agent write into a status, for each object that it is for.
	maxMessageBytes = 1024
)

// errBudget says that the rules of an object cost more than they may together.
var errBudget = errors.New("CEL evaluation budget exceeded: the rules of one object together cost more than Kubernetes allows")

// Evaluator evaluates rules. It may be used by many at a time.
type Evaluator struct{ programs *programs }

// New makes an evaluator. CEL itself is set up when the first rule needs it.
func New() *Evaluator { return &Evaluator{newPrograms()} }

// Evaluate gives a condition for each rule, with type, status, reason and message; the rest is the caller's. A rule by
// well-known conditions gives none for kinds and conditions that are not well known.
func (e *Evaluator) Evaluate(ctx context.Context, object *unstructured.Unstructured, rules []workv1.ConditionRule) []metav1.Condition {
	var all []metav1.Condition
	run := &run{Evaluator: e, object: object, budget: celconfig.RuntimeCELCostBudget}
	for i, rule := range rules {
		c := metav1.Condition{Type: rule.Condition, Status: metav1.ConditionUnknown, Reason: workv1.ConditionRuleInvalid}
		switch {
		case i >= maxRules:
			c.Message = fmt.Sprintf("there are more condition rules for this object than the limit of %d", maxRules)
		case rule.Type == workv1.WellKnownConditionsType:
			known, ok := wellKnown(object, rule.Condition)
			if !ok {
				continue
			}
			c.Status, c.Reason = statusOf(known.holds), workv1.ConditionRuleEvaluated
			c.Message = run.message(ctx, rule, known.holds, known.message)
		case rule.Type == workv1.CelConditionExpressionsType:
			run.rule(ctx, rule, &c)
		default:
			c.Message = fmt.Sprintf("unrecognized condition rule type %s", rule.Type)
		}
		all = append(all, c)
	}
	return all
}

// run is one evaluation of an object's rules.
type run struct {
	*Evaluator
	object *unstructured.Unstructured
	budget int64 // left for the rules to come
}

// rule evaluates expressions until one is false.
func (r *run) rule(ctx context.Context, rule workv1.ConditionRule, c *metav1.Condition) {
	if len(rule.CelExpressions) == 0 || len(rule.CelExpressions) > maxExpressions {
		c.Message = fmt.Sprintf("a rule has %d celExpressions; it may have 1 to %d", len(rule.CelExpressions), maxExpressions)
		return
	}
	holds := true
	for _, expression := range rule.CelExpressions {
		var err error
		if holds, err = evaluate[bool](ctx, r, expression, false, map[string]any{"object": r.object.Object}); err != nil {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, workv1.ConditionRuleExpressionError, cut(err.Error())
			var internal *internalError
			if errors.As(err, &internal) {
				c.Status, c.Reason = metav1.ConditionUnknown, workv1.ConditionRuleInternalError
			}
			return
		}
		if !holds {
			break
		}
	}
	standard := "Manifest is " + rule.Condition
	if !holds {
		standard = "Manifest is not " + rule.Condition
	}
	c.Status, c.Reason, c.Message = statusOf(holds), workv1.ConditionRuleEvaluated, r.message(ctx, rule, holds, standard)
}

// message is what a rule says about its result. An expression that fails says so in place of it; it does not change the status.
func (r *run) message(ctx context.Context, rule workv1.ConditionRule, holds bool, standard string) string {
	if rule.MessageExpression != "" {
		text, err := evaluate[string](ctx, r, rule.MessageExpression, true, map[string]any{"object": r.object.Object, "result": holds})
		if err != nil {
			return cut(err.Error())
		}
		if text != "" {
			return cut(text)
		}
	}
	if rule.Message != "" {
		return cut(rule.Message)
	}
	return standard
}

// cut keeps a message within its limit.
func cut(text string) string {
	if len(text) <= maxMessageBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessageBytes], "") + " …"
}

func statusOf(holds bool) metav1.ConditionStatus {
	if holds {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// evaluate runs one expression and charges what it cost.
func evaluate[T bool | string](ctx context.Context, r *run, expression string, withResult bool, variables map[string]any) (T, error) {
	var none T
	if r.budget < 0 {
		return none, errBudget
	}
	program, err := r.programs.get(expression, withResult)
	if err != nil {
		return none, err
	}
	out, details, err := program.ContextEval(ctx, variables)
	if details != nil && details.ActualCost() != nil {
		r.budget -= int64(min(*details.ActualCost(), celconfig.RuntimeCELCostBudget+1))
	}
	if err != nil {
		return none, err
	}
	if r.budget < 0 {
		return none, errBudget
	}
	value, ok := out.Value().(T)
	if !ok {
		return none, fmt.Errorf("expected %T result, got %T", none, out.Value())
	}
	return value, nil
}
