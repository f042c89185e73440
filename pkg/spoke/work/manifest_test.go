package work

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

func workOf(texts ...string) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Generation: 3}}
	for _, text := range texts {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	return work
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, meta.RESTScopeRoot)
	return m
}

func TestDecode(t *testing.T) {
	for _, test := range []struct{ name, in, want, namespace, err string }{
		{"as it is", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"data":{"a":"b"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"data":{"a":"b"}}`, "n", ""},
		{"numbers stay numbers", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"x":{"big":9007199254740993,"half":0.5}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"x":{"big":9007199254740993,"half":0.5}}`, "n", ""},
		{"nulls go", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n","creationTimestamp":null},"x":{"y":null,"z":[{"q":null}]}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"x":{"z":[{}]}}`, "n", ""},
		{"what the server decides goes", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n","uid":"u","resourceVersion":"1","generation":2,"managedFields":[]},"status":{"x":1}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"}}`, "n", ""},
		{"no namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"default"}}`, "default", ""},
		{"namespace of what has none", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r","namespace":"n"}}`,
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"}}`, "", ""},
		{"unknown kind", `{"apiVersion":"v1","kind":"Nothing","metadata":{"name":"m"}}`, ``, "", "does not serve /v1, Kind=Nothing"},
		{"no object", `[]`, ``, "", "manifest 0 cannot be decoded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := decode(workOf(test.in))[0]
			m.resolve(mapper())
			if test.err != "" {
				require.ErrorContains(t, m.err, test.err)
				return
			}
			require.NoError(t, m.err)
			got, err := json.Marshal(m.object.Object)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(got))
			require.Equal(t, test.namespace, m.key().namespace)
		})
	}
}

func TestOrder(t *testing.T) {
	work := workOf()
	for _, kind := range []string{"Widget", "Deployment", "APIService", "ConfigMap", "Service", "Role", "CustomResourceDefinition", "ServiceAccount", "Namespace", "Gadget"} {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests,
			workOf(`{"apiVersion":"v1","kind":"`+kind+`","metadata":{"name":"x"}}`).Spec.Workload.Manifests...)
	}
	var got []string
	for _, m := range inOrder(decode(work)) {
		got = append(got, m.object.GetKind())
	}
	require.Equal(t, []string{"CustomResourceDefinition", "Namespace", "Role", "ServiceAccount", "ConfigMap", "Service", "Deployment", "APIService", "Widget", "Gadget"}, got)
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, value string
		want           bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"*", "abc", true},
		{"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abc", true}, {"a*d", "abc", false}, {"*b*", "abc", true}, {"a", "aa", false},
	} {
		require.Equal(t, test.want, matches(test.pattern, test.value), "%q %q", test.pattern, test.value)
	}
}

func TestConfigIsOfTheFirstEntryThatSetsIt(t *testing.T) {
	work := workOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"}}`)
	identify := func(name string) workv1.ResourceIdentifier {
		return workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "n", Name: name}
	}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{
		{ResourceIdentifier: identify("other"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}},
		{ResourceIdentifier: identify("m"), FeedbackRules: []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}}},
		{ResourceIdentifier: identify("*"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}},
		{ResourceIdentifier: identify("m"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}},
	}
	m := decode(work)[0]
	m.resolve(mapper())
	c := configFor(work, m)
	require.Equal(t, workv1.UpdateStrategyTypeCreateOnly, c.UpdateStrategy.Type)
	require.Len(t, c.FeedbackRules, 1)
}

func TestOwned(t *testing.T) {
	rule := workv1.OrphaningRule{Resource: "configmaps", Namespace: "n", Name: "m"}
	for _, test := range []struct {
		name   string
		option *workv1.DeleteOption
		want   bool
	}{
		{"no option", nil, true},
		{"foreground", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}, true},
		{"orphan", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}, false},
		{"orphan this", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
			SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{rule}}}, false},
		{"orphan another", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
			SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "n", Name: "x"}}}}, true},
		{"orphan without rules", &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := workOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"}}`)
			work.Spec.DeleteOption = test.option
			m := decode(work)[0]
			m.resolve(mapper())
			require.Equal(t, test.want, owned(work, m))
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":null}}`))
	f.Add([]byte(`{"a":[[[[[[[[[[{}]]]]]]]]]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range inOrder(decode(workOf(string(raw)))) {
			m.resolve(mapper())
			require.True(t, m.err != nil || m.gvr.Resource != "")
		}
	})
}

func TestRemovalRank(t *testing.T) {
	resource := func(group, name string) workv1.AppliedManifestResourceMeta {
		return workv1.AppliedManifestResourceMeta{ResourceIdentifier: workv1.ResourceIdentifier{Group: group, Resource: name}}
	}
	order := []workv1.AppliedManifestResourceMeta{resource("", "namespaces"), resource("apiextensions.k8s.io", "customresourcedefinitions"), resource("apps", "deployments")}
	require.True(t, slices.IsSortedFunc(order, func(a, b workv1.AppliedManifestResourceMeta) int { return removalRank(a) - removalRank(b) }))
	require.Equal(t, removalRank(resource("example.com", "namespaces")), removalRank(order[2]), "another group's kind of that name")
}
