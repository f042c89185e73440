package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRollout rolls content out one cluster after the other: a failure stops it, the old content brings everything back, and
// while it is paused nothing new is begun.
func TestRollout(t *testing.T) {
	b, ctx := start(t)
	const ns, name = "rolled-out", "rolled-out"
	for _, cluster := range []string{first, second} {
		_, err := b.clusters.ClusterV1().ManagedClusters().Patch(ctx, cluster, types.MergePatchType, []byte(`{"metadata":{"labels":{"rolled-out":"yes"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	out, errs, code := b.run(t, "placement", "create", name, "-n", ns, "--set", "global", "--labels", "rolled-out=yes", "--data-dir", b.hubData(t))
	require.Zero(t, code, errs)
	require.Contains(t, out, "it selects 2 clusters\n")
	t.Cleanup(func() {
		_, _, _ = b.naveWork(t, "", "delete", name, "-n", ns, "--replica-set", "--wait=false")
		_ = b.hub.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
	content := func(value string, more ...string) string {
		return strings.Join(append([]string{namespace(ns), configMap(ns, "settings", value)}, more...), "\n---\n")
	}
	apply := func(input string) (string, string, int) {
		return b.naveWork(t, input, "apply", "-f", "-", "--name", name, "--placement", name, "-n", ns, "--rollout", "progressive", "--max-concurrency", "1", "--foreground", "--wait=1m")
	}
	status := func() string {
		out, errs, code := b.naveWork(t, "", "rollout", "status", name, "-n", ns)
		require.Zero(t, code, errs)
		return out
	}

	out, errs, code = apply(content("a"))
	require.Zero(t, code, errs)
	require.Contains(t, out, "replica set rolled-out of namespace rolled-out created (2 manifests)\n")
	require.Contains(t, out, "rollout rolled-out: all selected clusters have succeeded\n")
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))
	require.NoError(t, b.valueOf(ctx, second, ns, "settings", "a"))
	require.Regexp(t, `(?m)^rolled-out +2 +2 +2 +0 +0 +0 +0$`, status())

	_, errs, code = b.run(t, "placement", "create", "elsewhere", "-n", ns, "--set", "global", "--labels", "rolled-out=no", "--data-dir", b.hubData(t))
	require.Zero(t, code, errs)
	_, errs, code = b.naveWork(t, content("a"), "apply", "-f", "-", "--name", name, "--placement", "elsewhere", "-n", ns)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "goes to placement rolled-out, and not to elsewhere")
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))
	_, errs, code = b.naveWork(t, content("a"), "apply", "-f", "-", "--name", name, "--placement", name, "-n", ns, "--rollout", "progressive", "--mandatory-groups", "canary")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "so none is canary")

	out, errs, code = b.naveWork(t, content("b"), "apply", "-f", "-", "--name", name, "--placement", name, "-n", ns, "--dry-run=server")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?s)kind: ManifestWorkReplicaSet\n.*  name: rolled-out\n.*value: b\n.*type: Progressive\n`, out)
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))

	out, errs, code = apply(content("b", configMap("not-there", "settings", "b")))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "has stopped, failed clusters: 1, waiting: 1")
	require.Regexp(t, `(?m)^cluster1 +rolled-out +ConfigMap not-there/settings is failed: .*not-there`, out, "who waits is told why")
	require.Regexp(t, `(?m)^cluster1 +rolled-out +ConfigMap not-there/settings is failed: .*not-there`, status())
	require.NoError(t, b.valueOf(ctx, second, ns, "settings", "a"), "after a failure no other cluster gets it")

	_, errs, code = apply(content("a"))
	require.Zero(t, code, errs)
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))

	_, errs, code = b.naveWork(t, "", "rollout", "pause", name, "-n", ns)
	require.Zero(t, code, errs)
	_, errs, code = apply(content("c"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "is paused; nave work rollout resume rolled-out -n rolled-out lets it go on")
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))
	_, errs, code = b.naveWork(t, "", "rollout", "resume", name, "-n", ns)
	require.Zero(t, code, errs)
	_, errs, code = b.naveWork(t, "", "rollout", "status", name, "-n", ns, "-w")
	require.Zero(t, code, errs)
	require.NoError(t, b.valueOf(ctx, second, ns, "settings", "c"))

	list, err := b.works.WorkV1().ManifestWorks(first).List(ctx, metav1.ListOptions{LabelSelector: "work.open-cluster-management.io/manifestworkreplicaset=rolled-out.rolled-out"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	_, errs, code = b.naveWork(t, "", "delete", list.Items[0].Name, "--cluster", first)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "the hub would make it again")
	require.Contains(t, errs, "nave work delete rolled-out --replica-set -n rolled-out")
	out, errs, code = b.naveWork(t, "", "list", "-A", "-o", "wide")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^cluster2 +rolled-out.* rolled-out/rolled-out +rolled-out$`, out)
	_, errs, code = b.naveWork(t, content("c"), "apply", "-f", "-", "--name", name, "--placement", name, "-n", ns)
	require.Zero(t, code, errs)
	set, err := b.works.WorkV1alpha1().ManifestWorkReplicaSets(ns).Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "Progressive", string(set.Spec.PlacementRefs[0].RolloutStrategy.Type), "who says nothing of the rollout does not change it")
	require.Equal(t, "Background", string(set.Spec.CascadeDeletionPolicy))
	out, errs, code = b.naveWork(t, "", "delete", name, "-n", ns, "--replica-set")
	require.Zero(t, code, errs)
	require.Equal(t, "replica set rolled-out of namespace rolled-out deleted\n", out)
	for _, cluster := range []string{first, second} {
		_, err := b.spokes[cluster].CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		require.NoError(t, gone(err), "what is deleted has gone from %s", cluster)
	}
}
