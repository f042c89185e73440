package hub

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaitingOverRestart: what waits for its time when a hub stops happens in the life of the next one, at its time and with
// nobody touching anything; what was decided stays so (open-cluster-management-io/ocm#337).
func TestWaitingOverRestart(t *testing.T) {
	const wait = 8 * time.Second
	dir := t.TempDir()
	var succeeded, tainted time.Time
	soaking := &rolling{namespace: "soak", refs: refOf("everyone", "type: Progressive, progressive: {maxConcurrency: 1, minSuccessTime: 8s}")}
	late := &rolling{namespace: "late", refs: refOf("everyone", "type: Progressive, progressive: {maxConcurrency: 1, progressDeadline: 8s, maxFailures: 1}")}
	t.Run("before", func(t *testing.T) {
		i := newAdministratorOn(t, dir)
		soaking.administrator, late.administrator = i, i
		for _, r := range []*rolling{soaking, late} {
			r.team(r.namespace, 2)
			r.place(r.namespace, "everyone", silent)
			r.chooses(r.namespace, "everyone", r.nth(1), r.nth(2))
			r.release("one")
			r.have("one -")
		}
		soaking.succeeds(1)
		succeeded = time.Now()
		soaking.rolledOut("Progressing", "succeeded, for minSuccessTime: soak-1")

		i.team("shore", 2)
		i.place("shore", "patient", strings.TrimSuffix(silent, "]")+`, {key: example.com/dock, operator: Exists, tolerationSeconds: 8}]`)
		i.place("shore", "mistaken", `tolerations: [{operator: Exists}]`)
		i.chooses("shore", "patient", "shore-1", "shore-2")
		i.chooses("shore", "mistaken", "shore-1", "shore-2")
		i.cluster("shore-2", "shore", `{key: example.com/dock, effect: NoSelect}`)
		mc, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, "shore-2", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "example.com/dock", mc.Spec.Taints[0].Key)
		tainted = mc.Spec.Taints[0].TimeAdded.Time
		i.place("shore", "mistaken", `tolerations: [{operator: Equal, value: x}]`)
		i.says("shore", "mistaken", misconfigured, "Misconfigured")
		i.chooses("shore", "mistaken", "shore-1", "shore-2")
	})
	t.Run("after", func(t *testing.T) {
		i := newAdministratorOn(t, dir)
		soaking.administrator, late.administrator = i, i
		soaking.have("one one")
		require.GreaterOrEqual(t, time.Since(succeeded), wait-time.Second, "conditions are dated by the second")
		late.have("one one")
		late.rolledOut("Progressing", "not done in time: late-1")
		i.chooses("shore", "patient", "shore-1")
		require.GreaterOrEqual(t, time.Since(tainted), wait)
		i.chooses("shore", "mistaken", "shore-1", "shore-2")
	})
}
