package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/lab"
)

// TestAuthoritiesAreReplacedWhileAnAgentIsOff replaces the hub's CAs up to the point where the new ones sign, while an agent
// is stopped that knows only the old ones. It comes back, renews its certificate, and only then are the old ones forgotten.
func TestAuthoritiesAreReplacedWhileAnAgentIsOff(t *testing.T) {
	b, ctx := ownLab(t)
	rotate := func(step string) (stdout, stderr string, code int) {
		return b.run(t, "certificate", "rotate-ca", step, "--data-dir", b.hubData(t))
	}
	signer := func() string {
		mc, err := b.managedCluster(ctx, first)
		require.NoError(t, err)
		return mc.Annotations[identity.ClientCAAnnotation]
	}
	before := signer()
	require.NotEmpty(t, before)
	require.NoError(t, b.Stop(ctx, lab.AgentPart(first)))
	for _, step := range []string{"prepare", "activate"} {
		_, stderr, code := rotate(step)
		require.Zero(t, code, stderr)
	}
	_, stderr, code := rotate("finish")
	require.Equal(t, 1, code, "the agent depends on the old ones")
	require.Contains(t, stderr, "agents of 1 clusters")
	require.Contains(t, stderr, first)

	require.NoError(t, b.Start(ctx, lab.AgentPart(first)))
	eventually(t, ctx, "the agent renews its certificate", func() error {
		if now := signer(); now == before {
			return fmt.Errorf("it is still signed by %s", now)
		}
		return nil
	})
	_, stderr, code = rotate("finish")
	require.Zero(t, code, stderr)
	b, err := connect(b.Lab, b.binary) // the administrator's certificate is another one now
	require.NoError(t, err)
	b.newWork(t, ctx, first, "after-rotation", configMap("default", "after-rotation", "a"))
	eventually(t, ctx, "work is applied", func() error { return b.appliedAndAvailable(ctx, first, "after-rotation") })
	require.NoError(t, b.Restart(ctx, lab.AgentPart(first)))
	eventually(t, ctx, "an agent that starts anew is in, too", func() error {
		mc, err := b.managedCluster(ctx, first)
		if err != nil {
			return err
		}
		return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, 0)
	})
	b.changeWork(t, ctx, first, "after-rotation", configMap("default", "after-rotation", "b"))
	eventually(t, ctx, "and applies work", func() error { return b.valueOf(ctx, first, "default", "after-rotation", "b") })
}
