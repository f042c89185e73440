package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func namespace(ctx context.Context, t *testing.T, s *server, name string) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return kube
}

// TestAppliedWorks is api-76: GitOps tools apply works again and again, some with an empty status, while the agent writes
// the real one.
func TestAppliedWorks(t *testing.T) {
	s, client, ctx := start(t)
	namespace(ctx, t, s, "applied-works")
	resource := client.Resource(works).Namespace("applied-works")
	const condition = `{type: Applied, status: "True", reason: AppliedManifestWorkComplete, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`
	work := func(more string) *unstructured.Unstructured {
		return object(t, `{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: ssa-user, namespace: applied-works}, spec: {workload: {manifests: [
			{apiVersion: v1, kind: ConfigMap, metadata: {name: ssa-user, namespace: default}, data: {k: v}}]}}`+more+`}`)
	}
	_, err := resource.Apply(ctx, "ssa-user", work(""), metav1.ApplyOptions{FieldManager: "team-a"})
	require.NoError(t, err)
	status := object(t, `{status: {conditions: [`+condition+`]}, apiVersion: v1, kind: x}`)
	body, err := json.Marshal(map[string]any{"status": status.Object["status"]})
	require.NoError(t, err)
	written, err := resource.Patch(ctx, "ssa-user", types.MergePatchType, body, metav1.PatchOptions{FieldManager: "work-agent"}, "status")
	require.NoError(t, err)

	for _, test := range []struct{ name, more string }{
		{"unchanged", ``},
		{"with an empty status", `, status: {}`},
		{"with an empty list of conditions", `, status: {conditions: []}`},
		{"with another status", `, status: {conditions: [{type: Applied, status: "False", reason: Lie, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`},
		{"with a status of the wrong type", `, status: {conditions: {}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			applied, err := resource.Apply(ctx, "ssa-user", work(test.more), metav1.ApplyOptions{FieldManager: "team-a"})
			if test.name == "with a status of the wrong type" {
				require.False(t, apierrors.IsConflict(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, written.Object["status"], applied.Object["status"])
			require.EqualValues(t, 1, applied.GetGeneration())
			managers := map[string]string{}
			for _, m := range applied.GetManagedFields() {
				managers[m.Manager] += string(m.Operation) + "/" + m.Subresource + " "
				if m.Manager == "team-a" {
					require.NotContains(t, m.FieldsV1.GetRawString(), "f:status")
				}
			}
			require.Equal(t, map[string]string{"team-a": "Apply/ ", "work-agent": "Update/status "}, managers)
		})
	}
}

// TestNumbersSurvive is karmada-3617, the hub's part: what is a number stays that number, digit by digit, whichever way a
// work is written.
func TestNumbersSurvive(t *testing.T) {
	s, _, ctx := start(t)
	kube := namespace(ctx, t, s, "numbers")
	const path = "/apis/work.open-cluster-management.io/v1/namespaces/numbers/manifestworks"
	const spec = `{"small":3,"big":9007199254740993,"neg":-7,"ratio":0.25,"whole":5.0,"text":"007","yes":"yes","flag":true,"percent":"25%","mixed":[1,"1",1.5,true],"nothing":{},"empty":[]}`
	work := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":%q,"namespace":"numbers"},"spec":{"workload":{"manifests":[
			{"apiVersion":"fleet.example.test/v1","kind":"Voyage","metadata":{"name":"types","namespace":"default"},"spec":%s}]}}}`, name, spec)
	}
	created := regexp.MustCompile(`"spec":({"big".*?})}]`)
	const want = `{"big":9007199254740993,"empty":[],"flag":true,"mixed":[1,"1",1.5,true],"neg":-7,"nothing":{},"percent":"25%","ratio":0.25,"small":3,"text":"007","whole":5.0,"yes":"yes"}`
	do := func(t *testing.T, request *rest.Request) (text string, generation int64) {
		t.Helper()
		body, err := request.DoRaw(ctx)
		require.NoError(t, err, string(body))
		found := created.FindSubmatch(body)
		require.NotNil(t, found, string(body))
		var o metav1.PartialObjectMetadata
		require.NoError(t, json.Unmarshal(body, &o))
		return string(found[1]), o.Generation
	}
	client := kube.CoreV1().RESTClient()
	got, _ := do(t, client.Post().AbsPath(path).Body([]byte(work("w", spec))).SetHeader("Content-Type", "application/json"))
	require.Equal(t, want, got)
	for _, test := range []struct {
		name, subresource string
		patch             types.PatchType
		body              string
	}{
		{"merge patch beside them", "", types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`},
		{"JSON patch beside them", "", types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/c","value":"d"}]`},
		{"JSON patch within, and back", "", types.JSONPatchType, `[{"op":"add","path":"/spec/workload/manifests/0/spec/x","value":1},{"op":"remove","path":"/spec/workload/manifests/0/spec/x"}]`},
		{"status", "status", types.MergePatchType, `{"status":{"conditions":[]}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, generation := do(t, client.Patch(test.patch).AbsPath(path, "w", test.subresource).Body([]byte(test.body)))
			require.Equal(t, want, got)
			require.EqualValues(t, 1, generation)
		})
	}
	t.Run("server-side apply", func(t *testing.T) {
		// Kubernetes' merge knows integers of 64 bits and floats. A whole float may lose its ".0", once, and stays a number.
		for range 3 {
			got, generation := do(t, client.Patch(types.ApplyPatchType).AbsPath(path, "applied").Param("fieldManager", "team").Body([]byte(work("applied", spec))))
			require.Regexp(t, `^{"big":9007199254740993,.*"mixed":\[1,"1",1.5,true\],"neg":-7,.*"ratio":0.25,"small":3,"text":"007","whole":5(.0)?,"yes":"yes"}$`, got)
			require.EqualValues(t, 1, generation)
		}
	})
}

// TestRefusedManifests runs what only the whole way from a request's body to admission can show.
func TestRefusedManifests(t *testing.T) {
	s, client, ctx := start(t)
	kube := namespace(ctx, t, s, "refused")
	for _, test := range []struct{ name, manifests, want string }{
		{"a number that no machine has", `[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":1e999999}]`, "number 1e999999 is out of range"},
		{"null", `[null]`, "manifests"},
		{"text", `["kind: ConfigMap"]`, "manifests"},
		{"a list of objects", `[{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}]`, "name must be set in manifest"},
		{"nothing", `[]`, "manifests should not be empty"},
	} {
		for _, kind := range []struct{ resource, kind, version, spec string }{
			{"manifestworks", "ManifestWork", "v1", `{"workload":{"manifests":%s}}`},
			{"manifestworkreplicasets", "ManifestWorkReplicaSet", "v1alpha1", `{"placementRefs":[{"name":"p"}],"manifestWorkTemplate":{"workload":{"manifests":%s}}}`},
		} {
			t.Run(kind.kind+" with "+test.name, func(t *testing.T) {
				body := fmt.Sprintf(`{"apiVersion":"work.open-cluster-management.io/%s","kind":%q,"metadata":{"name":"refused"},"spec":`+kind.spec+`}`, kind.version, kind.kind, test.manifests)
				var code int
				err := kube.CoreV1().RESTClient().Post().AbsPath("/apis/work.open-cluster-management.io", kind.version, "namespaces/refused", kind.resource).
					Body([]byte(body)).SetHeader("Content-Type", "application/json").Do(ctx).StatusCode(&code).Error()
				require.ErrorContains(t, err, test.want)
				require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, code)
			})
		}
	}
	resource := client.Resource(works).Namespace("refused")
	_, err := resource.Create(ctx, object(t, `{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: patched, namespace: refused},
		spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}}}`), metav1.CreateOptions{})
	require.NoError(t, err)
	const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":1e999999}`
	for _, subresource := range []string{"", "status"} {
		for patch, body := range map[types.PatchType]string{
			types.MergePatchType: `{"spec":{"workload":{"manifests":[` + manifest + `]}}}`,
			types.JSONPatchType:  `[{"op":"add","path":"/spec/workload/manifests/0","value":` + manifest + `}]`,
			types.ApplyPatchType: `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"patched"},"spec":{"workload":{"manifests":[` + manifest + `]}}}`,
		} {
			t.Run(fmt.Sprintf("%s of %q", patch, subresource), func(t *testing.T) {
				err := kube.CoreV1().RESTClient().Patch(patch).AbsPath("/apis/work.open-cluster-management.io/v1/namespaces/refused/manifestworks/patched", subresource).
					Param("fieldManager", "somebody").Body([]byte(body)).Do(ctx).Error()
				require.ErrorContains(t, err, "number 1e999999 is out of range")
			})
		}
	}
	sets := schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1alpha1", Resource: "manifestworkreplicasets"}
	_, err = client.Resource(sets).Namespace("refused").Create(ctx, object(t, `{apiVersion: work.open-cluster-management.io/v1alpha1, kind: ManifestWorkReplicaSet,
		metadata: {name: early, namespace: refused}, spec: {placementRefs: [{name: p}], manifestWorkTemplate: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}}}}`), metav1.CreateOptions{})
	require.NoError(t, err, "the feature is off, which is said in a warning")
}
