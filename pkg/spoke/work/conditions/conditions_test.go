package conditions

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/expression"
)

func objectOf(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON([]byte(text)))
	return object
}

func celRule(condition string, expressions ...string) workv1.ConditionRule {
	return workv1.ConditionRule{Condition: condition, Type: workv1.CelConditionExpressionsType, CelExpressions: expressions}
}

func TestEvaluate(t *testing.T) {
	const (
		boat = `{"apiVersion":"x.test/v1","kind":"Boat","metadata":{"name":"b"},"spec":{"size":9007199254740993,"ratio":0.5,"names":["a","b"]},"status":{"phase":"Afloat","conditions":[{"type":"Ready","status":"True"}]}}`
		job  = `{"apiVersion":"batch/v1","kind":"Job","status":{"conditions":[{"type":"Suspended","status":"False"},{"type":"Failed","status":"True"}]}}`
		pod  = `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Succeeded"}}`
	)
	known := workv1.ConditionRule{Condition: "Complete", Type: workv1.WellKnownConditionsType}
	with := func(r workv1.ConditionRule, message, expression string) workv1.ConditionRule {
		r.Message, r.MessageExpression = message, expression
		return r
	}
	for _, test := range []struct {
		name, object string
		rule         workv1.ConditionRule
		status       metav1.ConditionStatus
		reason       string
		message      string // a part of it
	}{
		{"true", boat, celRule("Ready", `object.status.phase == "Afloat"`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"false", boat, celRule("Ready", `object.status.phase == "Sunk"`), "False", "ConditionRuleEvaluated", "Manifest is not Ready"},
		{"all of several", boat, celRule("Ready", `object.status.phase == "Afloat"`, `object.spec.ratio < 1.0`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"the first false one ends it", boat, celRule("Ready", `false`, `object.no.such == 1`), "False", "ConditionRuleEvaluated", "Manifest is not Ready"},
		{"conditions", boat, celRule("Ready", `hasConditions(object.status) && object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"no conditions", boat, celRule("Ready", `hasConditions(object.spec)`), "False", "ConditionRuleEvaluated", "Manifest is not Ready"},
		{"Kubernetes' libraries", boat, celRule("Ready", `quantity("1Gi").isGreaterThan(quantity("1M")) && object.spec.names.isSorted()`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"large numbers", boat, celRule("Ready", `object.spec.size == 9007199254740993`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"a message", boat, with(celRule("Ready", `true`), "all well", ""), "True", "ConditionRuleEvaluated", "all well"},
		{"a message by expression", boat, with(celRule("Ready", `true`), "all well", `"is " + object.status.phase + ": " + string(result)`), "True", "ConditionRuleEvaluated", "is Afloat: true"},
		{"an empty message by expression", boat, with(celRule("Ready", `true`), "all well", `""`), "True", "ConditionRuleEvaluated", "all well"},
		{"a message that cannot be made", boat, with(celRule("Ready", `true`), "", `object.no`), "True", "ConditionRuleEvaluated", "no such key"},
		{"a message that is none", boat, with(celRule("Ready", `true`), "", `1`), "True", "ConditionRuleEvaluated", "expected string result"},
		{"a field that is missing", boat, celRule("Ready", `object.status.missing == 1`), "False", "ConditionRuleExpressionError", "no such key: missing"},
		{"syntax", boat, celRule("Ready", `object.status.`), "False", "ConditionRuleExpressionError", "compile: "},
		{"result is for messages", boat, celRule("Ready", `result`), "False", "ConditionRuleExpressionError", "undeclared reference"},
		{"no boolean", boat, celRule("Ready", `object.status.phase`), "False", "ConditionRuleExpressionError", "expected bool result, got string"},
		{"an expression that is too long", boat, celRule("Ready", strings.Repeat(" ", expression.MaxBytes)+"true"), "False", "ConditionRuleExpressionError", "limit of 4096"},
		{"chained macros", boat, celRule("Ready", `object.status.conditions.filter(c, c.type == "Ready" || c.type == "Other").map(c, {"type": c.type, "status": c.status}).exists(c, c.status == "True")`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"texts that are put together", boat, celRule("Ready", `object.spec.names.map(n, n + "-" + n).join(", ").replace("-", "/") == "a/a, b/b"`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"values that double", boat, celRule("Ready", `[1]`+strings.Repeat(`.map(a, [a, a])`, 40)+` == [2]`), "False", "ConditionRuleExpressionError", "up to 1000 times larger"},
		{"types that double", boat, celRule("Ready", `[{1: 1}]`+strings.Repeat(`.map(a, {a: a})`, 40)+`.size() > 0`), "False", "ConditionRuleExpressionError", "up to 1000 times larger"},
		{"texts that double", boat, celRule("Ready", `["x"]`+strings.Repeat(`.map(a, "%s%s".format([a, a]))`, 40)+` == []`), "False", "ConditionRuleExpressionError", "up to 1000 times larger"},
		{"a text put into itself", boat, celRule("Ready", `object.status.phase.replace("a", object.status.phase) == ""`), "False", "ConditionRuleExpressionError", "literal text of at most 64 bytes"},
		{"optionals that double", boat, celRule("Ready", `optional.of(1)`+strings.Repeat(`.optMap(a, a)`, 40)+`.hasValue()`), "False", "ConditionRuleExpressionError", "more than 4 optMap"},
		{"what is nested deeply", boat, celRule("Ready", strings.Repeat("(", 2000)+"true"+strings.Repeat(")", 2000)), "False", "ConditionRuleExpressionError", "recursion"},
		{"lists and maps of several types", boat, celRule("Ready", `{"a": 1, "b": "x"}.size() == 2 && [1, "a", object].size() == 3`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"functions of texts", boat, celRule("Ready", `"abc".reverse() == "cba" && "%s %d".format(["a", 3]) == "a 3" && strings.quote("a") == "\"a\""`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"optional fields", boat, celRule("Ready", `object.?status.?missing.orValue("x") == "x"`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"numbers of several types", boat, celRule("Ready", `object.spec.ratio < 1 && object.spec.size > 0.5`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"Kubernetes' other libraries", boat, celRule("Ready", `sets.contains(["a", "b"], ["a"]) && isURL("https://a.test") && ip("10.0.0.1").family() == 4 && cidr("10.0.0.0/8").containsIP("10.0.0.1") && "a1".find("[0-9]") == "1" && isSemver("1.2.3") && !format.dns1123Label().validate("a").hasValue()`), "True", "ConditionRuleEvaluated", "Manifest is Ready"},
		{"a format that is much longer than what it says", boat, celRule("Ready", `"%.1000000000f".format([1.0]) == ""`), "False", "ConditionRuleExpressionError", ""},
		{"a range", boat, celRule("Ready", `lists.range(1000000000).size() > 1`), "False", "ConditionRuleExpressionError", "undeclared reference"},
		{"a long message", boat, with(celRule("Ready", `true`), strings.Repeat("x", 40000), ""), "True", "ConditionRuleEvaluated", "x …"},
		{"no expression", boat, celRule("Ready"), "Unknown", "ConditionRuleInvalid", "0 celExpressions"},
		{"an unknown sort", boat, workv1.ConditionRule{Condition: "Ready", Type: "Tea"}, "Unknown", "ConditionRuleInvalid", "unrecognized condition rule type Tea"},
		{"a job that failed is complete", job, known, "True", "ConditionRuleEvaluated", "Job is finished"},
		{"a job without status", `{"apiVersion":"batch/v1","kind":"Job"}`, known, "False", "ConditionRuleEvaluated", "Job is not finished"},
		{"a pod that succeeded", pod, known, "True", "ConditionRuleEvaluated", "Pod is in phase Succeeded"},
		{"a pod that runs", `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running"}}`, known, "False", "ConditionRuleEvaluated", "Pod is in phase Running"},
		{"a job, with a message", job, with(known, "", `result ? "over" : "not yet"`), "True", "ConditionRuleEvaluated", "over"},
		{"not well known", boat, known, "", "", ""},
		{"another condition", job, workv1.ConditionRule{Condition: "Ready", Type: workv1.WellKnownConditionsType}, "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			evaluator := New()
			for range 2 { // the second time by what is kept of the first
				all := evaluator.Evaluate(t.Context(), objectOf(t, test.object), []workv1.ConditionRule{test.rule})
				if test.status == "" {
					require.Empty(t, all)
					return
				}
				require.Len(t, all, 1)
				require.Equal(t, test.status, all[0].Status, all[0].Message)
				require.Equal(t, test.reason, all[0].Reason)
				require.Contains(t, all[0].Message, test.message)
				require.Equal(t, test.rule.Condition, all[0].Type)
			}
		})
	}
}

// TestCost: rules that cost too much end, each by itself and all of an object together.
func TestCost(t *testing.T) {
	var numbers []any
	for i := range int64(300) {
		numbers = append(numbers, i)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"kind": "X", "list": numbers}}
	one := New().Evaluate(t.Context(), object, []workv1.ConditionRule{celRule("Dear", `object.list.all(a, object.list.all(b, object.list.all(c, object.list.all(d, true))))`)})
	require.Equal(t, "ConditionRuleExpressionError", one[0].Reason)
	require.Contains(t, one[0].Message, "cost limit")

	dear := celRule("Dear", `object.list.all(a, object.list.all(b, a + b >= 0))`)
	var rules []workv1.ConditionRule
	for range maxRules + 1 {
		rules = append(rules, dear)
	}
	all := New().Evaluate(t.Context(), object, rules)
	require.Equal(t, "ConditionRuleEvaluated", all[0].Reason)
	require.Contains(t, all[maxRules-1].Message, "budget exceeded")
	require.Contains(t, all[maxRules].Message, "limit of 32")
}

func TestAggregate(t *testing.T) {
	of := func(kind string, statuses ...metav1.ConditionStatus) (all [][]metav1.Condition) {
		for _, s := range statuses {
			all = append(all, []metav1.Condition{{Type: kind, Status: s, Message: "said " + string(s)}}, nil)
		}
		return all
	}
	for _, test := range []struct {
		name    string
		in      [][]metav1.Condition
		status  metav1.ConditionStatus
		message string
	}{
		{"one", of("Ready", "True"), "True", "said True"},
		{"all true", of("Ready", "True", "True"), "True", "Aggregated from 2 manifest conditions"},
		{"any false", of("Ready", "True", "False", "Unknown"), "False", "Aggregated from 3 manifest conditions"},
		{"any unknown", of("Ready", "True", "Unknown"), "Unknown", "Aggregated from 2 manifest conditions"},
		{"any that progresses", of("Progressing", "False", "True", "Unknown"), "True", "Aggregated from 3 manifest conditions"},
		{"none that progresses", of("Progressing", "False", "Unknown"), "Unknown", "Aggregated from 2 manifest conditions"},
		{"nothing progresses", of("Progressing", "False", "False"), "False", "Aggregated from 2 manifest conditions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Aggregate(test.in)
			require.Len(t, got, 1)
			require.Equal(t, test.status, got[0].Status)
			require.Equal(t, "ConditionRulesAggregated", got[0].Reason)
			require.Equal(t, test.message, got[0].Message)
		})
	}
	require.Empty(t, Aggregate([][]metav1.Condition{nil, nil}))
	require.Len(t, Aggregate(append(of("B", "True"), of("A", "False")...)), 2)
}

func FuzzEvaluate(f *testing.F) {
	for _, expression := range []string{`object.a == 1`, `hasConditions(object.status)`, `object.list.map(x, [x, x]).map(y, y + y).size() > 3`, `"a".matches("(a+)+$")`, `[[1]].map(a, {a: [a, a]}).map(b, [b, b]) == []`, `"%s".format([object.list])`, `object.list.all(a, object.list.all(b, a != b))`} {
		f.Add(expression, `{"kind":"X","a":1,"list":[1,2,3],"status":{"conditions":[{}]}}`)
	}
	evaluator := New()
	f.Fuzz(func(t *testing.T, expression, text string) {
		object := &unstructured.Unstructured{}
		if len(text) > 4<<10 || object.UnmarshalJSON([]byte(text)) != nil {
			t.Skip()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		all := evaluator.Evaluate(ctx, object, []workv1.ConditionRule{{Condition: "C", Type: workv1.CelConditionExpressionsType, CelExpressions: []string{expression}, MessageExpression: expression}})
		require.NoError(t, ctx.Err())
		require.Len(t, all, 1)
		require.LessOrEqual(t, len(all[0].Message), maxMessageBytes+len(" …"))
	})
}
