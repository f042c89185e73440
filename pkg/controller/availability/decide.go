package availability

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const (
	// graceFactor times the lease duration is how long a cluster may be silent (spec 1.3).
	graceFactor = 5
	// defaultLease stands for a lease duration of 0.
	defaultLease = 60 * time.Second

	taintUnreachable = clusterv1.ManagedClusterTaintUnreachable
	taintUnavailable = clusterv1.ManagedClusterTaintUnavailable

	conditionClockSynced = "ManagedClusterConditionClockSynced"
	skipClockSync        = "registration.open-cluster-management.io/skip-clock-sync-check"
)

// grace is how long the heartbeats of a cluster may stay away.
func grace(mc *clusterv1.ManagedCluster) time.Duration {
	lease := time.Duration(mc.Spec.LeaseDurationSeconds) * time.Second
	if lease <= 0 {
		lease = defaultLease
	}
	return graceFactor * lease
}

// silent tells whether a cluster's heartbeats have stopped, and if not, when they will have unless another one comes.
func silent(mc *clusterv1.ManagedCluster, lease *coordinationv1.Lease, now time.Time) (stopped bool, recheck time.Duration) {
	if lease.Spec.RenewTime == nil {
		return true, 0
	}
	end := lease.Spec.RenewTime.Add(grace(mc))
	if !now.Before(end) {
		return true, 0
	}
	return false, end.Sub(now)
}

// conditions are those of the cluster with what the hub has to say: Available becomes Unknown when the heartbeats stopped
// (only the agent ever says True or False), and ClockSynced compares the cluster's clock with the hub's.
func conditions(mc *clusterv1.ManagedCluster, stopped bool, clock *metav1.Condition) []metav1.Condition {
	all := slices.Clone(mc.Status.Conditions)
	if stopped {
		meta.SetStatusCondition(&all, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown,
			Reason: "ManagedClusterLeaseUpdateStopped", Message: "Registration agent stopped updating its lease.",
		})
	}
	if clock != nil {
		meta.SetStatusCondition(&all, *clock)
	}
	return all
}

// clockCondition judges the clock of a cluster by the time that it wrote into its lease just now.
func clockCondition(mc *clusterv1.ManagedCluster, renewed, now time.Time) *metav1.Condition {
	c := &metav1.Condition{Type: conditionClockSynced, Status: metav1.ConditionTrue, Reason: "ManagedClusterClockSynced",
		Message: "The clock of the managed cluster is synced with the hub."}
	apart := now.Sub(renewed).Abs()
	if apart >= grace(mc) && mc.Annotations[skipClockSync] != "true" {
		c.Status, c.Reason = metav1.ConditionFalse, "ManagedClusterClockOutOfSync"
		c.Message = fmt.Sprintf("The clock of the managed cluster is %s apart from the hub's.", apart.Round(time.Second))
	}
	return c
}

// taints are those of the cluster with the two that say how available it is.
func taints(mc *clusterv1.ManagedCluster, all []metav1.Condition) []clusterv1.Taint {
	wanted := taintUnreachable
	if available := meta.FindStatusCondition(all, clusterv1.ManagedClusterConditionAvailable); available != nil {
		switch available.Status {
		case metav1.ConditionTrue:
			wanted = ""
		case metav1.ConditionFalse:
			wanted = taintUnavailable
		}
	}
	var out []clusterv1.Taint
	found := false
	for _, t := range mc.Spec.Taints {
		ours := t.Key == taintUnreachable || t.Key == taintUnavailable
		if ours && t.Key != wanted {
			continue
		}
		found = found || t.Key == wanted
		out = append(out, t)
	}
	if wanted != "" && !found {
		out = append(out, clusterv1.Taint{Key: wanted, Effect: clusterv1.TaintEffectNoSelect})
	}
	return out
}

func sameTaints(a, b []clusterv1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y clusterv1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect
	})
}
