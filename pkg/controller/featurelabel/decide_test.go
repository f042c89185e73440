package featurelabel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestChanges(t *testing.T) {
	addon := func(name string, status metav1.ConditionStatus) *addonv1alpha1.ManagedClusterAddOn {
		a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if status != "" {
			a.Status.Conditions = []metav1.Condition{{Type: addonv1alpha1.ManagedClusterAddOnConditionAvailable, Status: status}}
		}
		return a
	}
	now := metav1.Now()
	leaving := addon("proxy", metav1.ConditionTrue)
	leaving.DeletionTimestamp = &now
	all := func(addons ...*addonv1alpha1.ManagedClusterAddOn) []*addonv1alpha1.ManagedClusterAddOn { return addons }
	for _, test := range []struct {
		name             string
		labels           map[string]string
		unknown, deleted bool
		addons           []*addonv1alpha1.ManagedClusterAddOn
		want             map[string]any
	}{
		{"one of each", nil, false, false, all(addon("a", metav1.ConditionTrue), addon("b", metav1.ConditionFalse), addon("c", metav1.ConditionUnknown), addon("d", "")),
			map[string]any{prefix + "a": "available", prefix + "b": "unhealthy", prefix + "c": "unreachable", prefix + "d": "unreachable"}},
		{"as it is", map[string]string{prefix + "a": "available", "site": "edge"}, false, false, all(addon("a", metav1.ConditionTrue)), map[string]any{}},
		{"gone", map[string]string{prefix + "a": "available", "site": "edge"}, false, false, nil, map[string]any{prefix + "a": nil}},
		{"leaving", map[string]string{prefix + "proxy": "available"}, false, false, all(leaving), map[string]any{prefix + "proxy": nil}},
		{"cluster that nothing is known of", nil, true, false, all(addon("a", metav1.ConditionTrue)), nil},
		{"cluster that leaves", map[string]string{prefix + "a": "available"}, false, true, nil, nil},
		{"name too long for a label", nil, false, false, all(addon(strings.Repeat("a", 60), metav1.ConditionTrue)), map[string]any{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}
			if !test.unknown {
				mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue}}
			}
			if test.deleted {
				mc.DeletionTimestamp = &now
			}
			require.Equal(t, test.want, changes(mc, test.addons))
		})
	}
}
