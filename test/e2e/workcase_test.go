package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"
)

// The tests below are reports of users of Open Cluster Management and of similar agents, each with what is right.

// workFrom is a work whose spec is the YAML.
func workFrom(t *testing.T, name, spec string) *workv1.ManifestWork {
	t.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &work.Spec))
	return work
}

// apply makes a work of the first cluster, or gives it another spec; it is taken away when the test ends.
func (b *bench) apply(t *testing.T, ctx context.Context, name, spec string) {
	t.Helper()
	works := b.works.WorkV1().ManifestWorks(first)
	want := workFrom(t, name, spec)
	_, err := works.Create(ctx, want, metav1.CreateOptions{})
	if err == nil {
		t.Cleanup(func() { b.removeWork(t, first, name) })
		return
	}
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	eventually(t, ctx, "work "+name+" is changed", func() error {
		work, err := works.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		work.Spec = want.Spec
		_, err = works.Update(ctx, work, metav1.UpdateOptions{})
		return err
	})
}

func (b *bench) work(ctx context.Context, name string) (*workv1.ManifestWork, error) {
	return b.works.WorkV1().ManifestWorks(first).Get(ctx, name, metav1.GetOptions{})
}

// spoke is a client for any kind of the first cluster.
func (b *bench) spoke(t *testing.T) *dynamic.DynamicClient {
	t.Helper()
	config, err := b.Cluster(first)
	require.NoError(t, err)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// on makes an object on the first cluster, as somebody there would; it is taken away when the test ends.
func (b *bench) on(t *testing.T, ctx context.Context, gvr schema.GroupVersionResource, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	client := b.spoke(t).Resource(gvr).Namespace(object.GetNamespace())
	made, err := client.Create(ctx, object, metav1.CreateOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}) })
	return made
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	scalers    = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	roles      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	applied    = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "appliedmanifestworks"}
)

// appliedWork is what stands on the first cluster for a work.
func (b *bench) appliedWork(ctx context.Context, t *testing.T, name string) (*workv1.AppliedManifestWork, error) {
	t.Helper()
	all, err := b.spoke(t).Resource(applied).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, item := range all.Items {
		if got, _, _ := unstructured.NestedString(item.Object, "spec", "manifestWorkName"); got != name {
			continue
		}
		raw, err := item.MarshalJSON()
		if err != nil {
			return nil, err
		}
		amw := &workv1.AppliedManifestWork{}
		return amw, json.Unmarshal(raw, amw)
	}
	return nil, fmt.Errorf("nothing stands for work %s", name)
}

// ownedBy fails unless the owners of an object are these.
func ownedBy(o metav1.Object, uids ...types.UID) error {
	var got []types.UID
	for _, r := range o.GetOwnerReferences() {
		got = append(got, r.UID)
	}
	slices.Sort(got)
	slices.Sort(uids)
	if !slices.Equal(got, uids) {
		return fmt.Errorf("%s is owned by %v, not by %v", o.GetName(), got, uids)
	}
	return nil
}

// manifestAt is what a work's status says of the manifest at a place of its spec.
func manifestAt(work *workv1.ManifestWork, ordinal int) (workv1.ManifestCondition, error) {
	if len(work.Status.ResourceStatus.Manifests) <= ordinal {
		return workv1.ManifestCondition{}, fmt.Errorf("%d manifests have a status", len(work.Status.ResourceStatus.Manifests))
	}
	return work.Status.ResourceStatus.Manifests[ordinal], nil
}

// manifestIs fails until a condition of a manifest has the status at the work's generation.
func manifestIs(work *workv1.ManifestWork, ordinal int, kind string, status metav1.ConditionStatus) error {
	m, err := manifestAt(work, ordinal)
	if err != nil {
		return err
	}
	return conditionIs(m.Conditions, kind, status, work.Generation)
}

// voyages defines a custom resource that keeps whatever it is given.
const voyages = `
  - apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: %[1]ss.cases.nave.dev}
    spec:
      group: cases.nave.dev
      scope: Namespaced
      names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]ss, singular: %[1]s}
      versions:
      - name: v1
        served: true
        storage: true
        schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

// Charts write a namespace on kinds that have none (ocm#323).
func TestNamespaceOnClusterScopedKind(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "scoped", `
workload:
  manifests:
  - {apiVersion: v1, kind: Namespace, metadata: {name: case-ledger}}
  - apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: case-ledger-reader, namespace: case-ledger}
    rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
manifestConfigs:
- resourceIdentifier: {group: rbac.authorization.k8s.io, resource: clusterroles, namespace: case-ledger, name: case-ledger-reader}
  updateStrategy: {type: ReadOnly}
`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "scoped") })
	work, err := b.work(ctx, "scoped")
	require.NoError(t, err)
	require.Empty(t, work.Status.ResourceStatus.Manifests[1].ResourceMeta.Namespace)
	amw, err := b.appliedWork(ctx, t, "scoped")
	require.NoError(t, err)
	role := workv1.ResourceIdentifier{Group: roles.Group, Resource: "clusterroles", Name: "case-ledger-reader"}
	require.True(t, slices.ContainsFunc(amw.Status.AppliedResources, func(r workv1.AppliedManifestResourceMeta) bool { return r.ResourceIdentifier == role }))
	b.removeWork(t, first, "scoped")
	_, err = b.spoke(t).Resource(roles).Get(ctx, "case-ledger-reader", metav1.GetOptions{})
	require.NoError(t, gone(err))
}

const jobSpec = `{backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.test/none:1}]}}}`

// A job whose selector and labels the API server filled in stays applied, and says how it went (ocm#118).
func TestJobStaysApplied(t *testing.T) {
	b, ctx := start(t)
	for _, strategy := range []string{"Update", "ServerSideApply", "CreateOnly"} {
		t.Run(strategy, func(t *testing.T) {
			name := "tally-" + map[string]string{"Update": "u", "ServerSideApply": "s", "CreateOnly": "c"}[strategy]
			spec := func(label string) string {
				return fmt.Sprintf(`
workload: {manifests: [{apiVersion: batch/v1, kind: Job, metadata: {name: %s, namespace: default, labels: {turn: %q}}, spec: %s}]}
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: default, name: %s}
  updateStrategy: {type: %s}
  feedbackRules: [{type: WellKnownStatus}]
  feedbackScrapeType: Watch
`, name, label, jobSpec, name, strategy)
			}
			b.apply(t, ctx, name, spec("one"))
			complete := func() error {
				work, err := b.work(ctx, name)
				if err != nil {
					return err
				}
				m, err := manifestAt(work, 0)
				if err != nil {
					return err
				}
				for _, v := range m.StatusFeedbacks.Values {
					if v.Name == "JobComplete" && v.Value.String != nil && *v.Value.String == "True" {
						return b.appliedAndAvailable(ctx, first, name)
					}
				}
				return fmt.Errorf("feedback is %v", m.StatusFeedbacks.Values)
			}
			eventually(t, ctx, "the job's end is reported", complete)
			before, err := b.spoke(t).Resource(jobs).Namespace("default").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			b.apply(t, ctx, name, spec("two")) // a whole new pass over a job that the API server has filled in
			eventually(t, ctx, "the work is applied again", complete)
			after, err := b.spoke(t).Resource(jobs).Namespace("default").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, before.GetUID(), after.GetUID())
		})
	}
}

// A job that moves from one work to another does not run again (kubestellar#2634).
func TestJobMovesBetweenWorks(t *testing.T) {
	b, ctx := start(t)
	spec := fmt.Sprintf(`
workload: {manifests: [{apiVersion: batch/v1, kind: Job, metadata: {name: case-once, namespace: default}, spec: %s}]}
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: default, name: case-once}
  updateStrategy: {type: CreateOnly}
`, jobSpec)
	job := func() (*unstructured.Unstructured, error) {
		return b.spoke(t).Resource(jobs).Namespace("default").Get(ctx, "case-once", metav1.GetOptions{})
	}
	b.apply(t, ctx, "carrier-a", spec)
	var before *unstructured.Unstructured
	eventually(t, ctx, "the job is complete", func() (err error) {
		if before, err = job(); err != nil {
			return err
		}
		if at, _, _ := unstructured.NestedString(before.Object, "status", "completionTime"); at == "" {
			return errors.New("it is not complete")
		}
		return nil
	})
	b.apply(t, ctx, "carrier-b", spec)
	eventually(t, ctx, "the second work is applied", func() error { return b.appliedAndAvailable(ctx, first, "carrier-b") })
	a1, err := b.appliedWork(ctx, t, "carrier-a")
	require.NoError(t, err)
	a2, err := b.appliedWork(ctx, t, "carrier-b")
	require.NoError(t, err)
	both, err := job()
	require.NoError(t, err)
	require.NoError(t, ownedBy(both, a1.UID, a2.UID))
	b.removeWork(t, first, "carrier-a")
	after, err := job()
	require.NoError(t, err)
	require.NoError(t, ownedBy(after, a2.UID))
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Equal(t, before.Object["status"], after.Object["status"])
}

// Numbers, texts and booleans arrive as what they are, and the object is not written again and again (karmada#3617).
func TestTypesArrive(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "types", `
workload:
  manifests:`+fmt.Sprintf(voyages, "voyage", "Voyage")+`
  - apiVersion: cases.nave.dev/v1
    kind: Voyage
    metadata: {name: types, namespace: default}
    spec: {small: 3, big: 9007199254740993, neg: -7, ratio: 0.25, whole: 5.0, text: "007", "yes": "yes", flag: true, percent: "25%", mixed: [1, "1", 1.5, true], nothing: {}, empty: [], nil: null}
`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "types") })
	raw, err := b.spokes[first].RESTClient().Get().AbsPath("/apis/cases.nave.dev/v1/namespaces/default/voyages/types").DoRaw(ctx)
	require.NoError(t, err)
	var got struct {
		Metadata struct{ Generation int64 }
		Spec     map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &got))
	for field, want := range map[string]string{
		"small": "3", "big": "9007199254740993", "neg": "-7", "ratio": "0.25", "whole": "5", "text": `"007"`, "yes": `"yes"`, "flag": "true",
		"percent": `"25%"`, "mixed": `[1,"1",1.5,true]`, "nothing": "{}", "empty": "[]",
	} {
		require.JSONEq(t, want, string(got.Spec[field]), field)
	}
	require.NotContains(t, got.Spec, "nil")
	require.EqualValues(t, 1, got.Metadata.Generation, "it was written once")
}

// What one manifest runs into is said of it alone, and heals when the way is free (karmada#1513).
func TestPortIsTaken(t *testing.T) {
	b, ctx := start(t)
	b.on(t, ctx, services, `{apiVersion: v1, kind: Service, metadata: {name: squatter, namespace: default}, spec: {type: NodePort, selector: {app: squatter}, ports: [{port: 80, nodePort: 30081}]}}`)
	b.apply(t, ctx, "port-clash", `
workload:
  manifests:
  - apiVersion: v1
    kind: Service
    metadata: {name: case-kiosk, namespace: default}
    spec: {type: NodePort, selector: {app: kiosk}, ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30081}]}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: port-clash-ok, namespace: default}, data: {k: v}}
`)
	eventually(t, ctx, "the clash is told", func() error {
		work, err := b.work(ctx, "port-clash")
		if err != nil {
			return err
		}
		return errors.Join(
			conditionIs(work.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse, work.Generation),
			manifestIs(work, 0, workv1.ManifestApplied, metav1.ConditionFalse), manifestIs(work, 1, workv1.ManifestApplied, metav1.ConditionTrue))
	})
	work, err := b.work(ctx, "port-clash")
	require.NoError(t, err)
	require.Contains(t, meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied).Message, "provided port is already allocated")
	require.NoError(t, b.spokes[first].CoreV1().Services("default").Delete(ctx, "squatter", metav1.DeleteOptions{}))
	eventually(t, ctx, "it heals by itself", func() error { return b.appliedAndAvailable(ctx, first, "port-clash") })
}

// A work that is edited right after it was made leaves nothing behind (ocm#632).
func TestQuickEdits(t *testing.T) {
	b, ctx := start(t)
	const rounds = 30
	spec := func(names ...string) string {
		text := "workload:\n  manifests:\n"
		for _, name := range names {
			text += fmt.Sprintf("  - {apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default}, data: {k: v}}\n", name)
		}
		return text
	}
	for i := range rounds {
		name := fmt.Sprintf("quick-%d", i)
		b.apply(t, ctx, name, spec(name+"-a", name+"-b"))
		b.apply(t, ctx, name, spec(name+"-b"))
	}
	for i := range rounds {
		name := fmt.Sprintf("quick-%d", i)
		eventually(t, ctx, name+" holds what it says and nothing else", func() error {
			amw, err := b.appliedWork(ctx, t, name)
			if err != nil {
				return err
			}
			if len(amw.Status.AppliedResources) != 1 || amw.Status.AppliedResources[0].Name != name+"-b" {
				return fmt.Errorf("%s has applied %v", name, amw.Status.AppliedResources)
			}
			return errors.Join(b.configMapGone(ctx, first, "default", name+"-a"), b.appliedAndAvailable(ctx, first, name))
		})
	}
}

// A work that goes with its owner on the hub is not applied any more (ocm#1404).
func TestWorkGoesWithItsOwner(t *testing.T) {
	b, ctx := start(t)
	parent, err := b.hub.CoreV1().ConfigMaps(first).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "case-parent"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	work := workFrom(t, "case-child", `{workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: case-child, namespace: default}, data: {value: v}}]}}`)
	work.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: parent.Name, UID: parent.UID}}
	_, err = b.works.WorkV1().ManifestWorks(first).Create(ctx, work, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "case-child") })
	require.NoError(t, b.hub.CoreV1().ConfigMaps(first).Delete(ctx, parent.Name, metav1.DeleteOptions{}))
	eventually(t, ctx, "work and object are gone", func() error {
		_, err := b.work(ctx, "case-child")
		return errors.Join(gone(err), b.configMapGone(ctx, first, "default", "case-child"))
	})
}

// A work that cannot be deleted says what it waits for (ocm#1062).
func TestDeletionSaysWhatItWaitsFor(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "sticky", `{workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: case-sticky, namespace: default, finalizers: [example.test/hold]}}]}}`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "sticky") })
	before, err := b.work(ctx, "sticky")
	require.NoError(t, err)
	require.NoError(t, b.works.WorkV1().ManifestWorks(first).Delete(ctx, "sticky", metav1.DeleteOptions{}))
	eventually(t, ctx, "the work names the object and its finalizer", func() error {
		work, err := b.work(ctx, "sticky")
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkDeleting)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "WorkDeleting" {
			return fmt.Errorf("the condition is %v", c)
		}
		for _, part := range []string{"configmaps default/case-sticky", "example.test/hold"} {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("%q does not name %s", c.Message, part)
			}
		}
		require.Equal(t, meta.FindStatusCondition(before.Status.Conditions, workv1.WorkApplied), meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied))
		return nil
	})
	amw, err := b.appliedWork(ctx, t, "sticky")
	require.NoError(t, err)
	require.Nil(t, amw.Status.EvictionStartTime)
	_, err = b.spokes[first].CoreV1().ConfigMaps("default").Patch(ctx, "case-sticky", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "the work is gone", func() error {
		_, err := b.work(ctx, "sticky")
		return gone(err)
	})
}

// One value that is too much does not cost the others (api#406).
func TestOneBadPath(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "feedback-big", `
workload:
  manifests:`+fmt.Sprintf(voyages, "cruise", "Cruise")+`
  - {apiVersion: cases.nave.dev/v1, kind: Cruise, metadata: {name: talker, namespace: default}, spec: {port: oslo}}
manifestConfigs:
- resourceIdentifier: {group: cases.nave.dev, resource: cruises, namespace: default, name: talker}
  feedbackScrapeType: Watch
  feedbackRules: [{type: JSONPaths, jsonPaths: [{name: phase, path: .status.phase}, {name: crew, path: .status.crew}, {name: everything, path: .status}]}]
`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "feedback-big") })
	cruises := schema.GroupVersionResource{Group: "cases.nave.dev", Version: "v1", Resource: "cruises"}
	_, err := b.spoke(t).Resource(cruises).Namespace("default").Patch(ctx, "talker", types.MergePatchType, []byte(`{"status":{"phase":"Sailing","crew":12,"log":["a","b"]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "the small values are told, and which one is not", func() error {
		work, err := b.work(ctx, "feedback-big")
		if err != nil {
			return err
		}
		m, err := manifestAt(work, 1)
		if err != nil {
			return err
		}
		text, err := json.Marshal(m.StatusFeedbacks.Values)
		require.NoError(t, err)
		if got := string(text); !strings.Contains(got, `"Sailing"`) || !strings.Contains(got, "12") || strings.Contains(got, "everything") {
			return fmt.Errorf("values are %s", got)
		}
		c := meta.FindStatusCondition(m.Conditions, "StatusFeedbackSynced")
		if c.Status != metav1.ConditionFalse || c.Reason != "StatusFeedbackSyncFailed" || !strings.Contains(c.Message, "everything") {
			return fmt.Errorf("the condition is %v", c)
		}
		return b.appliedAndAvailable(ctx, first, "feedback-big")
	})
}

// A change of strategy leaves no manager behind that holds fields for ever (ocm#586).
func TestManagersAfterAChangeOfStrategy(t *testing.T) {
	b, ctx := start(t)
	spec := func(data, strategy string) string {
		return fmt.Sprintf(`
workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: case-manager, namespace: default}, data: %s}]}
manifestConfigs: [{resourceIdentifier: {resource: configmaps, namespace: default, name: case-manager}, updateStrategy: %s}]
`, data, strategy)
	}
	for i, step := range []struct{ data, strategy, want, manager string }{
		{`{a: "1", b: "2", c: "3", d: "4", e: "5"}`, "{type: CreateOnly}", "abcde", ""},
		{`{a: "2", b: "2", c: "3", d: "4"}`, "{type: Update}", "abcd", "work-agent-manager"},
		{`{a: "3", b: "2", c: "3"}`, "{type: ServerSideApply}", "abc", "work-agent"},
		{`{a: "4", b: "2"}`, "{type: ServerSideApply, serverSideApply: {fieldManager: work-agent-other}}", "ab", "work-agent-other"},
		{`{a: "5"}`, "{type: Update}", "a", "work-agent-manager"},
	} {
		b.apply(t, ctx, "manager", spec(step.data, step.strategy))
		eventually(t, ctx, fmt.Sprintf("step %d is applied", i), func() error { return b.appliedAndAvailable(ctx, first, "manager") })
		m, err := b.spokes[first].CoreV1().ConfigMaps("default").Get(ctx, "case-manager", metav1.GetOptions{})
		require.NoError(t, err)
		var keys string
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			keys += key
		}
		require.Equal(t, step.want, keys, "step %d", i)
		var managers []string
		for _, f := range m.ManagedFields {
			if f.Operation == metav1.ManagedFieldsOperationApply {
				managers = append(managers, f.Manager)
			}
		}
		if step.manager != "" {
			require.Equal(t, []string{step.manager}, managers, "step %d", i)
			require.Len(t, m.ManagedFields, 1, "step %d", i)
		}
	}
}

// One object that is listed under two versions of its API settles, and stays when one of the two goes (work#87).
func TestObjectUnderTwoVersions(t *testing.T) {
	b, ctx := start(t)
	v2 := `
  - apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    metadata: {name: case-kiosk, namespace: default}
    spec:
      minReplicas: 1
      maxReplicas: 4
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: case-kiosk}
      metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]
`
	b.apply(t, ctx, "twice", `
workload:
  manifests:
  - apiVersion: autoscaling/v1
    kind: HorizontalPodAutoscaler
    metadata: {name: case-kiosk, namespace: default}
    spec: {minReplicas: 1, maxReplicas: 4, targetCPUUtilizationPercentage: 70, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: case-kiosk}}`+v2)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "twice") })
	scaler := func() *unstructured.Unstructured {
		s, err := b.spoke(t).Resource(scalers).Namespace("default").Get(ctx, "case-kiosk", metav1.GetOptions{})
		require.NoError(t, err)
		return s
	}
	before := scaler()
	writes := func(s *unstructured.Unstructured) (all []string) {
		for _, f := range s.GetManagedFields() {
			if f.Operation == metav1.ManagedFieldsOperationApply {
				all = append(all, f.Manager+" "+f.Time.String())
			}
		}
		return all
	}
	// A change by somebody else calls for a whole pass; after it everything is as it was.
	_, err := b.spoke(t).Resource(scalers).Namespace("default").Patch(ctx, "case-kiosk", types.MergePatchType, []byte(`{"spec":{"maxReplicas":9}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "the change is undone", func() error {
		if n, _, _ := unstructured.NestedInt64(scaler().Object, "spec", "maxReplicas"); n != 4 {
			return fmt.Errorf("maxReplicas is %d", n)
		}
		return nil
	})
	require.Len(t, writes(scaler()), 1)
	b.apply(t, ctx, "twice", "workload:\n  manifests:"+v2)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "twice") })
	require.Equal(t, before.GetUID(), scaler().GetUID())
	require.Nil(t, scaler().GetDeletionTimestamp())
}

// Short cuts do not skip who owns an object (ocm#794).
func TestOwnershipWithIgnoredFields(t *testing.T) {
	b, ctx := start(t)
	spec := func(name, policy string) string {
		return fmt.Sprintf(`
workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: default}, data: {k: v}}]}
deleteOption: {propagationPolicy: %[2]s}
manifestConfigs:
- resourceIdentifier: {resource: configmaps, namespace: default, name: %[1]s}
  updateStrategy: {type: ServerSideApply, serverSideApply: {force: true, ignoreFields: [{condition: OnSpokePresent, jsonPaths: [.data]}]}}
`, name, policy)
	}
	for _, test := range []struct {
		name, before, after string
		stays               bool
	}{
		{"case-shy", "Orphan", "Foreground", false},
		{"case-bold", "Foreground", "Orphan", true},
	} {
		t.Run(test.before+" to "+test.after, func(t *testing.T) {
			get := func() (*unstructured.Unstructured, error) {
				return b.spoke(t).Resource(configMaps).Namespace("default").Get(ctx, test.name, metav1.GetOptions{})
			}
			owners := func(policy string) error {
				amw, err := b.appliedWork(ctx, t, test.name)
				if err != nil {
					return err
				}
				object, err := get()
				if err != nil {
					return err
				}
				if policy == "Orphan" {
					return ownedBy(object)
				}
				return ownedBy(object, amw.UID)
			}
			b.apply(t, ctx, test.name, spec(test.name, test.before))
			eventually(t, ctx, "it is owned as the work says", func() error { return owners(test.before) })
			b.apply(t, ctx, test.name, spec(test.name, test.after))
			eventually(t, ctx, "it is owned as the work says now", func() error { return owners(test.after) })
			b.removeWork(t, first, test.name)
			_, err := get()
			if test.stays {
				require.NoError(t, err)
				require.NoError(t, b.spokes[first].CoreV1().ConfigMaps("default").Delete(ctx, test.name, metav1.DeleteOptions{}))
				return
			}
			require.NoError(t, gone(err))
		})
	}
}

// Objects that are there already are taken over, kept or only looked at, as the work says (ocm#275).
func TestObjectsThatExist(t *testing.T) {
	b, ctx := start(t)
	for _, name := range []string{"ad-update", "ad-create", "ad-read"} {
		b.on(t, ctx, configMaps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default, labels: {made-by: hand}, annotations: {note: local}}, data: {value: local}}`, name))
	}
	b.apply(t, ctx, "adopt", `
workload:
  manifests:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: ad-update, namespace: default}, data: {value: hub}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: ad-create, namespace: default}, data: {value: hub}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: ad-read, namespace: default}, data: {value: hub}}
manifestConfigs:
- {resourceIdentifier: {resource: configmaps, namespace: default, name: ad-create}, updateStrategy: {type: CreateOnly}}
- resourceIdentifier: {resource: configmaps, namespace: default, name: ad-read}
  updateStrategy: {type: ReadOnly}
  feedbackRules: [{type: JSONPaths, jsonPaths: [{name: value, path: .data.value}]}]
`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "adopt") })
	amw, err := b.appliedWork(ctx, t, "adopt")
	require.NoError(t, err)
	for name, want := range map[string]struct {
		value  string
		owners []types.UID
	}{"ad-update": {"hub", []types.UID{amw.UID}}, "ad-create": {"local", []types.UID{amw.UID}}, "ad-read": {"local", nil}} {
		m, err := b.spokes[first].CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, want.value, m.Data["value"], name)
		require.Equal(t, "hand", m.Labels["made-by"], name)
		require.Equal(t, "local", m.Annotations["note"], name)
		require.NoError(t, ownedBy(m, want.owners...))
	}
	work, err := b.work(ctx, "adopt")
	require.NoError(t, err)
	require.Len(t, work.Status.ResourceStatus.Manifests[2].StatusFeedbacks.Values, 1)
	require.Equal(t, "local", *work.Status.ResourceStatus.Manifests[2].StatusFeedbacks.Values[0].Value.String)
	b.removeWork(t, first, "adopt")
	require.NoError(t, b.configMapGone(ctx, first, "default", "ad-update"))
	require.NoError(t, b.configMapGone(ctx, first, "default", "ad-create"))
	require.NoError(t, b.valueOf(ctx, first, "default", "ad-read", "local"))
}

// Nulls and empty values of charts are no difference (fleet#5001).
func TestNullsAreNoDrift(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "nulls", `
workload:
  manifests:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: case-nulls, namespace: default, annotations: null, labels: {}}
    spec:
      replicas: 1
      strategy: null
      selector: {matchLabels: {app: nulls}}
      template:
        metadata: {labels: {app: nulls}, creationTimestamp: null, annotations: {}}
        spec:
          nodeSelector: null
          affinity: null
          tolerations: []
          volumes: null
          imagePullSecrets: [null]
          containers: [{name: nulls, image: example.test/none:1, resources: {}, env: [null], command: null, securityContext: {}}]
`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "nulls") })
	d, err := b.spokes[first].AppsV1().Deployments("default").Get(ctx, "case-nulls", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, d.Generation)
	_, err = b.spokes[first].AppsV1().Deployments("default").Patch(ctx, "case-nulls", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "drift is undone", func() error {
		d, err = b.spokes[first].AppsV1().Deployments("default").Get(ctx, "case-nulls", metav1.GetOptions{})
		if err == nil && *d.Spec.Replicas != 1 {
			err = fmt.Errorf("%d replicas", *d.Spec.Replicas)
		}
		return err
	})
	require.EqualValues(t, 3, d.Generation, "one change by somebody else and one by the agent")
}

// Many works of one cluster do not wait for each other, and a change of one writes no status of the others (ocm#130).
func TestManyWorks(t *testing.T) {
	b, ctx := start(t)
	const n = 150
	works := b.works.WorkV1().ManifestWorks(first)
	spec := func(name, value string) string {
		return fmt.Sprintf(`{workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default}, data: {value: %s}}]}}`, name, value)
	}
	name := func(i int) string { return fmt.Sprintf("load-%03d", i) }
	for i := range n {
		b.apply(t, ctx, name(i), spec(name(i), "v"))
	}
	versions := func() map[string]string {
		all, err := works.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		found := map[string]string{}
		for _, w := range all.Items {
			found[w.Name] = w.ResourceVersion
		}
		return found
	}
	for i := range n {
		eventually(t, ctx, name(i)+" is applied", func() error { return b.appliedAndAvailable(ctx, first, name(i)) })
	}
	before := versions()
	b.apply(t, ctx, name(0), spec(name(0), "w"))
	eventually(t, ctx, "the change is applied", func() error { return b.appliedAndAvailable(ctx, first, name(0)) })
	after := versions()
	for i := 1; i < n; i++ {
		require.Equal(t, before[name(i)], after[name(i)], "nothing was written about %s", name(i))
	}
}

// A work that is gone has left no pods behind: a Deployment is deleted in the foreground.
func TestWorkloadTakesItsPodsAlong(t *testing.T) {
	b, ctx := start(t)
	b.newWork(t, ctx, first, "takes-along", deployment("default", "takes-along", 2))
	pods := func() (int, error) {
		list, err := b.spokes[first].CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=takes-along"})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
	eventually(t, ctx, "its pods are there", func() error {
		n, err := pods()
		if err == nil && n != 2 {
			err = fmt.Errorf("%d of 2 pods", n)
		}
		return err
	})
	b.removeWork(t, first, "takes-along")
	n, err := pods()
	require.NoError(t, err)
	require.Zero(t, n)
}

// An object whose kind another work brings is applied when the kind is there (ocm#1500).
func TestKindComesWithAnotherWork(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "kind-user", `{workload: {manifests: [{apiVersion: cases.nave.dev/v1, kind: Ferry, metadata: {name: f, namespace: default}, spec: {port: oslo}}]}}`)
	eventually(t, ctx, "the work says that the kind is missing", func() error {
		work, err := b.work(ctx, "kind-user")
		if err != nil {
			return err
		}
		m, err := manifestAt(work, 0)
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(m.Conditions, workv1.ManifestApplied); c == nil || !strings.Contains(c.Message, "does not serve cases.nave.dev/v1, Kind=Ferry") {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	b.apply(t, ctx, "kind-bringer", "workload:\n  manifests:"+strings.ReplaceAll(fmt.Sprintf(voyages, "ferry", "Ferry"), "ferrys", "ferries"))
	eventually(t, ctx, "both are applied", func() error {
		return errors.Join(b.appliedAndAvailable(ctx, first, "kind-bringer"), b.appliedAndAvailable(ctx, first, "kind-user"))
	})
}
