package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// naveWork calls nave work as a user of the lab's hub does, with input for -f -.
func (b *bench) naveWork(t *testing.T, input, verb string, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.binary, append([]string{"work", verb, "--data-dir", b.hubData(t)}, arguments...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "nave work %s %v did not end: %s", verb, arguments, errs.String())
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestWorkCommands gives a cluster an application by nave work, changes it, and takes it away.
func TestWorkCommands(t *testing.T) {
	b, ctx := start(t)
	const ns, name = "by-command", "by-command"
	to := []string{"--cluster", first}
	application := strings.Join([]string{namespace(ns), "# a comment", configMap(ns, "settings", "a"), deployment(ns, "app", 2),
		"{apiVersion: batch/v1, kind: Job, metadata: {name: init, namespace: by-command, creationTimestamp: null}, spec: {activeDeadlineSeconds: null, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}"}, "\n---\n")
	t.Cleanup(func() { b.removeWork(t, first, name) })

	out, errs, code := b.naveWork(t, application, "apply", append(to, "-f", "-", "--name", name, "--feedback", "--wait")...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "work by-command of cluster cluster1 created (4 manifests)\n")
	require.Contains(t, out, "cluster1/by-command: Deployment by-command/app applied and available\n")
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))

	out, errs, code = b.naveWork(t, "", "status", append(to, name, "-o", "json")...)
	require.Zero(t, code, errs)
	var reports []struct {
		Applied, Available string
		Manifests          []struct{ State, Kind, Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &reports))
	require.Len(t, reports, 1)
	require.Equal(t, "True", reports[0].Applied)
	require.Len(t, reports[0].Manifests, 4)

	eventually(t, ctx, "the status of the Deployment is fed back", func() error {
		out, errs, _ := b.naveWork(t, "", "status", append(to, name)...)
		if !strings.Contains(out, "Replicas=2") {
			return errors.New(out + errs)
		}
		return nil
	})

	out, errs, code = b.naveWork(t, application, "diff", append(to, "-f", "-", "--name", name, "--feedback")...)
	require.Zero(t, code, errs)
	require.Empty(t, out)
	changed := strings.Replace(application, "value: a", "value: b", 1)
	out, errs, code = b.naveWork(t, changed, "diff", append(to, "-f", "-", "--name", name, "--feedback")...)
	require.Equal(t, 1, code, errs)
	require.Empty(t, errs, "differences are no error")
	require.Contains(t, out, "-  value: a\n+  value: b\n")
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "a"))

	settings, err := b.spokes[first].CoreV1().ConfigMaps(ns).Get(ctx, "settings", metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(settings.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "work-agent-"+name && f.Operation == metav1.ManagedFieldsOperationApply
	}), "diff asks the cluster under the name that the agent has: %v", settings.ManagedFields)
	out, errs, code = b.naveWork(t, "", "diff", append(to, name, "--cluster-kubeconfig", b.ClusterKubeconfig(first))...)
	require.Zero(t, code, "%s%s", out, errs)
	_, errs, code = b.naveWork(t, "", "diff", append(to, name, "--cluster-kubeconfig", b.ClusterKubeconfig(second))...)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "it is another cluster")

	_, errs, code = b.naveWork(t, changed, "apply", append(to, "-f", "-", "--name", name, "--wait=1m")...)
	require.Zero(t, code, errs)
	require.NoError(t, b.valueOf(ctx, first, ns, "settings", "b"))
	out, errs, code = b.naveWork(t, "", "list", to...)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^cluster1 +by-command +4 +True +True `, out)

	out, errs, code = b.naveWork(t, "", "delete", append(to, name)...)
	require.Zero(t, code, errs)
	require.Equal(t, "work by-command of cluster cluster1 deleted\n", out)
	_, err = b.spokes[first].CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	require.NoError(t, gone(err))
	_, errs, code = b.naveWork(t, "", "status", append(to, name)...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "cluster cluster1 has no work by-command")
}

// TestWorkCommandsSayWhatFails has an object that somebody else holds.
func TestWorkCommandsSayWhatFails(t *testing.T) {
	b, ctx := start(t)
	const name = "contested"
	maps := b.spokes[first].CoreV1().ConfigMaps("default")
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": "theirs"}}, metav1.CreateOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	t.Cleanup(func() {
		b.removeWork(t, first, name)
		_ = maps.Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	file := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(file, []byte(configMap("default", name, "ours")+"\n---\n"+configMap("default", name+"-2", "fine")), 0o600))

	whole := fmt.Sprintf(`{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: contested}, spec: {workload: {manifests: [%s, %s]},
  manifestConfigs: [{resourceIdentifier: {resource: configmaps, name: contested, namespace: default}, updateStrategy: {type: ServerSideApply, serverSideApply: {force: false}}}]}}`,
		configMap("default", name, "ours"), configMap("default", name+"-2", "fine"))
	out, errs, code := b.naveWork(t, whole, "apply", "--cluster", first, "-f", "-", "--wait=3s")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "work contested of cluster cluster1 created (2 manifests)")
	require.Contains(t, errs, "contested of cluster cluster1 is not applied and available after 3s: ConfigMap default/contested is failed: ")
	require.Contains(t, errs, "conflict")
	out, errs, code = b.naveWork(t, "", "status", name, "--cluster", first)
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^failed +True +ConfigMap +default/contested +- +.*conflict`, out)
	require.Regexp(t, `(?m)^applied +True +ConfigMap +default/contested-2 `, out)
	out, errs, code = b.naveWork(t, "", "diff", name, "--cluster", first, "--cluster-kubeconfig", b.ClusterKubeconfig(first))
	require.Equal(t, 1, code, errs)
	require.Contains(t, out, "# cluster1/contested, ConfigMap default/contested: the cluster refuses what the work wants: ")

	_, errs, code = b.naveWork(t, "", "apply", "--cluster", first, "-f", file, "--wait")
	require.Zero(t, code, errs)
	require.NoError(t, b.valueOf(ctx, first, "default", name, "ours"))
	_, errs, code = b.naveWork(t, "", "delete", name, "--cluster", first, "--orphan")
	require.Zero(t, code, errs)
	require.NoError(t, b.valueOf(ctx, first, "default", name, "ours"), "what is orphaned stays")
	require.NoError(t, maps.Delete(ctx, name+"-2", metav1.DeleteOptions{}))
}

// TestWorkCommandsMove lets a work grow until something has to move to another one. It is the same object afterwards.
func TestWorkCommandsMove(t *testing.T) {
	b, ctx := start(t)
	const name, ns = "moving", "moving"
	t.Cleanup(func() { _, _, _ = b.naveWork(t, "", "delete", name, "--cluster", first) })
	input := func(size int) string {
		all := []string{namespace(ns)}
		for i := range 30 {
			all = append(all, configMap(ns, fmt.Sprintf("m%02d", i), strings.Repeat("x", size)))
		}
		return strings.Join(all, "\n---\n")
	}
	_, errs, code := b.naveWork(t, input(25<<10), "apply", "--cluster", first, "-f", "-", "--name", name, "--wait")
	require.Zero(t, code, errs)
	uids := func() map[string]types.UID {
		list, err := b.spokes[first].CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		all := map[string]types.UID{}
		for _, m := range list.Items {
			if strings.HasPrefix(m.Name, "m") {
				all[m.Name] = m.UID
			}
		}
		return all
	}
	before := uids()
	require.Len(t, before, 30)
	out, errs, code := b.naveWork(t, input(35<<10), "apply", "--cluster", first, "-f", "-", "--name", name, "--wait")
	require.Zero(t, code, errs)
	require.Contains(t, out, "work moving-3 of cluster cluster1 created")
	require.Equal(t, before, uids(), "nothing was made anew")

	_, errs, code = b.naveWork(t, input(1<<10), "apply", "--cluster", first, "-f", "-", "--name", name, "--wait")
	require.Zero(t, code, errs)
	require.Equal(t, before, uids())
	out, errs, code = b.naveWork(t, "", "delete", name, "--cluster", first)
	require.Zero(t, code, errs)
	require.Equal(t, "work moving of cluster cluster1 deleted\n", out)
	_, err := b.spokes[first].CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
	require.NoError(t, gone(err))
}
