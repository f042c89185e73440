package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/identity"
	"nave/pkg/lab"
)

// TestRestarts stop one part in one way, do something meanwhile, and start it again as it was.
func TestRestarts(t *testing.T) {
	for _, test := range []struct {
		name string
		part string
		stop func(*bench, context.Context, string) error
	}{
		{"hub, stopped", lab.HubPart, (*bench).terminate},
		{"hub, kill -9", lab.HubPart, (*bench).kill},
		{"agent, stopped", lab.AgentPart(first), (*bench).terminate},
		{"agent, kill -9", lab.AgentPart(first), (*bench).kill},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, ctx := start(t)
			b.newWork(t, ctx, first, "restart", configMap("default", "restart", "before"))
			eventually(t, ctx, "the work is available", func() error { return b.appliedAndAvailable(ctx, first, "restart") })
			requests := b.requests(t, ctx)

			require.NoError(t, test.stop(b, ctx, test.part))
			require.NoError(t, b.valueOf(ctx, first, "default", "restart", "before"), "what is applied stays")
			if test.part != lab.HubPart {
				b.changeWork(t, ctx, first, "restart", configMap("default", "restart", "meanwhile"))
			}
			require.NoError(t, b.Start(ctx, test.part))
			if test.part != lab.HubPart {
				eventually(t, ctx, "what changed meanwhile is applied", func() error { return b.valueOf(ctx, first, "default", "restart", "meanwhile") })
			}
			b.changeWork(t, ctx, first, "restart", configMap("default", "restart", "after"))
			eventually(t, ctx, "what changes afterwards is applied", func() error { return b.valueOf(ctx, first, "default", "restart", "after") })
			eventually(t, ctx, "and reported", func() error { return b.appliedAndAvailable(ctx, first, "restart") })
			require.Equal(t, requests, b.requests(t, ctx), "nobody asked for a new certificate")
		})
	}
}

func (b *bench) kill(ctx context.Context, part string) error      { return b.Kill(ctx, part) }
func (b *bench) terminate(ctx context.Context, part string) error { return b.Stop(ctx, part) }

// requests counts the signing requests of the first cluster.
func (b *bench) requests(t *testing.T, ctx context.Context) int {
	t.Helper()
	list, err := b.hub.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + "=" + first + ",!" + identity.AddOnNameLabel})
	require.NoError(t, err)
	return len(list.Items)
}

// agentProcess is an agent that a test starts beside those of the lab.
type agentProcess struct {
	cmd *exec.Cmd
	log *bytes.Buffer
}

// startAgent joins the lab's cluster to the hub under a name that need not be the cluster's own in the lab.
func startAgent(t *testing.T, b *bench, cluster, token, name, dataDir string) *agentProcess {
	t.Helper()
	return startAgentWith(t, b, b.ClusterKubeconfig(cluster), token, name, dataDir)
}

// startAgentWith does so with the access to the cluster that a kubeconfig gives.
func startAgentWith(t *testing.T, b *bench, kubeconfig, token, name, dataDir string) *agentProcess {
	t.Helper()
	hub, err := b.Hub()
	require.NoError(t, err)
	a := &agentProcess{log: &bytes.Buffer{}}
	a.cmd = exec.Command(b.binary, "agent", "--data-dir", dataDir, "--server", hub.Host, "--cluster-name", name, "--kubeconfig", kubeconfig)
	a.cmd.Env = append(os.Environ(), "NAVE_TOKEN="+token)
	a.cmd.Stdout, a.cmd.Stderr = a.log, a.log
	require.NoError(t, a.cmd.Start())
	t.Cleanup(func() {
		if a.cmd.ProcessState == nil {
			a.stop(t)
		}
		if t.Failed() {
			t.Log(a.log.String())
		}
	})
	return a
}

func (a *agentProcess) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, a.cmd.Process.Signal(syscall.SIGTERM))
	timer := time.AfterFunc(patience, func() { _ = a.cmd.Process.Kill() })
	defer timer.Stop()
	require.NoError(t, a.cmd.Wait(), "an agent that is told to stop ends well: %s", a.log)
}

// TestCrashDuringTheFirstStart kills a hub at many moments of its first start; the next start completes it, with the
// certificate authority that was there first.
func TestCrashDuringTheFirstStart(t *testing.T) {
	binary, err := nave()
	require.NoError(t, err)
	dir := t.TempDir()
	var authority []byte
	for _, after := range []time.Duration{5, 20, 50, 100, 200, 400, 800, 1600} {
		cmd := exec.Command(binary, "hub", "--data-dir", dir, "--listen", "127.0.0.1:0")
		require.NoError(t, cmd.Start())
		<-time.After(after * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if text, err := os.ReadFile(dir + "/hub/pki/server-ca.pem"); err == nil {
			if authority != nil {
				require.Equal(t, authority, text, "never a second CA")
			}
			authority = text
		}
	}
	log := &bytes.Buffer{}
	cmd := exec.Command(binary, "hub", "--data-dir", dir, "--listen", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	eventually(t, context.Background(), "the hub is ready", func() error {
		check := exec.Command(binary, "kubectl", "--data-dir", dir, "get", "managedclusters")
		return check.Run()
	})
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), log.String())
}
