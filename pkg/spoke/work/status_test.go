package work

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	one = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"n"}}`
	two = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two","namespace":"n"}}`
)

// outcomes are results for the manifests of a work.
func outcomes(work *workv1.ManifestWork, change ...func(*result)) []result {
	var all []result
	for i, m := range decode(work) {
		m.resolve(mapper())
		r := result{manifest: m, exists: true, uid: "u", err: m.err}
		if m.err != nil {
			r.exists = false
		}
		if i < len(change) && change[i] != nil {
			change[i](&r)
		}
		all = append(all, r)
	}
	return all
}

func TestStatus(t *testing.T) {
	failed := func(r *result) { r.err = errors.New("field is immutable") }
	absent := func(r *result) { r.err, r.exists = errors.New("namespace n not found"), false }
	for _, test := range []struct {
		name               string
		work               *workv1.ManifestWork
		change             []func(*result)
		applied, available metav1.ConditionStatus
		reason, message    string // of Available
	}{
		{"all applied", workOf(one, two), nil, metav1.ConditionTrue, metav1.ConditionTrue, "ResourcesAvailable", "All resources are available"},
		{"one cannot be changed, and is there", workOf(one, two), []func(*result){failed}, metav1.ConditionFalse, metav1.ConditionTrue, "ResourcesAvailable", "All resources are available"},
		{"one is not there", workOf(one, two), []func(*result){nil, absent}, metav1.ConditionFalse, metav1.ConditionFalse, "ResourcesNotAvailable", "1 of 2 resources are not available"},
		{"one of an unknown kind", workOf(one, `{"apiVersion":"v1","kind":"Nothing","metadata":{"name":"x"}}`), nil,
			metav1.ConditionFalse, metav1.ConditionUnknown, "ResourcesStatusUnknown", "1 of 2 resources have unknown status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := status(test.work, test.work.Status, outcomes(test.work, test.change...), time.Now())
			applied := meta.FindStatusCondition(next.Conditions, workv1.WorkApplied)
			available := meta.FindStatusCondition(next.Conditions, workv1.WorkAvailable)
			require.Equal(t, test.applied, applied.Status)
			require.Equal(t, test.available, available.Status)
			require.Equal(t, test.reason, available.Reason)
			require.Equal(t, test.message, available.Message)
			require.EqualValues(t, 3, applied.ObservedGeneration)
			require.EqualValues(t, 3, available.ObservedGeneration)
			require.Nil(t, meta.FindStatusCondition(next.Conditions, conditionSupported))
			for i, m := range next.ResourceStatus.Manifests {
				require.EqualValues(t, i, m.ResourceMeta.Ordinal, "manifests stand in the order of the spec")
			}
		})
	}
}

func TestStatusKeepsWhatDidNotChange(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	work := workOf(one, two)
	work.Status = status(work, work.Status, outcomes(work), time.Now())
	for i := range work.Status.ResourceStatus.Manifests {
		for j := range work.Status.ResourceStatus.Manifests[i].Conditions {
			work.Status.ResourceStatus.Manifests[i].Conditions[j].LastTransitionTime = long
		}
	}
	meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{Type: "Mine", Status: metav1.ConditionTrue, Reason: "R"})

	work.Spec.Workload.Manifests = workOf(two).Spec.Workload.Manifests
	next := status(work, work.Status, outcomes(work), time.Now())
	require.Len(t, next.ResourceStatus.Manifests, 1)
	require.Equal(t, "two", next.ResourceStatus.Manifests[0].ResourceMeta.Name)
	for _, c := range next.ResourceStatus.Manifests[0].Conditions {
		require.Equal(t, long, c.LastTransitionTime, c.Type)
	}
	require.NotNil(t, meta.FindStatusCondition(next.Conditions, "Mine"))
}

// TestRules: what an object says about itself by the work's rules, in the status.
func TestRules(t *testing.T) {
	old := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	value := func(n int64) []workv1.FeedbackValue {
		return []workv1.FeedbackValue{{Name: "n", Value: workv1.FieldValue{Type: workv1.Integer, Integer: &n}}}
	}
	rule := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "ConditionRuleEvaluated", Message: "m"}
	}
	with := func(f findings, done bool) func(*result) {
		return func(r *result) { r.findings, r.done = &f, done }
	}
	gone := func(r *result) { r.exists, r.done, r.findings = false, true, &findings{missing: true} }
	for _, test := range []struct {
		name   string
		first  func(*result)
		then   func(*result)
		check  string // a condition of the manifest
		want   metav1.ConditionStatus
		reason string
		moved  bool // its transition time is new
	}{
		{"no rules", nil, nil, "StatusFeedbackSynced", metav1.ConditionTrue, "NoStatusFeedbackSynced", false},
		{"values are the same", with(findings{wanted: true, values: value(1)}, false), with(findings{wanted: true, values: value(1)}, false), "StatusFeedbackSynced", metav1.ConditionTrue, "StatusFeedbackSynced", false},
		{"values change", with(findings{wanted: true, values: value(1)}, false), with(findings{wanted: true, values: value(2)}, false), "StatusFeedbackSynced", metav1.ConditionTrue, "StatusFeedbackSynced", true},
		{"a value cannot be had", nil, with(findings{wanted: true, values: value(1), feedback: "too long"}, false), "StatusFeedbackSynced", metav1.ConditionFalse, "StatusFeedbackSyncFailed", true},
		{"a rule holds", nil, with(findings{conditions: []metav1.Condition{rule("Ready", metav1.ConditionTrue)}}, false), "Ready", metav1.ConditionTrue, "ConditionRuleEvaluated", true},
		{"a rule still holds", with(findings{conditions: []metav1.Condition{rule("Ready", metav1.ConditionTrue)}}, false), with(findings{conditions: []metav1.Condition{rule("Ready", metav1.ConditionTrue)}}, false), "Ready", metav1.ConditionTrue, "ConditionRuleEvaluated", false},
		{"a rule that is gone", with(findings{conditions: []metav1.Condition{rule("Ready", metav1.ConditionTrue)}}, false), with(findings{}, false), "Ready", "", "", false},
		{"a rule says when it is available", with(findings{conditions: []metav1.Condition{rule("Available", metav1.ConditionFalse)}}, false), with(findings{conditions: []metav1.Condition{rule("Available", metav1.ConditionFalse)}}, false), "Available", metav1.ConditionFalse, "ConditionRuleEvaluated", false},
		{"no rule says when it is applied", with(findings{conditions: []metav1.Condition{rule("Applied", metav1.ConditionFalse)}}, false), with(findings{conditions: []metav1.Condition{rule("Applied", metav1.ConditionFalse)}}, false), "Applied", metav1.ConditionTrue, "AppliedManifestComplete", false},
		{"complete and gone", with(findings{conditions: []metav1.Condition{rule("Complete", metav1.ConditionTrue)}}, true), gone, "Complete", metav1.ConditionTrue, "ConditionRuleEvaluated", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := workOf(one)
			before := status(work, work.Status, outcomes(work, test.first), old.Time)
			next := status(work, before, outcomes(work, test.then), time.Now())
			c := meta.FindStatusCondition(next.ResourceStatus.Manifests[0].Conditions, test.check)
			if test.want == "" {
				require.Nil(t, c)
				return
			}
			require.NotNil(t, c)
			require.Equal(t, test.want, c.Status)
			require.Equal(t, test.reason, c.Reason)
			require.Equal(t, test.moved, !c.LastTransitionTime.Equal(&old))
		})
	}
}

// TestValuesOfAWork together are bounded; those that fit are told.
func TestValuesOfAWork(t *testing.T) {
	text := strings.Repeat("x", maxValuesBytes/2)
	found := func(r *result) {
		r.findings = &findings{wanted: true, values: []workv1.FeedbackValue{{Name: "n", Value: workv1.FieldValue{Type: workv1.String, String: &text}}}}
	}
	work := workOf(one, two)
	next := status(work, work.Status, outcomes(work, found, found), time.Now())
	for i, want := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		m := next.ResourceStatus.Manifests[i]
		c := meta.FindStatusCondition(m.Conditions, conditionFeedback)
		require.Equal(t, want, c.Status)
		require.Equal(t, want == metav1.ConditionTrue, len(m.StatusFeedbacks.Values) == 1)
		if want == metav1.ConditionFalse {
			require.Contains(t, c.Message, "limit of 262144 bytes")
		}
	}
}

// TestNothingIsIgnored: what this agent does not do, it says; and it never reports what would cost the whole status.
func TestNothingIsIgnored(t *testing.T) {
	for _, test := range []struct{ name, condition, reason, message string }{
		{"one of the agent's own", "Applied", "ReservedCondition", `the condition "Applied", which the agent itself sets`},
		{"one of the agent's own, of works", "Deleting", "ReservedCondition", "which the agent itself sets"},
		{"no name", "not a name!", "InvalidCondition", `the condition "not a name!", which cannot be the name of a condition`},
		{"too long", strings.Repeat("x", 400), "InvalidCondition", "cannot be the name of a condition"},
		{"any other", "Sunny", "", ""},
		{"of a domain", "example.test/Sunny", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := workOf(one)
			work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ConditionRules: []workv1.ConditionRule{{Condition: "Ready"}, {Condition: test.condition}}}}
			found := &findings{conditions: []metav1.Condition{{Type: test.condition, Status: metav1.ConditionFalse, Reason: "ConditionRuleEvaluated"}}}
			next := status(work, work.Status, outcomes(work, func(r *result) { r.findings = found }), time.Now())
			c := meta.FindStatusCondition(next.Conditions, conditionSupported)
			ruled := meta.FindStatusCondition(next.ResourceStatus.Manifests[0].Conditions, test.condition)
			if test.reason == "" {
				require.Nil(t, c)
				require.NotNil(t, ruled)
				return
			}
			require.NotNil(t, c)
			require.Equal(t, metav1.ConditionFalse, c.Status)
			require.Equal(t, test.reason, c.Reason)
			require.Contains(t, c.Message, test.message)
			require.True(t, ruled == nil || ruled.Reason != "ConditionRuleEvaluated")
			aggregated := meta.FindStatusCondition(next.Conditions, test.condition)
			require.True(t, aggregated == nil || aggregated.Reason != "ConditionRulesAggregated")
		})
	}
}
