package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/placement"
)

// TestPlacementCommands makes placements by nave placement and has them explained.
func TestPlacementCommands(t *testing.T) {
	b, ctx := start(t)
	const ns = "placed-by-command"
	t.Cleanup(func() { _ = b.hub.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	nave := func(arguments ...string) (string, string, int) {
		return b.run(t, append(append([]string{"placement"}, arguments...), "--data-dir", b.hubData(t))...)
	}

	_, errs, code := nave("create", "app", "-n", ns, "--set", "nowhere")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "has no cluster set nowhere")
	_, err := b.hub.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	require.NoError(t, gone(err), "nothing is made for a placement that cannot be")

	_, errs, code = nave("create", "app", "-n", ns)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "no cluster set of hub")
	_, errs, code = nave("create", "app", "-n", ns, "--set", "global", "--dry-run=server")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "has no namespace placed-by-command, so it cannot try")
	_, err = b.hub.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	require.NoError(t, gone(err))

	out, errs, code := nave("create", "app", "-n", ns, "--set", "global", "--count", "1")
	require.Zero(t, code, errs)
	require.Equal(t, "namespace placed-by-command created\ncluster set global bound to namespace placed-by-command\n"+
		"placement app of namespace placed-by-command created\nit selects 1 cluster\n", out)
	_, errs, code = nave("create", "app", "-n", ns)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "placement app of namespace placed-by-command exists already")
	out, errs, code = nave("create", "tried", "-n", ns, "--set", "global,default", "--dry-run=server")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?s)kind: ManagedClusterSetBinding\n.*  name: default\n.*kind: Placement\n.*  uid: `, out)
	require.NotContains(t, out, "name: global\n", "what is there is not made")
	_, err = b.clusters.ClusterV1beta1().Placements(ns).Get(ctx, "tried", metav1.GetOptions{})
	require.NoError(t, gone(err))
	rendered, errs, code := nave("create", "rendered", "-n", ns, "--set", "global", "--dry-run=client")
	require.Zero(t, code, errs)
	file := filepath.Join(t.TempDir(), "placement.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rendered), 0o600))
	out, errs, code = b.run(t, "kubectl", "apply", "--data-dir", b.hubData(t), "-f", file)
	require.Zero(t, code, errs)
	require.Contains(t, out, "placement.cluster.open-cluster-management.io/rendered created\n")
	out, errs, code = nave("create", "shown", "-n", ns, "-o", "yaml")
	require.Zero(t, code, errs)
	require.Regexp(t, `^---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n`, out)

	out, errs, code = nave("create", "none", "-n", ns, "--labels", "moon=full")
	require.Zero(t, code, errs)
	require.Contains(t, out, "it selects no cluster: No ManagedCluster matches any of the cluster predicate")

	out, errs, code = nave("create", "many", "-n", ns, "--set", "default", "--count", "1000", "--timeout", "1h")
	require.Zero(t, code, errs)
	require.Contains(t, out, "cluster set default bound to namespace placed-by-command\n", "the hub may not have seen it yet, and is asked for no longer than until it has")
	require.Contains(t, out, "it selects 2 clusters: 998 cluster decisions unscheduled")

	out, errs, code = nave("list", "-n", ns)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^placed-by-command +app +yes +AllDecisionsScheduled +1 +1 `, out)
	require.Regexp(t, `(?m)^placed-by-command +none +no +NoManagedClusterMatched +all +0 `, out)

	out, errs, code = nave("explain", "app", "-n", ns)
	require.Zero(t, code, errs)
	require.Contains(t, out, "1 of 2 clusters selected; kept out: 1 by NumberOfClusters\n")
	out, errs, code = nave("explain", "none", "-n", ns, "--cluster", first)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^cluster1 +no +Predicate +.*moon=full`, out)
	require.NotContains(t, out, second)
	out, errs, code = nave("explain", "app", "-n", ns, "-o", "json")
	require.Zero(t, code, errs)
	var x placement.Explanation
	require.NoError(t, json.Unmarshal([]byte(out), &x))
	require.Len(t, x.Clusters, 2)
	_, errs, code = nave("explain", "missing", "-n", ns)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "namespace placed-by-command has no placement missing")
}
