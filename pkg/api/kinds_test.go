package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"
)

// send passes a create of the object through the gate, as the API server's handler chain does. It returns the refusal,
// and whether the request went on to be decoded.
func send(t *testing.T, a *API, text string) (refusal metav1.Status, passed bool) {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	definition, ok := a.definitions[object.GroupVersionKind()]
	require.True(t, ok, "kind %s is not served", object.GroupVersionKind())
	body, err := json.Marshal(object.Object)
	require.NoError(t, err)

	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{
		IsResourceRequest: true, Verb: "create",
		APIGroup: definition.Kind.Group, APIVersion: definition.Kind.Version, Resource: definition.Names.Plural,
	}))
	w := httptest.NewRecorder()
	a.Gate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })).ServeHTTP(w, r)
	if !passed {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &refusal))
	}
	return refusal, passed
}

// TestRefusals shows for every kind what its definition refuses, and in which words.
func TestRefusals(t *testing.T) {
	a, err := New()
	require.NoError(t, err)
	covered := map[runtimeschema.GroupVersionKind]bool{}
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(test.object), &object.Object))
			covered[object.GroupVersionKind()] = true
			refusal, passed := send(t, a, test.object)
			if test.want == "" {
				require.True(t, passed, refusal.Message)
				return
			}
			require.False(t, passed, "not refused")
			require.EqualValues(t, http.StatusUnprocessableEntity, refusal.Code)
			require.Contains(t, refusal.Message, test.want)
		})
	}
	for gvk := range a.definitions {
		require.True(t, covered[gvk], "no row shows what %s refuses", gvk)
	}
}

var refusals = []struct {
	name   string
	object string
	want   string // part of the refusal; empty where the object is good
}{
	{"cluster: good", `
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1}
spec: {hubAcceptsClient: true}`, ""},
	{"cluster: effect of a taint", `
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1}
spec: {taints: [{key: k, effect: Sometimes}]}`,
		`spec.taints[0].effect: Unsupported value: "Sometimes": supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"`},
	{"cluster: taint without a key", `
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1}
spec: {taints: [{effect: NoSelect}]}`, `spec.taints[0].key: Required value`},
	{"cluster: type of a field", `
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1}
spec: {leaseDurationSeconds: soon}`,
		`spec.leaseDurationSeconds: Invalid value: "string": spec.leaseDurationSeconds in body must be of type integer: "string"`},
	{"set: type of selector", `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: s}
spec: {clusterSelector: {selectorType: Any}}`, `spec.clusterSelector.selectorType: Unsupported value: "Any"`},
	{"binding: empty set", `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: s, namespace: n}
spec: {clusterSet: ""}`, `spec.clusterSet: Invalid value: "": spec.clusterSet in body should be at least 1 chars long`},
	{"placement: weight too high", `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: p, namespace: n}
spec: {prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: 11}]}}`,
		`spec.prioritizerPolicy.configurations[0].weight: Invalid value: 11: spec.prioritizerPolicy.configurations[0].weight in body should be less than or equal to 10`},
	{"placement: weight of 0 is good", `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: p, namespace: n}
spec: {prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: 0}]}}`, ""},
	{"decision: no name of a cluster", `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata: {name: d, namespace: n}
status: {decisions: [{reason: ""}]}`, ""}, // a status is dropped on create, so it is not looked at
	{"score: good", `
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: AddOnPlacementScore
metadata: {name: s, namespace: n}`, ""},
	{"work: field manager", `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: n}
spec:
  workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: d}}]}
  manifestConfigs:
  - resourceIdentifier: {group: "", resource: configmaps, name: m, namespace: d}
    updateStrategy: {type: ServerSideApply, serverSideApply: {fieldManager: me}}`,
		`fieldManager in body should match '^work-agent'`},
	{"work: CEL rule without a condition", `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: n}
spec:
  workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: d}}]}
  manifestConfigs:
  - resourceIdentifier: {group: "", resource: configmaps, name: m, namespace: d}
    conditionRules: [{type: CEL, condition: "", celExpressions: ["true"]}]`, `Condition is required for CEL rules`},
	{"work: manifest without a kind", `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: n}
spec: {workload: {manifests: [{apiVersion: v1, metadata: {name: m}}]}}`, `spec.workload.manifests[0].kind: Required value`},
	{"replica set: cascade policy", `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: r, namespace: n}
spec: {cascadeDeletionPolicy: Never, placementRefs: [{name: p}], manifestWorkTemplate: {workload: {manifests: []}}}`,
		`spec.cascadeDeletionPolicy: Unsupported value: "Never"`},
	{"replica set: no placement", `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: r, namespace: n}
spec: {manifestWorkTemplate: {workload: {manifests: []}}}`, `spec.placementRefs: Required value`},
	{"add-on v1alpha1: install strategy", `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: a}
spec: {installStrategy: {type: Everywhere}}`, `spec.installStrategy.type: Unsupported value: "Everywhere": supported values: "Manual", "Placements"`},
	{"add-on v1beta1: default configuration without a name", `
apiVersion: addon.open-cluster-management.io/v1beta1
kind: ClusterManagementAddOn
metadata: {name: a}
spec: {defaultConfigs: [{group: g, resource: r}]}`, `spec.defaultConfigs[0].name: Required value`},
	{"cluster's add-on v1alpha1: install namespace", `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: a, namespace: n}
spec: {installNamespace: "No Such"}`, `spec.installNamespace: Invalid value: "No Such": spec.installNamespace in body should match`},
	{"cluster's add-on v1beta1: configuration without a resource", `
apiVersion: addon.open-cluster-management.io/v1beta1
kind: ManagedClusterAddOn
metadata: {name: a, namespace: n}
spec: {configs: [{name: c}]}`, `spec.configs[0].resource: Required value`},
	{"deployment config v1alpha1: name of a variable", `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnDeploymentConfig
metadata: {name: a, namespace: n}
spec: {customizedVariables: [{name: "1", value: x}]}`, `spec.customizedVariables[0].name: Invalid value: "1"`},
	{"deployment config v1beta1: name of a variable", `
apiVersion: addon.open-cluster-management.io/v1beta1
kind: AddOnDeploymentConfig
metadata: {name: a, namespace: n}
spec: {customizedVariables: [{name: "1", value: x}]}`, `spec.customizedVariables[0].name: Invalid value: "1"`},
	{"template: no name", `
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: a}
spec: {agentSpec: {workload: {manifests: []}}}`, `spec.addonName: Required value`},
}
