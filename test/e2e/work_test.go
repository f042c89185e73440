package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"
)

// newWork makes a work of YAML manifests on the hub, and takes it away when the test ends.
func (b *bench) newWork(t *testing.T, ctx context.Context, cluster, name string, manifests ...string) *workv1.ManifestWork {
	t.Helper()
	work, err := b.works.WorkV1().ManifestWorks(cluster).Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifestsOf(t, manifests...)}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { b.removeWork(t, cluster, name) })
	return work
}

func manifestsOf(t *testing.T, texts ...string) []workv1.Manifest {
	t.Helper()
	var all []workv1.Manifest
	for _, text := range texts {
		raw, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err)
		all = append(all, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return all
}

func (b *bench) changeWork(t *testing.T, ctx context.Context, cluster, name string, manifests ...string) {
	t.Helper()
	eventually(t, ctx, "work "+name+" is changed", func() error {
		work, err := b.works.WorkV1().ManifestWorks(cluster).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		work.Spec.Workload.Manifests = manifestsOf(t, manifests...)
		_, err = b.works.WorkV1().ManifestWorks(cluster).Update(ctx, work, metav1.UpdateOptions{})
		return err
	})
}

func (b *bench) removeWork(t *testing.T, cluster, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	works := b.works.WorkV1().ManifestWorks(cluster)
	if err := works.Delete(ctx, name, metav1.DeleteOptions{}); gone(err) == nil {
		return
	}
	eventually(t, ctx, "work "+name+" is gone", func() error {
		_, err := works.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

func namespace(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)
}

func configMap(namespace, name, value string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {value: %s}}", name, namespace, value)
}

func deployment(namespace, name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec: {containers: [{name: main, image: example.com/none:1}]}`, namespace, name, replicas)
}

// valueOf fails until a ConfigMap on the cluster holds the value.
func (b *bench) valueOf(ctx context.Context, cluster, namespace, name, want string) error {
	m, err := b.spokes[cluster].CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := m.Data["value"]; got != want {
		return fmt.Errorf("config map %s/%s holds %q, not %q", namespace, name, got, want)
	}
	return nil
}

func (b *bench) configMapGone(ctx context.Context, cluster, namespace, name string) error {
	_, err := b.spokes[cluster].CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	return gone(err)
}

// TestWorkTravels is the whole way: from the hub to ready replicas on a real cluster, and back out of it.
func TestWorkTravels(t *testing.T) {
	b, ctx := start(t)
	const ns = "travels"
	b.newWork(t, ctx, first, "travels", namespace(ns), configMap(ns, "one", "a"), configMap(ns, "two", "a"), deployment(ns, "app", 2))
	eventually(t, ctx, "the work is available", func() error { return b.appliedAndAvailable(ctx, first, "travels") })
	eventually(t, ctx, "the deployment is ready", func() error {
		d, err := b.spokes[first].AppsV1().Deployments(ns).Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d of 2 replicas are ready", d.Status.ReadyReplicas)
		}
		return nil
	})
	work, err := b.works.WorkV1().ManifestWorks(first).Get(ctx, "travels", metav1.GetOptions{})
	require.NoError(t, err)
	require.Contains(t, work.Finalizers, "cluster.open-cluster-management.io/manifest-work-cleanup")
	require.Len(t, work.Status.ResourceStatus.Manifests, 4)
	for i, m := range work.Status.ResourceStatus.Manifests {
		require.EqualValues(t, i, m.ResourceMeta.Ordinal)
		require.NoError(t, conditionIs(m.Conditions, workv1.ManifestApplied, metav1.ConditionTrue, work.Generation))
		require.NoError(t, conditionIs(m.Conditions, workv1.ManifestAvailable, metav1.ConditionTrue, work.Generation))
	}

	b.changeWork(t, ctx, first, "travels", namespace(ns), configMap(ns, "one", "b"), deployment(ns, "app", 3))
	eventually(t, ctx, "the change is applied", func() error {
		return errors.Join(b.appliedAndAvailable(ctx, first, "travels"), b.valueOf(ctx, first, ns, "one", "b"))
	})
	eventually(t, ctx, "what is no longer listed is gone", func() error { return b.configMapGone(ctx, first, ns, "two") })

	b.removeWork(t, first, "travels")
	_, err = b.spokes[first].CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	require.NoError(t, gone(err), "a work is gone only after what it applied is gone")
}

func TestDriftIsRepaired(t *testing.T) {
	b, ctx := start(t)
	b.newWork(t, ctx, first, "drift", configMap("default", "drift", "wanted"))
	eventually(t, ctx, "the work is available", func() error { return b.appliedAndAvailable(ctx, first, "drift") })
	maps := b.spokes[first].CoreV1().ConfigMaps("default")

	_, err := maps.Patch(ctx, "drift", types.MergePatchType, []byte(`{"data":{"value":"other"},"metadata":{"labels":{"mine":"stays"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "an edit is undone", func() error { return b.valueOf(ctx, first, "default", "drift", "wanted") })
	m, err := maps.Get(ctx, "drift", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "stays", m.Labels["mine"], "what the work does not declare is not its business")

	require.NoError(t, maps.Delete(ctx, "drift", metav1.DeleteOptions{}))
	eventually(t, ctx, "a deleted object is back", func() error { return b.valueOf(ctx, first, "default", "drift", "wanted") })
}

// TestAnyOrder has manifests that need others of the same work to exist, and stand before them.
func TestAnyOrder(t *testing.T) {
	b, ctx := start(t)
	const ns = "any-order"
	b.newWork(t, ctx, first, "any-order",
		`{apiVersion: e2e.nave.dev/v1, kind: Widget, metadata: {name: w, namespace: any-order}, spec: {size: 3}}`,
		configMap(ns, "content", "a"),
		`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.e2e.nave.dev}
spec:
  group: e2e.nave.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}`,
		namespace(ns),
	)
	eventually(t, ctx, "all of it is available", func() error { return b.appliedAndAvailable(ctx, first, "any-order") })
	config, err := b.Cluster(first)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	widgets := client.Resource(schema.GroupVersionResource{Group: "e2e.nave.dev", Version: "v1", Resource: "widgets"})
	_, err = widgets.Namespace(ns).Get(ctx, "w", metav1.GetOptions{})
	require.NoError(t, err)

	b.removeWork(t, first, "any-order")
	_, err = b.spokes[first].CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	require.NoError(t, gone(err))
}

// TestWhatCannotBeApplied is said in conditions, and does not keep the rest from being applied.
func TestWhatCannotBeApplied(t *testing.T) {
	b, ctx := start(t)
	b.newWork(t, ctx, first, "partly",
		configMap("no-such-namespace", "lost", "a"), configMap("default", "partly", "a"),
		`{apiVersion: no.such.group/v1, kind: Nothing, metadata: {name: nothing, namespace: default}}`)
	eventually(t, ctx, "the conditions say what failed", func() error {
		work, err := b.works.WorkV1().ManifestWorks(first).Get(ctx, "partly", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(work.Status.ResourceStatus.Manifests) != 3 {
			return fmt.Errorf("%d of 3 manifests have a status", len(work.Status.ResourceStatus.Manifests))
		}
		var errs []error
		for i, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse} {
			errs = append(errs, conditionIs(work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestApplied, status, work.Generation))
		}
		errs = append(errs, conditionIs(work.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse, work.Generation))
		return errors.Join(errs...)
	})
	require.NoError(t, b.valueOf(ctx, first, "default", "partly", "a"))

	_, err := b.spokes[first].CoreV1().Namespaces().Create(ctx, namespaceObject("no-such-namespace"), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = b.spokes[first].CoreV1().Namespaces().Delete(context.Background(), "no-such-namespace", metav1.DeleteOptions{})
	})
	eventually(t, ctx, "what has become possible is done", func() error { return b.valueOf(ctx, first, "no-such-namespace", "lost", "a") })
}

// TestChangesOfTreatment change how a work treats an object that it has applied. The object itself is never replaced, and
// what is no longer to go with the work stays when the work goes.
func TestChangesOfTreatment(t *testing.T) {
	b, ctx := start(t)
	strategy := func(kind workv1.UpdateStrategyType) func(*workv1.ManifestWorkSpec) {
		return func(s *workv1.ManifestWorkSpec) {
			s.ManifestConfigs = []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "*"},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: kind},
			}}
		}
	}
	orphan := func(s *workv1.ManifestWorkSpec) {
		s.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	}
	nothing := func(*workv1.ManifestWorkSpec) {}
	for _, test := range []struct {
		name          string
		before, after func(*workv1.ManifestWorkSpec)
		value         string // of the object after the change, to which the manifest says "second"
		stays         bool   // when the work goes
	}{
		{"update-readonly", nothing, strategy(workv1.UpdateStrategyTypeReadOnly), "first", true},
		{"update-createonly", nothing, strategy(workv1.UpdateStrategyTypeCreateOnly), "first", false},
		{"createonly-update", strategy(workv1.UpdateStrategyTypeCreateOnly), nothing, "second", false},
		{"update-apply", nothing, strategy(workv1.UpdateStrategyTypeServerSideApply), "second", false},
		{"orphan", nothing, orphan, "second", true},
		{"createonly-orphan", strategy(workv1.UpdateStrategyTypeCreateOnly), orphan, "second", true},
		{"orphan-owned", orphan, nothing, "second", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := "treat-" + test.name
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
			work.Spec.Workload.Manifests = manifestsOf(t, configMap("default", name, "first"))
			test.before(&work.Spec)
			_, err := b.works.WorkV1().ManifestWorks(first).Create(ctx, work, metav1.CreateOptions{})
			require.NoError(t, err)
			maps := b.spokes[first].CoreV1().ConfigMaps("default")
			t.Cleanup(func() {
				b.removeWork(t, first, name)
				_ = maps.Delete(context.Background(), name, metav1.DeleteOptions{})
			})
			eventually(t, ctx, "the work is available", func() error { return b.appliedAndAvailable(ctx, first, name) })
			object, err := maps.Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)

			eventually(t, ctx, "the work is changed", func() error {
				work, err := b.works.WorkV1().ManifestWorks(first).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				work.Spec = workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifestsOf(t, configMap("default", name, "second"))}}
				test.after(&work.Spec)
				_, err = b.works.WorkV1().ManifestWorks(first).Update(ctx, work, metav1.UpdateOptions{})
				return err
			})
			eventually(t, ctx, "the change is applied", func() error { return b.appliedAndAvailable(ctx, first, name) })
			eventually(t, ctx, "the value is right", func() error { return b.valueOf(ctx, first, "default", name, test.value) })
			b.removeWork(t, first, name)
			after, err := maps.Get(ctx, name, metav1.GetOptions{})
			if !test.stays {
				require.NoError(t, gone(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, object.UID, after.UID, "it is the same object")
			require.Nil(t, after.DeletionTimestamp)
		})
	}
}

// TestWorksThatGoAtOnce are deleted while they are being applied. None leaves anything behind.
func TestWorksThatGoAtOnce(t *testing.T) {
	b, ctx := start(t)
	works := b.works.WorkV1().ManifestWorks(first)
	for i := range 20 {
		name := fmt.Sprintf("fleeting-%d", i)
		_, err := works.Create(ctx, &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifestsOf(t, configMap("default", name, "x"))}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, works.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for i := range 20 {
		name := fmt.Sprintf("fleeting-%d", i)
		eventually(t, ctx, name+" is gone from hub and cluster", func() error {
			_, err := works.Get(ctx, name, metav1.GetOptions{})
			return errors.Join(gone(err), b.configMapGone(ctx, first, "default", name))
		})
	}
}
