package work

import (
	"encoding/json"
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
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Boat"}, meta.RESTScopeNamespace)
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
		{"nulls in lists of built-in kinds go", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"x":[null,1,null]}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"},"x":[1]}`, "n", ""},
		{"nulls in lists of custom resources may be values", `{"apiVersion":"example.test/v1","kind":"Boat","metadata":{"name":"m","namespace":"n"},"x":[null,{"y":null}]}`,
			`{"apiVersion":"example.test/v1","kind":"Boat","metadata":{"name":"m","namespace":"n"},"x":[null,{}]}`, "n", ""},
		{"what is empty stays", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n","labels":{}},"x":[],"y":""}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n","labels":{}},"x":[],"y":""}`, "n", ""},
		{"a secret's texts become data", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"m","namespace":"n"},"data":{"a":"eA==","b":"eA=="},"stringData":{"a":"hey"}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"m","namespace":"n"},"data":{"a":"aGV5","b":"eA=="}}`, "n", ""},
		{"owners stay", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n","ownerReferences":[{"uid":"u"}]}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n","ownerReferences":[{"uid":"u"}]}}`, "n", ""},
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
			require.Equal(t, test.namespace, m.id().Namespace)
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
	for _, group := range inRanks(decode(work)) {
		for _, m := range group {
			got = append(got, m.object.GetKind())
		}
	}
	require.Equal(t, []string{"CustomResourceDefinition", "Namespace", "Role", "ServiceAccount", "ConfigMap", "Service", "Deployment", "APIService", "Widget", "Gadget"}, got)
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
	c := read(work, mapper())[0].config
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
			require.Equal(t, test.want, read(work, mapper())[0].owned)
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":null}}`))
	f.Add([]byte(`{"a":[[[[[[[[[[{}]]]]]]]]]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range read(workOf(string(raw)), mapper()) {
			require.True(t, m.err != nil || m.gvr.Resource != "")
		}
	})
}

func TestRemovalGoesInWaves(t *testing.T) {
	object := func(group, resource, name string) workv1.AppliedManifestResourceMeta {
		return workv1.AppliedManifestResourceMeta{ResourceIdentifier: identity{Group: group, Resource: resource, Name: name}}
	}
	ns, crd, role := object("", "namespaces", "n"), object("apiextensions.k8s.io", "customresourcedefinitions", "c"), object("rbac.authorization.k8s.io", "roles", "r")
	boat, deployment, other := object("example.test", "boats", "b"), object("apps", "deployments", "d"), object("example.test", "namespaces", "x")
	for _, test := range []struct {
		name string
		in   []workv1.AppliedManifestResourceMeta
		want [][]workv1.AppliedManifestResourceMeta
	}{
		{"nothing", nil, [][]workv1.AppliedManifestResourceMeta{}},
		{"custom resources before what they need", []workv1.AppliedManifestResourceMeta{ns, crd, deployment, boat}, [][]workv1.AppliedManifestResourceMeta{{boat}, {deployment}, {crd}, {ns}}},
		{"no definition", []workv1.AppliedManifestResourceMeta{ns, role, deployment}, [][]workv1.AppliedManifestResourceMeta{{role, deployment}, {ns}}},
		{"another group's kind of that name", []workv1.AppliedManifestResourceMeta{ns, other}, [][]workv1.AppliedManifestResourceMeta{{other}, {ns}}},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, inWaves(test.in)) })
	}
}

// TestOneObjectTwice: an object that a work lists under two versions of its API is one object; the last one counts.
func TestOneObjectTwice(t *testing.T) {
	hpa := func(version string) string {
		return `{"apiVersion":"autoscaling/` + version + `","kind":"HorizontalPodAutoscaler","metadata":{"name":"h","namespace":"n"}}`
	}
	all := read(workOf(hpa("v1"), one, hpa("v2")), mapper())
	require.Same(t, all[2], all[0].instead)
	require.Nil(t, all[1].instead)
	require.Nil(t, all[2].instead)
}
