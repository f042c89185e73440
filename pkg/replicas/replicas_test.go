package replicas

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
)

func TestLabelValuesAreValidAndDiffer(t *testing.T) {
	long := strings.Repeat("a", 100)
	values := map[string]string{}
	for what, value := range map[string]string{
		"short":            SetValue("default", "web"),
		"dots":             SetValue("default", "web.v1.2"),
		"longest as it is": SetValue("n", strings.Repeat("a", 61)),
		"one too long":     SetValue("n", strings.Repeat("a", 62)),
		"long":             SetValue("default", long),
		"longer":           SetValue("default", long+"a"),
		"cut at a dot":     SetValue("n", strings.Repeat("a", 49)+"."+long),
		"placement":        PlacementValue(long),
	} {
		require.Empty(t, validation.IsValidLabelValue(value), "%s: %s", what, value)
		require.NotContains(t, values, value, "%s is as %s", what, values[value])
		values[value] = what
	}
	require.Equal(t, "default.web", SetValue("default", "web"), "upstream's")
	require.Equal(t, "default.web.v1.2", SetValue("default", "web.v1.2"))
}

func TestWorkNames(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1"}}
	name := WorkName(set, "p", 0)
	require.Regexp(t, "^web.{5}$", name)
	require.Equal(t, name, WorkName(set, "p", 0))
	require.NotEqual(t, name, WorkName(set, "q", 0), "another placement")
	require.NotEqual(t, name, WorkName(set, "p", 1), "another attempt")
	again := set.DeepCopy()
	again.UID = "u2"
	require.NotEqual(t, name, WorkName(again, "p", 0), "a set that was made anew")
	again.Name = strings.Repeat("a", 57) + "." + strings.Repeat("b", 100)
	require.Empty(t, validation.IsDNS1123Subdomain(WorkName(again, "p", 0)))
	require.Len(t, WorkName(again, "p", 0), 63)
}

func TestHasContent(t *testing.T) {
	for _, test := range []struct {
		name, stored, intended string
		generation             int64
		want                   bool
	}{
		{"as it is wanted", "w", "", 1, true},
		{"as it is wanted, though something else was given", "w", "x 1", 1, true},
		{"another", "x", "", 1, false},
		{"another, as a policy made it", "x", "w 3", 3, true},
		{"another, and a policy kept it as it was", "x", "w 3", 2, true},
		{"another, changed since", "x", "w 3", 4, false},
		{"another, as a policy made it of another", "x", "y 3", 3, false},
		{"no generation", "x", "w", 1, false},
		{"nothing intended", "x", "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := &metav1.ObjectMeta{Generation: test.generation, Annotations: map[string]string{IntendedAnnotation: test.intended}}
			require.Equal(t, test.want, HasContent(work, test.stored, "w"))
		})
	}
	work := &metav1.ObjectMeta{Generation: 2}
	require.False(t, HasContent(work, "x", ""))
	Intend(work, "w", 2)
	require.True(t, HasContent(work, "x", "w"))
}

func TestStatusOf(t *testing.T) {
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 5, 1, 12, 0, seconds, 0, time.UTC))
	}
	is := func(kind string, status metav1.ConditionStatus, generation int64, second int) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, LastTransitionTime: at(second)}
	}
	const yes, no, applied, available, progressing, degraded = metav1.ConditionTrue, metav1.ConditionFalse, workv1.WorkApplied, workv1.WorkAvailable, workv1.WorkProgressing, workv1.WorkDegraded
	rules := []workv1.ManifestConfigOption{{ConditionRules: []workv1.ConditionRule{{Condition: progressing}}}}
	for _, test := range []struct {
		name       string
		other      bool // content
		rules      []workv1.ManifestConfigOption
		conditions []metav1.Condition
		want       rollout.State
		since      int
	}{
		{"old content", true, nil, []metav1.Condition{is(applied, yes, 2, 5), is(available, yes, 2, 6)}, rollout.ToApply, -1},
		{"nothing said", false, nil, nil, rollout.Progressing, 3},
		{"said of the old generation", false, nil, []metav1.Condition{is(applied, yes, 1, 1), is(available, yes, 1, 1)}, rollout.Progressing, 3},
		{"applied", false, nil, []metav1.Condition{is(applied, yes, 2, 5)}, rollout.Progressing, 5},
		{"applied, availability of the old", false, nil, []metav1.Condition{is(applied, yes, 2, 5), is(available, yes, 1, 9)}, rollout.Progressing, 5},
		{"applied and available", false, nil, []metav1.Condition{is(applied, yes, 2, 5), is(available, yes, 2, 6)}, rollout.Succeeded, 6},
		{"succeeded as before", false, nil, []metav1.Condition{is(applied, yes, 2, 1), is(available, yes, 2, 1)}, rollout.Succeeded, 3},
		{"cannot be applied", false, nil, []metav1.Condition{is(applied, no, 2, 5), is(available, yes, 2, 6)}, rollout.Failed, 5},
		{"could not be applied before", false, nil, []metav1.Condition{is(applied, no, 1, 1)}, rollout.Progressing, 3},
		{"degraded without rules of progress", false, nil, []metav1.Condition{is(applied, yes, 2, 4), is(degraded, yes, 2, 7), is(available, yes, 2, 5)}, rollout.Failed, 7},
		{"rules, nothing said by them", false, rules, []metav1.Condition{is(applied, yes, 2, 5), is(available, yes, 2, 6)}, rollout.Progressing, 5},
		{"rules, progressing", false, rules, []metav1.Condition{is(applied, yes, 2, 5), is(progressing, yes, 2, 6)}, rollout.Progressing, 6},
		{"rules, done", false, rules, []metav1.Condition{is(applied, yes, 2, 5), is(progressing, no, 2, 6)}, rollout.Succeeded, 6},
		{"rules, degraded", false, rules, []metav1.Condition{is(applied, yes, 2, 5), is(progressing, yes, 2, 6), is(degraded, yes, 2, 8)}, rollout.Failed, 8},
		{"rules, degraded before", false, rules, []metav1.Condition{is(applied, yes, 2, 5), is(progressing, no, 2, 6), is(degraded, yes, 1, 8)}, rollout.Progressing, 5},
		{"rules, cannot be applied", false, rules, []metav1.Condition{is(applied, no, 2, 5), is(progressing, no, 2, 6)}, rollout.Progressing, 5},
		{"rules, cannot be applied and degraded", false, rules, []metav1.Condition{is(applied, no, 2, 5), is(progressing, yes, 2, 6), is(degraded, yes, 2, 8)}, rollout.Progressing, 5},
		{"somebody says it is progressing, cannot be applied", false, nil, []metav1.Condition{is(applied, no, 2, 5), is(progressing, yes, 2, 6)}, rollout.Progressing, 5},
		{"somebody says it is done", false, nil, []metav1.Condition{is(applied, yes, 2, 5), is(progressing, no, 2, 6)}, rollout.Succeeded, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			template := &workv1.ManifestWorkSpec{ManifestConfigs: test.rules}
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{WrittenAnnotation: at(3).UTC().Format(time.RFC3339)}}, Spec: *template.DeepCopy()}
			if test.other {
				work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
			}
			work.Status.Conditions = test.conditions
			got := StatusOf(work, template)
			require.Equal(t, test.want, got.State)
			if test.since >= 0 {
				require.Equal(t, at(test.since).UTC(), got.Since.UTC())
			}
		})
	}
}
