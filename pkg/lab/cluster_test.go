package lab

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"nave/pkg/lab/process"
)

// TestCluster runs one managed cluster, as an `up` would, without hub and agent.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	binary, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir() + "/lab"
	l, unlock, err := open(Options{DataDir: dir, Clusters: 1, Binary: binary})
	require.NoError(t, err)
	t.Cleanup(func() {
		unlock()
		if _, err := Open(dir); err == nil {
			require.NoError(t, Down(context.Background(), dir, t.Output()))
		}
	})
	steps := newProgress(t.Output())
	require.NoError(t, l.step(ctx, steps, APIServerPart("cluster1")))
	require.NoError(t, l.step(ctx, steps, ControllerManagerPart("cluster1")))
	client, err := newClient(l.ClusterKubeconfig("cluster1"))
	require.NoError(t, err)

	t.Run("pods", func(t *testing.T) {
		for name, row := range map[string]func(context.Context, *testing.T, kubernetes.Interface){
			"deployment gets ready replicas": deployment,
			"stateful set gets its replicas": statefulSet,
			"daemon set runs on every node":  daemonSet,
			"job completes":                  job,
			"namespace goes with its pods":   namespace,
			"pod that fits nowhere waits":    unfit,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				row(ctx, t, client)
			})
		}
	})
	t.Run("a killed part comes back with what it knew", func(t *testing.T) {
		require.NoError(t, l.Kill(ctx, APIServerPart("cluster1")))
		require.NoError(t, l.Start(ctx, APIServerPart("cluster1")))
		_, err := client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		require.NoError(t, err)
	})
	t.Run("what runs is left running", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, l.step(ctx, newProgress(&out), APIServerPart("cluster1")))
		require.Contains(t, out.String(), "ran already")
	})
	t.Run("down leaves nothing, not even what it has no pid of", func(t *testing.T) {
		parts := l.Parts()
		require.NoError(t, l.change(ControllerManagerPart("cluster1"), func(p *Part) { p.Process = process.ID{} }))
		unlock()
		require.NoError(t, Down(ctx, dir, t.Output()))
		require.NoDirExists(t, dir)
		for _, p := range parts {
			require.False(t, p.Process.Alive(), p.Name)
		}
	})
}

// eventually looks until the check is content.
func eventually(ctx context.Context, t *testing.T, check func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.FailNow(t, "it did not happen", "%v", ctx.Err())
		}
	}
}

var podTemplate = corev1.PodTemplateSpec{
	ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
	Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example/web:1"}}},
}

var selector = &metav1.LabelSelector{MatchLabels: podTemplate.Labels}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func deployment(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	began := time.Now()
	d := &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3), Selector: selector, Template: podTemplate}}
	_, err := c.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(ctx, t, func() bool {
		d, err := c.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		require.NoError(t, err)
		return d.Status.AvailableReplicas == 3
	})
	t.Logf("available after %s", time.Since(began))
}

func statefulSet(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	s := &appsv1.StatefulSet{ObjectMeta: named("db"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), ServiceName: "db", Selector: selector, Template: podTemplate}}
	_, err := c.AppsV1().StatefulSets("default").Create(ctx, s, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(ctx, t, func() bool {
		s, err := c.AppsV1().StatefulSets("default").Get(ctx, "db", metav1.GetOptions{})
		require.NoError(t, err)
		return s.Status.ReadyReplicas == 2
	})
}

func daemonSet(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	d := &appsv1.DaemonSet{ObjectMeta: named("every"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: podTemplate}}
	_, err := c.AppsV1().DaemonSets("default").Create(ctx, d, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(ctx, t, func() bool {
		d, err := c.AppsV1().DaemonSets("default").Get(ctx, "every", metav1.GetOptions{})
		require.NoError(t, err)
		return d.Status.NumberAvailable == DefaultNodes
	})
}

func job(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	template := *podTemplate.DeepCopy()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j := &batchv1.Job{ObjectMeta: named("once"), Spec: batchv1.JobSpec{Completions: ptr.To[int32](3), Parallelism: ptr.To[int32](3), Template: template}}
	_, err := c.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(ctx, t, func() bool {
		j, err := c.BatchV1().Jobs("default").Get(ctx, "once", metav1.GetOptions{})
		require.NoError(t, err)
		return j.Status.Succeeded == 3 && j.Status.CompletionTime != nil
	})
}

func namespace(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: named("short")}, metav1.CreateOptions{})
	require.NoError(t, err)
	// Both kinds of pod, with and without somebody else's finalizer on them.
	jobTemplate := *podTemplate.DeepCopy()
	jobTemplate.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	d := &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: podTemplate}}
	_, err = c.AppsV1().Deployments("short").Create(ctx, d, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.BatchV1().Jobs("short").Create(ctx, &batchv1.Job{ObjectMeta: named("once"), Spec: batchv1.JobSpec{Template: jobTemplate}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(ctx, t, func() bool {
		pods, err := c.CoreV1().Pods("short").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		return len(pods.Items) == 2
	})
	require.NoError(t, c.CoreV1().Namespaces().Delete(ctx, "short", metav1.DeleteOptions{}))
	eventually(ctx, t, func() bool {
		_, err := c.CoreV1().Namespaces().Get(ctx, "short", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// unfit waits for no node that matches, and runs as soon as one does.
func unfit(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	p := &corev1.Pod{ObjectMeta: named("picky"), Spec: *podTemplate.Spec.DeepCopy()}
	p.Spec.NodeSelector = map[string]string{"disk": "fast"}
	// The controllers make the account in parallel with this test.
	eventually(ctx, t, func() bool {
		_, err := c.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
		return err == nil
	})
	got, err := c.CoreV1().Pods("default").Get(ctx, "picky", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, got.Spec.NodeName)
	node, err := c.CoreV1().Nodes().Get(ctx, "cluster1-node-2", metav1.GetOptions{})
	require.NoError(t, err)
	node.Labels["disk"] = "fast"
	_, err = c.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(ctx, t, func() bool {
		got, err := c.CoreV1().Pods("default").Get(ctx, "picky", metav1.GetOptions{})
		require.NoError(t, err)
		return got.Spec.NodeName == node.Name && got.Status.Phase == corev1.PodRunning
	})
}
