package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// Two works that declare one object each have their way with their fields of it. The object lives as long as one of them.
func TestTwoWorksOneObject(t *testing.T) {
	b, ctx := start(t)
	spec := func(key, value string) string {
		return fmt.Sprintf(`{workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: shared-by-two, namespace: default}, data: {%s: %q}}]}}`, key, value)
	}
	object := func() (map[string]string, types.UID, []types.UID) {
		m, err := b.spokes[first].CoreV1().ConfigMaps("default").Get(ctx, "shared-by-two", metav1.GetOptions{})
		require.NoError(t, err)
		var owners []types.UID
		for _, o := range m.OwnerReferences {
			owners = append(owners, o.UID)
		}
		return m.Data, m.UID, owners
	}
	b.apply(t, ctx, "shared-one", spec("one", "1"))
	b.apply(t, ctx, "shared-two", spec("two", "2"))
	for _, name := range []string{"shared-one", "shared-two"} {
		eventually(t, ctx, name+" is applied", func() error { return b.appliedAndAvailable(ctx, first, name) })
	}
	data, uid, owners := object()
	require.Equal(t, map[string]string{"one": "1", "two": "2"}, data)
	require.Len(t, owners, 2)

	b.apply(t, ctx, "shared-two", spec("two", "3"))
	eventually(t, ctx, "the second work's key changes, the first one's does not", func() error {
		if data, _, _ := object(); data["two"] != "3" || data["one"] != "1" {
			return fmt.Errorf("the data are %v", data)
		}
		return b.appliedAndAvailable(ctx, first, "shared-two")
	})
	b.removeWork(t, first, "shared-two")
	survivor, err := b.appliedWork(ctx, t, "shared-one")
	require.NoError(t, err)
	data, after, owners := object()
	require.Equal(t, "1", data["one"])
	require.Equal(t, uid, after)
	require.Equal(t, []types.UID{survivor.UID}, owners)
	b.removeWork(t, first, "shared-one")
	require.NoError(t, b.configMapGone(ctx, first, "default", "shared-by-two"))
}

// Content goes before its namespace, and custom resources before their definition.
func TestOrderOfDeletion(t *testing.T) {
	b, ctx := start(t)
	b.apply(t, ctx, "orderly", `
workload:
  manifests:
  - {apiVersion: v1, kind: Namespace, metadata: {name: orderly}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: orderly, finalizers: [example.test/hold]}}`+fmt.Sprintf(voyages, "ferry", "Ferry")+`
  - {apiVersion: cases.nave.dev/v1, kind: Ferry, metadata: {name: held, namespace: orderly, finalizers: [example.test/hold]}}
`)
	eventually(t, ctx, "the work is applied", func() error { return b.appliedAndAvailable(ctx, first, "orderly") })
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	client := b.spoke(t)
	stays := func(gvr schema.GroupVersionResource, namespace, name string) {
		o, err := client.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Nil(t, o.GetDeletionTimestamp(), "%s waits for others", name)
	}
	waits := func(what string) {
		eventually(t, ctx, "the work waits for "+what, func() error {
			work, err := b.work(ctx, "orderly")
			if err != nil {
				return err
			}
			c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkDeleting)
			if c == nil || !strings.Contains(c.Message, what+" is being deleted") {
				return fmt.Errorf("the condition is %v", c)
			}
			return nil
		})
	}
	release := func(gvr schema.GroupVersionResource) {
		_, err := client.Resource(gvr).Namespace("orderly").Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, b.works.WorkV1().ManifestWorks(first).Delete(ctx, "orderly", metav1.DeleteOptions{}))
	ferry := schema.GroupVersionResource{Group: "cases.nave.dev", Version: "v1", Resource: "ferrys"}
	waits("ferrys.cases.nave.dev orderly/held")
	stays(configMaps, "orderly", "held")
	stays(definitions, "", "ferrys.cases.nave.dev")
	stays(namespaces, "", "orderly")
	release(ferry)
	waits("configmaps orderly/held")
	stays(namespaces, "", "orderly")
	release(configMaps)
	eventually(t, ctx, "all of it is gone", func() error {
		_, err := b.work(ctx, "orderly")
		_, nsErr := client.Resource(namespaces).Get(ctx, "orderly", metav1.GetOptions{})
		_, crdErr := client.Resource(definitions).Get(ctx, "ferrys.cases.nave.dev", metav1.GetOptions{})
		return errors.Join(gone(err), gone(nsErr), gone(crdErr))
	})
}

// evictee is a cluster whose agent is now and then off.
type evictee struct {
	*bench
	name, dir string
	client    *dynamic.DynamicClient
}

// on runs the agent with a grace period.
func (e *evictee) on(t *testing.T, ctx context.Context, token, grace string) *agentProcess {
	t.Helper()
	t.Setenv("NAVE_APPLIEDMANIFESTWORK_EVICTION_GRACE_PERIOD", grace)
	a := startAgent(t, e.bench, second, token, e.name, e.dir)
	eventually(t, ctx, e.name+" is available", func() error {
		mc, err := e.managedCluster(ctx, e.name)
		if err != nil {
			return err
		}
		return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, 0)
	})
	return a
}

// standing is what stands on the cluster for a work.
func (e *evictee) standing(ctx context.Context, work string) (*unstructured.Unstructured, error) {
	all, err := e.client.Resource(applied).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		if name, _, _ := unstructured.NestedString(all.Items[i].Object, "spec", "manifestWorkName"); name == work {
			return &all.Items[i], nil
		}
	}
	return nil, fmt.Errorf("nothing stands for work %s", work)
}

// evicting fails until the eviction of what stands for a work has begun, or has been called off.
func (e *evictee) evicting(ctx context.Context, work string, want bool) error {
	amw, err := e.standing(ctx, work)
	if err != nil {
		return err
	}
	if since, begun, _ := unstructured.NestedString(amw.Object, "status", "evictionStartTime"); begun != want {
		return fmt.Errorf("eviction begun: %v %s", begun, since)
	}
	return nil
}

// lose takes a work off the hub without its agent.
func (e *evictee) lose(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	works := e.works.WorkV1().ManifestWorks(e.name)
	require.NoError(t, works.Delete(ctx, name, metav1.DeleteOptions{}))
	_, err := works.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = works.Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, gone(err))
}

// An agent that was off while works went takes away at once what was deleted, and only after the grace period what is missing:
// it may be back by then.
func TestWorksThatGoWhileTheAgentIsOff(t *testing.T) {
	b, ctx := start(t)
	config, err := b.Cluster(second)
	require.NoError(t, err)
	e := &evictee{bench: b, name: "evicts", dir: t.TempDir()}
	e.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	token, stderr, code := b.run(t, "token", "create", "--data-dir", b.hubData(t), "--auto-accept")
	require.Zero(t, code, stderr)
	token = strings.TrimSpace(token)
	t.Cleanup(func() { b.run(t, "cluster", "remove", "--data-dir", b.hubData(t), "--force", "--yes", e.name) })

	agent := e.on(t, ctx, token, "1h")
	b.newWork(t, ctx, e.name, "deleted", configMap("default", "evict-deleted", "v"))
	b.newWork(t, ctx, e.name, "lost", configMap("default", "evict-lost", "v"))
	for _, name := range []string{"deleted", "lost"} {
		eventually(t, ctx, name+" is applied", func() error { return b.appliedAndAvailable(ctx, e.name, name) })
	}
	before, err := b.spokes[second].CoreV1().ConfigMaps("default").Get(ctx, "evict-lost", metav1.GetOptions{})
	require.NoError(t, err)
	agent.stop(t)

	require.NoError(t, b.works.WorkV1().ManifestWorks(e.name).Delete(ctx, "deleted", metav1.DeleteOptions{}))
	e.lose(t, ctx, "lost")
	require.NoError(t, b.valueOf(ctx, second, "default", "evict-deleted", "v"), "nothing goes while the agent is off")
	agent = e.on(t, ctx, "", "1h")
	eventually(t, ctx, "what was deleted goes, with its work", func() error {
		_, err := b.works.WorkV1().ManifestWorks(e.name).Get(ctx, "deleted", metav1.GetOptions{})
		return errors.Join(gone(err), b.configMapGone(ctx, second, "default", "evict-deleted"))
	})
	eventually(t, ctx, "the grace period of what is missing begins", func() error { return e.evicting(ctx, "lost", true) })
	require.NoError(t, b.valueOf(ctx, second, "default", "evict-lost", "v"))

	b.newWork(t, ctx, e.name, "lost", configMap("default", "evict-lost", "v"))
	eventually(t, ctx, "the work is back in time", func() error {
		return errors.Join(b.appliedAndAvailable(ctx, e.name, "lost"), e.evicting(ctx, "lost", false))
	})
	after, err := b.spokes[second].CoreV1().ConfigMaps("default").Get(ctx, "evict-lost", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.UID, after.UID)
	agent.stop(t)

	e.lose(t, ctx, "lost")
	e.on(t, ctx, "", "1s")
	eventually(t, ctx, "it goes when the grace period is over", func() error {
		if _, err := e.standing(ctx, "lost"); err == nil {
			return errors.New("something still stands for the work")
		}
		return b.configMapGone(ctx, second, "default", "evict-lost")
	})
}
