package availability

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func cluster(seconds int32, available metav1.ConditionStatus) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{LeaseDurationSeconds: seconds}}
	if available != "" {
		mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: available, Reason: "R"}}
	}
	return mc
}

func TestSilent(t *testing.T) {
	for _, test := range []struct {
		name    string
		seconds int32
		age     time.Duration
		stopped bool
		recheck time.Duration
	}{
		{"just renewed", 60, 0, false, 300 * time.Second},
		{"late, within the grace", 60, 299 * time.Second, false, time.Second},
		{"at the end of the grace", 60, 300 * time.Second, true, 0},
		{"short lease", 1, 6 * time.Second, true, 0},
		{"lease of 0 counts as 60", 0, 299 * time.Second, false, time.Second},
		{"clock ahead of the hub's", 60, -time.Hour, false, time.Hour + 300*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			renewed := metav1.NewMicroTime(now.Add(-test.age))
			stopped, recheck := silent(cluster(test.seconds, ""), &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}, now)
			require.Equal(t, test.stopped, stopped)
			require.Equal(t, test.recheck, recheck)
		})
	}
	stopped, _ := silent(cluster(60, ""), &coordinationv1.Lease{}, now)
	require.True(t, stopped, "a lease that was never renewed")
}

func TestConditionsAndTaints(t *testing.T) {
	foreign := clusterv1.Taint{Key: "mine", Effect: clusterv1.TaintEffectPreferNoSelect}
	for _, test := range []struct {
		name      string
		available metav1.ConditionStatus
		stopped   bool
		want      metav1.ConditionStatus
		taint     string
	}{
		{"never available", "", false, "", taintUnreachable},
		{"available", metav1.ConditionTrue, false, metav1.ConditionTrue, ""},
		{"not available", metav1.ConditionFalse, false, metav1.ConditionFalse, taintUnavailable},
		{"heartbeats stop", metav1.ConditionTrue, true, metav1.ConditionUnknown, taintUnreachable},
		{"heartbeats of an ill cluster stop", metav1.ConditionFalse, true, metav1.ConditionUnknown, taintUnreachable},
		{"heartbeats are back, the agent has not spoken yet", metav1.ConditionUnknown, false, metav1.ConditionUnknown, taintUnreachable},
	} {
		for _, before := range []string{"", taintUnreachable, taintUnavailable} {
			t.Run(test.name+" with taint "+before, func(t *testing.T) {
				mc := cluster(60, test.available)
				mc.Spec.Taints = []clusterv1.Taint{foreign}
				if before != "" {
					mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: before, Effect: clusterv1.TaintEffectNoSelect})
				}
				all := conditions(mc, test.stopped, nil)
				var got metav1.ConditionStatus
				if c := meta.FindStatusCondition(all, clusterv1.ManagedClusterConditionAvailable); c != nil {
					got = c.Status
				}
				require.Equal(t, test.want, got)
				wanted := []clusterv1.Taint{foreign}
				if test.taint != "" {
					wanted = append(wanted, clusterv1.Taint{Key: test.taint, Effect: clusterv1.TaintEffectNoSelect})
				}
				require.Equal(t, wanted, taints(mc, all))
			})
		}
	}
}

func TestClock(t *testing.T) {
	for _, test := range []struct {
		name  string
		apart time.Duration
		skip  bool
		want  metav1.ConditionStatus
	}{
		{"together", time.Second, false, metav1.ConditionTrue},
		{"behind by less than the grace", 299 * time.Second, false, metav1.ConditionTrue},
		{"behind", 300 * time.Second, false, metav1.ConditionFalse},
		{"ahead", -300 * time.Second, false, metav1.ConditionFalse},
		{"apart, and not to be checked", time.Hour, true, metav1.ConditionTrue},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc := cluster(60, "")
			if test.skip {
				mc.Annotations = map[string]string{skipClockSync: "true"}
			}
			require.Equal(t, test.want, clockCondition(mc, now.Add(-test.apart), now).Status)
		})
	}
}
