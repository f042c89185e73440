package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/lab"
)

func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestJoined(t *testing.T) {
	b, ctx := start(t)
	for _, name := range []string{first, second} {
		t.Run(name, func(t *testing.T) {
			mc, err := b.managedCluster(ctx, name)
			require.NoError(t, err)
			for _, kind := range []string{clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
				require.NoError(t, conditionIs(mc.Status.Conditions, kind, metav1.ConditionTrue, 0))
			}
			eventually(t, ctx, "version, capacity and heartbeat are there", func() error {
				mc, err := b.managedCluster(ctx, name)
				if err != nil {
					return err
				}
				lease, err := b.hub.CoordinationV1().Leases(name).Get(ctx, "managed-cluster-lease", metav1.GetOptions{})
				if err != nil {
					return err
				}
				cpu := mc.Status.Capacity[clusterv1.ResourceCPU]
				if !strings.HasPrefix(mc.Status.Version.Kubernetes, "v1.") || cpu.IsZero() || lease.Spec.RenewTime == nil {
					return fmt.Errorf("status is %v, lease %v", mc.Status, lease.Spec)
				}
				return nil
			})
			secret, err := b.spokes[name].CoreV1().Secrets("open-cluster-management-agent").Get(ctx, "hub-kubeconfig-secret", metav1.GetOptions{})
			require.NoError(t, err)
			for _, key := range []string{"kubeconfig", "cluster-name", "agent-name", "tls.crt", "tls.key"} {
				require.NotEmpty(t, secret.Data[key], key)
			}
		})
	}
}

// TestClustersCannotReadEachOther uses the access that the agents really have.
func TestClustersCannotReadEachOther(t *testing.T) {
	b, ctx := start(t)
	b.newWork(t, ctx, second, "private", configMap("default", "private", "a"))
	config := b.agentIdentity(t, b.agentData(t, first))
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	works, err := workclient.NewForConfig(config)
	require.NoError(t, err)
	clusters, err := clusterclient.NewForConfig(config)
	require.NoError(t, err)

	_, err = works.WorkV1().ManifestWorks(first).List(ctx, metav1.ListOptions{})
	require.NoError(t, err, "its own works")
	_, err = clusters.ClusterV1().ManagedClusters().Get(ctx, first, metav1.GetOptions{})
	require.NoError(t, err, "itself")
	for what, call := range map[string]func() error{
		"works of the other": func() error {
			_, err := works.WorkV1().ManifestWorks(second).List(ctx, metav1.ListOptions{})
			return err
		},
		"one work of the other": func() error {
			_, err := works.WorkV1().ManifestWorks(second).Get(ctx, "private", metav1.GetOptions{})
			return err
		},
		"works of all": func() error {
			_, err := works.WorkV1().ManifestWorks("").List(ctx, metav1.ListOptions{})
			return err
		},
		"watch of all works": func() error {
			_, err := works.WorkV1().ManifestWorks("").Watch(ctx, metav1.ListOptions{})
			return err
		},
		"the other cluster": func() error {
			_, err := clusters.ClusterV1().ManagedClusters().Get(ctx, second, metav1.GetOptions{})
			return err
		},
		"all clusters": func() error {
			_, err := clusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{})
			return err
		},
		"lease of the other": func() error {
			_, err := kube.CoordinationV1().Leases(second).Get(ctx, "managed-cluster-lease", metav1.GetOptions{})
			return err
		},
		"secrets of its own namespace": func() error {
			_, err := kube.CoreV1().Secrets(first).List(ctx, metav1.ListOptions{})
			return err
		},
		"join tokens": func() error {
			_, err := kube.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
	} {
		require.True(t, apierrors.IsForbidden(call()), "%s: %v", what, call())
	}
}

// TestTokens shows each way in which a token does not work: its own message and exit code.
func TestTokens(t *testing.T) {
	b, ctx := start(t)
	hub, err := b.Hub()
	require.NoError(t, err)
	create := func(t *testing.T, arguments ...string) string {
		out, stderr, code := b.run(t, append([]string{"token", "create", "--data-dir", b.hubData(t)}, arguments...)...)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "nave agent --server "+hub.Host)
		return strings.TrimSpace(out)
	}
	join := func(t *testing.T, token, server, cluster string) (string, int) {
		_, stderr, code := b.runWith(t, []string{"NAVE_TOKEN=" + token}, "agent", "--data-dir", t.TempDir(),
			"--server", server, "--cluster-name", cluster, "--kubeconfig", b.ClusterKubeconfig(second))
		return stderr, code
	}
	good := create(t)
	id := strings.Split(good, ".")[2]
	otherHub := strings.Replace(good, strings.Split(good, ".")[1], strings.Repeat("A", 43), 1)
	unknown := strings.Replace(good, id, "aaaaaaaaaa", 1)
	revoked := create(t)
	_, stderr, code := b.run(t, "token", "revoke", "--data-dir", b.hubData(t), strings.Split(revoked, ".")[2])
	require.Zero(t, code, stderr)
	expired := create(t, "--ttl", "1s")
	eventually(t, ctx, "the token has expired", func() error {
		list, _, _ := b.run(t, "token", "list", "--data-dir", b.hubData(t))
		if !strings.Contains(list, "expired") {
			return errors.New(list)
		}
		return nil
	})

	for _, test := range []struct {
		name, token, server, cluster string
		code                         int
		want                         string
	}{
		{"malformed", good[:20], hub.Host, "new", 4, "malformed"},
		{"of another hub", otherHub, hub.Host, "new", 5, "another hub"},
		{"unknown", unknown, hub.Host, "new", 9, "not known"},
		{"revoked", revoked, hub.Host, "new", 8, "revoked"},
		{"expired", expired, hub.Host, "new", 7, "expired"},
		{"hub unreachable", good, "https://127.0.0.1:1", "new", 3, "127.0.0.1:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stderr, code := join(t, test.token, test.server, test.cluster)
			require.Equal(t, test.code, code, stderr)
			require.Contains(t, stderr, test.want)
			require.NotContains(t, stderr, "goroutine")
			require.NotContains(t, stderr, strings.Split(good, ".")[3], "a token's secret is never shown")
		})
	}
	list, stderr, code := b.run(t, "token", "list", "--data-dir", b.hubData(t))
	require.Zero(t, code, stderr)
	require.Contains(t, list, id)
	require.Contains(t, list, "revoked")
	require.NotContains(t, list, strings.Split(good, ".")[3])
}

// TestHeartbeatsThatStop turn a cluster Unknown, and back once they come again.
func TestHeartbeatsThatStop(t *testing.T) {
	b, ctx := start(t)
	setLease := func(seconds int32) {
		eventually(t, ctx, "the lease duration is set", func() error {
			mc, err := b.managedCluster(ctx, second)
			if err != nil {
				return err
			}
			mc.Spec.LeaseDurationSeconds = seconds
			_, err = b.clusters.ClusterV1().ManagedClusters().Update(ctx, mc, metav1.UpdateOptions{})
			return err
		})
	}
	available := func(status metav1.ConditionStatus) func() error {
		return func() error {
			mc, err := b.managedCluster(ctx, second)
			if err != nil {
				return err
			}
			return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, status, 0)
		}
	}
	setLease(1)
	t.Cleanup(func() { setLease(60) })
	require.NoError(t, b.Kill(ctx, lab.AgentPart(second)))
	eventually(t, ctx, "the cluster is unknown", available(metav1.ConditionUnknown))
	eventually(t, ctx, "it is tainted, which is another write", func() error {
		mc, err := b.managedCluster(ctx, second)
		if err == nil && !strings.Contains(fmt.Sprint(mc.Spec.Taints), "cluster.open-cluster-management.io/unreachable") {
			err = fmt.Errorf("its taints are %v", mc.Spec.Taints)
		}
		return err
	})
	require.NoError(t, b.Start(ctx, lab.AgentPart(second)))
	eventually(t, ctx, "the cluster is available again", available(metav1.ConditionTrue))
}

// TestClusterComesAndGoes has a lab of its own, in which a cluster is removed, and joins again under another name and
// without automatic acceptance.
func TestClusterComesAndGoes(t *testing.T) {
	b, ctx := ownLab(t)
	_, stderr, code := b.run(t, "cluster", "remove", "--data-dir", b.hubData(t), first)
	require.Zero(t, code, stderr)
	_, err := b.managedCluster(ctx, first)
	require.NoError(t, gone(err))
	require.NoError(t, b.Stop(ctx, lab.AgentPart(first)))
	require.NoError(t, b.spokes[first].CoreV1().Secrets("open-cluster-management-agent").Delete(ctx, "hub-kubeconfig-secret", metav1.DeleteOptions{}))

	out, stderr, code := b.run(t, "token", "create", "--data-dir", b.hubData(t))
	require.Zero(t, code, stderr)
	dir := filepath.Join(t.TempDir(), "data")
	startAgent(t, b, first, strings.TrimSpace(out), "guest", dir)
	status := func(want int, text string) func() error {
		return func() error {
			out, stderr, code := b.run(t, "agent", "status", "--data-dir", dir)
			if code != want || !strings.Contains(out, text) {
				return fmt.Errorf("exit code %d, %s%s", code, out, stderr)
			}
			return nil
		}
	}
	eventually(t, ctx, "the cluster waits for acceptance", func() error {
		_, err := b.managedCluster(ctx, "guest")
		return err
	})
	list, stderr, code := b.run(t, "cluster", "list", "--data-dir", b.hubData(t))
	require.Zero(t, code, stderr)
	require.Contains(t, list, "guest")
	eventually(t, ctx, "it can be accepted", func() error {
		if _, stderr, code := b.run(t, "cluster", "accept", "--data-dir", b.hubData(t), "guest"); code != 0 {
			return errors.New(stderr)
		}
		return nil
	})
	eventually(t, ctx, "it is available", func() error {
		mc, err := b.managedCluster(ctx, "guest")
		if err != nil {
			return err
		}
		return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, 0)
	})
	eventually(t, ctx, "its agent says so", status(0, "guest"))

	_, stderr, code = b.run(t, "cluster", "reject", "--data-dir", b.hubData(t), "guest")
	require.Zero(t, code, stderr)
	works, err := workclient.NewForConfig(b.agentIdentity(t, dir))
	require.NoError(t, err)
	eventually(t, ctx, "a rejected cluster has no access to works", func() error {
		if _, err := works.WorkV1().ManifestWorks("guest").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the list gives %v", err)
		}
		return nil
	})
	eventually(t, ctx, "its agent says so", status(1, "not accept"))
	_, stderr, code = b.run(t, "cluster", "accept", "--data-dir", b.hubData(t), "guest")
	require.Zero(t, code, stderr)
	eventually(t, ctx, "the agent goes on by itself", status(0, "guest"))
}

// TestDecisionsThatFollowEachOther accept and deny clusters without an agent, faster than the hub can act on them.
func TestDecisionsThatFollowEachOther(t *testing.T) {
	b, ctx := start(t)
	decide := func(name string, accepted bool) {
		eventually(t, ctx, "the decision is written", func() error {
			mc, err := b.managedCluster(ctx, name)
			if err != nil {
				return err
			}
			mc.Spec.HubAcceptsClient = accepted
			_, err = b.clusters.ClusterV1().ManagedClusters().Update(ctx, mc, metav1.UpdateOptions{})
			return err
		})
	}
	for i := range 10 {
		name := fmt.Sprintf("decided-%d", i)
		_, err := b.clusters.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = b.clusters.ClusterV1().ManagedClusters().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
		decide(name, true)
		decide(name, false)
		eventually(t, ctx, "a denied cluster has no rights", func() error {
			bindings, err := b.hub.RbacV1().RoleBindings(name).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			mc, err := b.managedCluster(ctx, name)
			if err != nil {
				return err
			}
			if len(bindings.Items) > 0 {
				return fmt.Errorf("%d role bindings are left", len(bindings.Items))
			}
			if len(mc.Finalizers) < 2 {
				return nil // the hub did not get to accept it
			}
			return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse, 0)
		})
		decide(name, true)
		eventually(t, ctx, "a cluster that is accepted again has them", func() error {
			mc, err := b.managedCluster(ctx, name)
			if err != nil {
				return err
			}
			return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionTrue, 0)
		})
	}
	require.NoError(t, b.hub.RbacV1().ClusterRoles().Delete(ctx, "open-cluster-management:managedcluster:work", metav1.DeleteOptions{}))
	eventually(t, ctx, "the role of all clusters is back", func() error {
		_, err := b.hub.RbacV1().ClusterRoles().Get(ctx, "open-cluster-management:managedcluster:work", metav1.GetOptions{})
		return err
	})
}
