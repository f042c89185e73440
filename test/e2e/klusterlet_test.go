package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	operatortyped "open-cluster-management.io/api/client/operator/clientset/versioned/typed/operator/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"

	"nave/pkg/lab"
)

// klusterlets is access to the Klusterlets of a cluster.
func (b *bench) klusterlets(t *testing.T, cluster string) operatortyped.KlusterletInterface {
	t.Helper()
	config, err := b.Cluster(cluster)
	require.NoError(t, err)
	client, err := operatorclient.NewForConfig(config)
	require.NoError(t, err)
	return client.OperatorV1().Klusterlets()
}

// reasonIs fails until a condition of the Klusterlet has the status and reason.
func reasonIs(ctx context.Context, klusterlets operatortyped.KlusterletInterface, kind, want string) error {
	k, err := klusterlets.Get(ctx, "klusterlet", metav1.GetOptions{})
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(k.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s among %v", kind, k.Status.Conditions)
	}
	if got := string(c.Status) + "/" + c.Reason; got != want {
		return fmt.Errorf("condition %s is %s (%s), not %s", kind, got, c.Message, want)
	}
	return nil
}

// TestDetach deletes the Klusterlet: the agent goes, what was applied stays, and the cluster can join again.
func TestDetach(t *testing.T) {
	b, ctx := ownLab(t)
	klusterlets := b.klusterlets(t, first)
	config, err := b.Cluster(first)
	require.NoError(t, err)
	applied := workclient.NewForConfigOrDie(config).WorkV1().AppliedManifestWorks()
	b.newWork(t, ctx, first, "stays", configMap("default", "stays", "before"))
	eventually(t, ctx, "the work is available", func() error { return b.appliedAndAvailable(ctx, first, "stays") })
	object, err := b.spokes[first].CoreV1().ConfigMaps("default").Get(ctx, "stays", metav1.GetOptions{})
	require.NoError(t, err)
	part, err := b.Part(lab.AgentPart(first))
	require.NoError(t, err)

	eventually(t, ctx, "there is a Klusterlet", func() error {
		return reasonIs(ctx, klusterlets, "HubConnectionDegraded", "False/HubConnectionFunctional")
	})
	require.NoError(t, klusterlets.Delete(ctx, "klusterlet", metav1.DeleteOptions{}))
	eventually(t, ctx, "the Klusterlet is gone", func() error {
		_, err := klusterlets.Get(ctx, "klusterlet", metav1.GetOptions{})
		return gone(err)
	})
	_, err = b.spokes[first].CoreV1().Namespaces().Get(ctx, "open-cluster-management-agent", metav1.GetOptions{})
	require.NoError(t, gone(err), "the namespace with the credentials")
	works, err := applied.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, works.Items, 1, "what owns what was applied stays")
	require.Empty(t, works.Items[0].Finalizers, "and nobody has to wait for the agent to delete it")
	require.NoError(t, b.valueOf(ctx, first, "default", "stays", "before"))
	require.NoError(t, b.terminate(ctx, part.Name)) // it may still be on its way out

	// Whatever starts the agent again, as a service manager does, does not join the cluster again.
	stdout, stderr, code := b.run(t, part.Args...)
	require.Equal(t, 10, code, stdout+stderr)
	require.Contains(t, stderr, "this cluster was detached from its hub")
	_, err = klusterlets.Get(ctx, "klusterlet", metav1.GetOptions{})
	require.NoError(t, gone(err))

	require.NoError(t, os.Remove(filepath.Join(b.DataDir(part), "agent", "detached")))
	token, stderr, code := b.run(t, "token", "create", "--data-dir", b.hubData(t), "--cluster", first, "--auto-accept")
	require.Zero(t, code, stderr)
	require.NoError(t, os.WriteFile(part.Args[slices.Index(part.Args, "--token-file")+1], []byte(token), 0o600))
	require.NoError(t, b.Start(ctx, part.Name))
	b.changeWork(t, ctx, first, "stays", configMap("default", "stays", "after"))
	eventually(t, ctx, "the work goes on", func() error { return b.valueOf(ctx, first, "default", "stays", "after") })
	again, err := b.spokes[first].CoreV1().ConfigMaps("default").Get(ctx, "stays", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, object.UID, again.UID, "with the object that stayed")
	eventually(t, ctx, "there is a Klusterlet again", func() error {
		return reasonIs(ctx, klusterlets, "HubConnectionDegraded", "False/HubConnectionFunctional")
	})
}
