package hub

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// beating renews the lease of a cluster, as its agent does, until it is told to stop.
func (i *administrator) beating(cluster string) (stop func()) {
	i.Helper()
	beat := func() error {
		patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
		_, err := i.kube.CoordinationV1().Leases(cluster).Patch(i.ctx, "managed-cluster-lease", types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	eventually(i.T, "lease of "+cluster, beat)
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				_ = beat() // a hub that is busy gets the next one
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
	i.Cleanup(stop)
	return stop
}

// available has the agent of a cluster say whether it is.
func (i *administrator) available(cluster string, status metav1.ConditionStatus) {
	i.Helper()
	clusters := i.clusters.ClusterV1().ManagedClusters()
	eventually(i.T, cluster+" says available "+string(status), func() error {
		mc, err := clusters.Get(i.ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
			return errors.New("it is not accepted yet")
		}
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionAvailable, Status: status, Reason: "Probed"})
		_, err = clusters.UpdateStatus(i.ctx, mc, metav1.UpdateOptions{})
		return err
	})
}

// applyTaints applies a list of taints.
func (i *administrator) applyTaints(cluster, taints string) {
	i.Helper()
	i.apply(fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: %s, labels: {cluster.open-cluster-management.io/clusterset: edge}}
spec: {hubAcceptsClient: true, leaseDurationSeconds: 1, taints: [%s]}
`, cluster, taints))
}

// tainted waits until a cluster has taints of these keys and no others, and gives the time when the last of them was added.
func (i *administrator) tainted(cluster string, keys ...string) (added time.Time) {
	i.Helper()
	eventually(i.T, fmt.Sprintf("taints %v of %s", keys, cluster), func() error {
		mc, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var are []string
		for _, taint := range mc.Spec.Taints {
			are = append(are, taint.Key)
			added = taint.TimeAdded.Time
		}
		if !slices.Equal(are, keys) {
			return fmt.Errorf("they are %v", are)
		}
		return nil
	})
	return added
}

// TestUnreachableCluster loses the heartbeats of a cluster: each placement keeps it for as long as it tolerates that, and has
// it again when it is back (open-cluster-management-io/policy-generator-plugin#148).
func TestUnreachableCluster(t *testing.T) {
	const unreachable, unavailable = clusterv1.ManagedClusterTaintUnreachable, clusterv1.ManagedClusterTaintUnavailable
	const endures = 3 * time.Second
	i := newAdministrator(t)
	i.team("edge", 0)
	i.place("edge", "strict", "")
	i.says("edge", "strict", satisfied, "AllManagedClusterSetsEmpty")
	for _, name := range []string{"edge-1", "edge-2"} {
		i.applyTaints(name, "")
		i.tainted(name, unreachable)
	}
	i.says("edge", "strict", satisfied, "NoManagedClusterMatched", "unreachable:NoSelect (2)")
	i.beating("edge-2")
	i.available("edge-2", metav1.ConditionTrue)
	stop := i.beating("edge-1")
	i.available("edge-1", metav1.ConditionTrue)
	i.place("edge", "patient", fmt.Sprintf("tolerations: [{key: %s, operator: Exists, tolerationSeconds: %d}]", unreachable, endures/time.Second))
	i.place("edge", "loyal", silent)
	all := []string{"edge-1", "edge-2"}
	everybody := func() {
		i.tainted("edge-1")
		for _, name := range []string{"strict", "patient", "loyal"} {
			i.chooses("edge", name, all...)
		}
	}
	everybody()

	for range 2 { // the second time, the patient one begins to count anew
		stop()
		since := i.tainted("edge-1", unreachable)
		mc, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, "edge-1", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, metav1.ConditionUnknown, meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable).Status)
		i.chooses("edge", "strict", "edge-2")
		i.says("edge", "strict", satisfied, "AllDecisionsScheduled")
		chosen := i.versions("edge", "strict")
		i.applyTaints("edge-1", "{key: example.com/dock, effect: PreferNoSelect}") // their list has not what the hub added
		require.Equal(t, since, i.tainted("edge-1", "example.com/dock", unreachable))
		i.applyTaints("edge-1", "")
		require.Equal(t, since, i.tainted("edge-1", unreachable))
		i.chooses("edge", "patient", "edge-2")
		require.Equal(t, chosen, i.versions("edge", "strict"), "it never chose the cluster meanwhile")
		require.False(t, time.Now().Before(since.Add(endures)), "the toleration was not over")
		require.True(t, slices.Equal(all, i.chosen("edge", "loyal")))
		stop = i.beating("edge-1")
		i.available("edge-1", metav1.ConditionTrue)
		everybody()
	}

	i.available("edge-1", metav1.ConditionFalse)
	i.tainted("edge-1", unavailable)
	i.chooses("edge", "strict", "edge-2")
	i.chooses("edge", "patient", "edge-2")
	require.Equal(t, all, i.chosen("edge", "loyal"))
	i.available("edge-1", metav1.ConditionTrue)
	everybody()
}
