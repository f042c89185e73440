package featurelabel

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// prefix precedes the add-on's name in its label.
const prefix = "feature.open-cluster-management.io/addon-"

// changes are the labels to set, and with a nil those to take off. A cluster that is leaving keeps its labels, and one
// that nothing is known of yet gets none.
func changes(mc *clusterv1.ManagedCluster, addons []*addonv1alpha1.ManagedClusterAddOn) map[string]any {
	if mc.DeletionTimestamp != nil || meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) == nil {
		return nil
	}
	wanted := map[string]string{}
	for _, addon := range addons {
		label := prefix + addon.Name
		// A label's name is shorter than an add-on's may be.
		if addon.DeletionTimestamp == nil && len(validation.IsQualifiedName(label)) == 0 {
			wanted[label] = value(addon)
		}
	}
	change := map[string]any{}
	for label, value := range wanted {
		if mc.Labels[label] != value {
			change[label] = value
		}
	}
	for label := range mc.Labels {
		if _, ok := wanted[label]; !ok && strings.HasPrefix(label, prefix) {
			change[label] = nil
		}
	}
	return change
}

func value(addon *addonv1alpha1.ManagedClusterAddOn) string {
	available := meta.FindStatusCondition(addon.Status.Conditions, addonv1alpha1.ManagedClusterAddOnConditionAvailable)
	switch {
	case available == nil:
		return "unreachable"
	case available.Status == metav1.ConditionTrue:
		return "available"
	case available.Status == metav1.ConditionFalse:
		return "unhealthy"
	}
	return "unreachable"
}
