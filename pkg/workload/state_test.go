package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestStates has one manifest of generation 3 and what an agent says of it.
func TestStates(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, generation int64, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, Message: message}
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	number, word, truth, raw := int64(2), "Running", true, `{"a":1}`
	meta := workv1.ManifestResourceMeta{Group: "apps", Kind: "Deployment", Namespace: "default", Name: "d"}
	for _, test := range []struct {
		name      string
		meta      workv1.ManifestResourceMeta
		said      []metav1.Condition
		values    []workv1.FeedbackValue
		state     State
		available string
		message   string
		feedback  []string
		well      bool
	}{
		{name: "nothing", meta: meta, state: Pending},
		{name: "of an earlier generation", meta: meta, said: []metav1.Condition{condition("Applied", yes, 2, ""), condition("Available", yes, 2, "")}, state: Pending},
		{name: "of another object", meta: workv1.ManifestResourceMeta{Group: "apps", Kind: "Deployment", Name: "other"}, said: []metav1.Condition{condition("Applied", yes, 3, "")}, state: Pending},
		{name: "at another place", meta: workv1.ManifestResourceMeta{Ordinal: 7, Group: "apps", Kind: "Deployment", Namespace: "default", Name: "d"},
			said: []metav1.Condition{condition("Applied", yes, 3, ""), condition("Available", yes, 3, "")}, state: Applied, available: "True", well: true},
		{name: "applied", meta: meta, said: []metav1.Condition{condition("Applied", yes, 3, "ok")}, state: Applied},
		{name: "available", meta: meta, said: []metav1.Condition{condition("Applied", yes, 3, "ok"), condition("Available", yes, 3, "ok")}, state: Applied, available: "True", well: true},
		{name: "not available", meta: meta, said: []metav1.Condition{condition("Applied", yes, 3, "ok"), condition("Available", no, 3, "gone")}, state: Applied, available: "False", message: "gone"},
		{name: "failed and there", meta: meta, said: []metav1.Condition{condition("Applied", no, 3, "conflict"), condition("Available", yes, 3, "ok")}, state: Failed, available: "True", message: "conflict"},
		{name: "availability unknown", meta: meta, said: []metav1.Condition{condition("Applied", yes, 3, ""), condition("Available", unknown, 3, "who knows")}, state: Applied, available: "Unknown", message: "who knows"},
		{name: "complete", meta: meta, said: []metav1.Condition{condition("Applied", yes, 3, ""), condition("Complete", yes, 3, "")}, state: Complete, well: true},
		{name: "fed back", meta: meta, said: []metav1.Condition{condition("Applied", yes, 3, ""), condition("Available", yes, 3, ""), condition("StatusFeedbackSynced", no, 0, "no such path")},
			values: []workv1.FeedbackValue{{Name: "Replicas", Value: workv1.FieldValue{Integer: &number}}, {Name: "Phase", Value: workv1.FieldValue{String: &word}},
				{Name: "Ok", Value: workv1.FieldValue{Boolean: &truth}}, {Name: "Raw", Value: workv1.FieldValue{JsonRaw: &raw}}},
			state: Applied, available: "True", message: "no such path", feedback: []string{"Replicas=2", "Phase=Running", "Ok=true", `Raw={"a":1}`}, well: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Generation: 3}}
			o, err := parse("f", []byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}"))
			require.NoError(t, err)
			work.Spec.Workload.Manifests = []workv1.Manifest{o[0].Manifest()}
			work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{ResourceMeta: test.meta, Conditions: test.said, StatusFeedbacks: workv1.StatusFeedbackResult{Values: test.values}}}
			states := States(work)
			require.Len(t, states, 1)
			require.Equal(t, "Deployment d", states[0].String())
			require.Equal(t, test.state, states[0].State)
			require.Equal(t, test.available, states[0].Available)
			require.Equal(t, test.message, states[0].Message)
			require.Equal(t, test.feedback, states[0].Feedback)
			require.Equal(t, test.well, states[0].well())
		})
	}
}

func TestStatesOfWhatIsNoObject(t *testing.T) {
	work := &workv1.ManifestWork{}
	m := workv1.Manifest{}
	m.Raw = []byte(`"text"`)
	work.Spec.Workload.Manifests = []workv1.Manifest{m}
	states := States(work)
	require.Equal(t, Failed, states[0].State)
	require.Equal(t, "manifest 0", states[0].String())
}

func TestDeleting(t *testing.T) {
	work := &workv1.ManifestWork{}
	require.Equal(t, "the hub has not removed it yet", Deleting(work))
	work.Finalizers = []string{"a", "b"}
	require.Contains(t, Deleting(work), "it is held by a, b")
	work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkDeleting, Message: "2 objects are left"}}
	require.Equal(t, "2 objects are left", Deleting(work))
}

// TestWish is what of a manifest is asked of a cluster.
func TestWish(t *testing.T) {
	objects, err := parse("f", []byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, uid: u, resourceVersion: "1", managedFields: [], ownerReferences: []},
  spec: {strategy: null, replicas: 0, template: {spec: {affinity: null, containers: [{name: c, resources: {}, args: null}]}}}, status: {replicas: 3}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d"},
		"spec": map[string]any{"replicas": int64(0), "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "resources": map[string]any{}}}}}},
	}, wish(objects[0].Content))

	objects, err = parse("f", []byte(`{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: hey}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": "aGV5"}, wish(objects[0].Content)["data"], "as the agent applies it")
}
