package work

import (
	"errors"
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

// outcomes are results for the manifests of a work, in the reverse order, as they may well come.
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
		all = append([]result{r}, all...)
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
			next := status(test.work, outcomes(test.work, test.change...))
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
	work.Status = status(work, outcomes(work))
	for i := range work.Status.ResourceStatus.Manifests {
		for j := range work.Status.ResourceStatus.Manifests[i].Conditions {
			work.Status.ResourceStatus.Manifests[i].Conditions[j].LastTransitionTime = long
		}
	}
	meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{Type: "Mine", Status: metav1.ConditionTrue, Reason: "R"})

	work.Spec.Workload.Manifests = workOf(two).Spec.Workload.Manifests
	next := status(work, outcomes(work))
	require.Len(t, next.ResourceStatus.Manifests, 1)
	require.Equal(t, "two", next.ResourceStatus.Manifests[0].ResourceMeta.Name)
	for _, c := range next.ResourceStatus.Manifests[0].Conditions {
		require.Equal(t, long, c.LastTransitionTime, c.Type)
	}
	require.NotNil(t, meta.FindStatusCondition(next.Conditions, "Mine"))
}

// TestNothingIsIgnored: what this agent cannot do, it says.
func TestNothingIsIgnored(t *testing.T) {
	ttl := int64(1)
	for _, test := range []struct {
		name   string
		change func(*workv1.ManifestWork)
		want   string
	}{
		{"executor", func(w *workv1.ManifestWork) { w.Spec.Executor = &workv1.ManifestWorkExecutor{} }, "spec.executor"},
		{"time to live", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: &ttl}
		}, "ttlSecondsAfterFinished"},
		{"feedback", func(w *workv1.ManifestWork) {
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{FeedbackRules: []workv1.FeedbackRule{{}}}}
		}, "feedbackRules"},
		{"conditions", func(w *workv1.ManifestWork) {
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ConditionRules: []workv1.ConditionRule{{}}}}
		}, "conditionRules"},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := workOf(one)
			test.change(work)
			c := meta.FindStatusCondition(status(work, outcomes(work)).Conditions, conditionSupported)
			require.NotNil(t, c)
			require.Equal(t, metav1.ConditionFalse, c.Status)
			require.Contains(t, c.Message, test.want)
		})
	}
}
