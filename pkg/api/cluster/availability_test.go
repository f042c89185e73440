package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestKeepAvailability(t *testing.T) {
	const no, prefer = clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectPreferNoSelect
	taint := func(key string, effect clusterv1.TaintEffect, added metav1.Time) clusterv1.Taint {
		return clusterv1.Taint{Key: key, Effect: effect, TimeAdded: added}
	}
	earlier, fresh := metav1.NewTime(now.Add(-time.Hour)), metav1.Time{}
	unreachable, unavailable := taint(clusterv1.ManagedClusterTaintUnreachable, no, earlier), taint(clusterv1.ManagedClusterTaintUnavailable, no, earlier)
	for _, test := range []struct {
		name          string
		create        bool
		old, in, want []clusterv1.Taint
	}{
		{name: "new", create: true, want: []clusterv1.Taint{taint(clusterv1.ManagedClusterTaintUnreachable, no, fresh)}},
		{name: "new with others", create: true, in: []clusterv1.Taint{taint("a", no, fresh)},
			want: []clusterv1.Taint{taint("a", no, fresh), taint(clusterv1.ManagedClusterTaintUnreachable, no, fresh)}},
		{name: "new with it", create: true, in: []clusterv1.Taint{unreachable}, want: []clusterv1.Taint{unreachable}},
		{name: "a list without it", old: []clusterv1.Taint{unreachable}, in: []clusterv1.Taint{taint("a", no, fresh)}, want: []clusterv1.Taint{taint("a", no, fresh), unreachable}},
		{name: "no list", old: []clusterv1.Taint{unavailable, taint("a", no, earlier)}, want: []clusterv1.Taint{unavailable}},
		{name: "with it, without its time", old: []clusterv1.Taint{unreachable}, in: []clusterv1.Taint{taint(clusterv1.ManagedClusterTaintUnreachable, no, fresh)},
			want: []clusterv1.Taint{taint(clusterv1.ManagedClusterTaintUnreachable, no, fresh)}},
		{name: "with another effect", old: []clusterv1.Taint{unreachable}, in: []clusterv1.Taint{taint(clusterv1.ManagedClusterTaintUnreachable, prefer, fresh)},
			want: []clusterv1.Taint{taint(clusterv1.ManagedClusterTaintUnreachable, prefer, fresh)}},
		{name: "one that can be reached", old: []clusterv1.Taint{taint("a", no, earlier)}, in: []clusterv1.Taint{taint("b", no, fresh)}, want: []clusterv1.Taint{taint("b", no, fresh)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc, old := managed("c1"), managed("c1")
			mc.Spec.Taints, old.Spec.Taints = test.in, test.old
			if test.create {
				old = nil
			}
			KeepAvailability(mc, old)
			require.Equal(t, test.want, mc.Spec.Taints)
		})
	}
}
