package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// agentFinalizer is what an agent holds a work with until it has cleaned up.
const agentFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"

// departed makes an accepted cluster that has a work and will never have an agent again.
func (b *bench) departed(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	clusters := b.clusters.ClusterV1().ManagedClusters()
	_, err := clusters.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { b.run(t, "cluster", "remove", "--data-dir", b.hubData(t), "--force", "--yes", name) })
	eventually(t, ctx, "it is accepted", func() error {
		mc, err := b.managedCluster(ctx, name)
		if err != nil {
			return err
		}
		return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionTrue, 0)
	})
	_, err = b.works.WorkV1().ManifestWorks(name).Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{agentFinalizer}},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifestsOf(t, configMap("default", "stuck", "a"))}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (b *bench) worksGone(ctx context.Context, cluster string) error {
	list, err := b.works.WorkV1().ManifestWorks(cluster).List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("%d works are left, the first with finalizers %v", len(list.Items), list.Items[0].Finalizers)
	}
	return err
}

// TestRemovalWithoutAgent removes a cluster whose agent is gone for ever, and has it back under its name.
func TestRemovalWithoutAgent(t *testing.T) {
	b, ctx := start(t)
	const name = "departed"
	b.departed(t, ctx, name)
	remove := func(flags ...string) (stdout, stderr string, code int) {
		return b.run(t, append(append([]string{"cluster", "remove", "--data-dir", b.hubData(t)}, flags...), name)...)
	}

	_, stderr, code := remove("--timeout", "1s")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "1 works: stuck (held by "+agentFinalizer+")")
	require.Contains(t, stderr, "the cluster is not available")
	require.Contains(t, stderr, "nave cluster remove --force "+name)

	_, stderr, code = remove("--force")
	require.Equal(t, 2, code, "nobody is there to agree: %s", stderr)
	require.Contains(t, stderr, "--yes")

	stdout, stderr, code := remove("--force", "--yes")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "what these applied stays on it: 1 works: stuck")
	_, err := b.managedCluster(ctx, name)
	require.NoError(t, gone(err))
	require.NoError(t, b.worksGone(ctx, name))
	eventually(t, ctx, "an event says what stays behind", func() error {
		events, err := b.hub.EventsV1().Events(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "RemovedWithoutAgent" {
				require.Contains(t, e.Note, "1 manifestworks (stuck)")
				return nil
			}
		}
		return errors.New("there is none")
	})

	b.departed(t, ctx, name) // at once, and accepted
}

// TestForcedOffTheHub takes the finalizers off a cluster by hand, as people do: its works go nevertheless.
func TestForcedOffTheHub(t *testing.T) {
	b, ctx := start(t)
	const name = "forced-off"
	b.departed(t, ctx, name)
	clusters := b.clusters.ClusterV1().ManagedClusters()
	eventually(t, ctx, "it goes once its finalizers are gone", func() error {
		if err := clusters.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return gone(err)
		}
		if _, err := clusters.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return gone(err)
		}
		return errors.New("it is there")
	})
	eventually(t, ctx, "its works are gone", func() error { return b.worksGone(ctx, name) })
}
