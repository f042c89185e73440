package heartbeat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		name     string
		accepted metav1.ConditionStatus
		seconds  int32
		want     time.Duration
	}{
		{"accepted", metav1.ConditionTrue, 30, 30 * time.Second},
		{"lease of 0", metav1.ConditionTrue, 0, time.Minute},
		{"denied", metav1.ConditionFalse, 30, 0},
		{"not decided about", "", 30, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{LeaseDurationSeconds: test.seconds}}
			if test.accepted != "" {
				mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: test.accepted}}
			}
			require.Equal(t, test.want, interval(mc))
		})
	}
}
