package addon

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
)

// leaseGrace is how old an add-on's lease may be: agents of add-ons renew it every minute, and five times may fail.
const leaseGrace = 5 * time.Minute

// health is the condition Available of an add-on with this lease, nil if there is none, and when to look again without
// having been told of a change.
func health(mca *addonv1beta1.ManagedClusterAddOn, lease *coordinationv1.Lease, now time.Time) (metav1.Condition, time.Duration) {
	if lease == nil {
		return availableCondition(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonLeaseLeaseNotFound,
			fmt.Sprintf("The status of %s add-on is unknown because there is no lease %s/%s on the managed cluster.", mca.Name, installNamespace(mca), mca.Name)), 0
	}
	if lease.Spec.RenewTime != nil {
		if left := lease.Spec.RenewTime.Add(leaseGrace).Sub(now); left > 0 {
			return availableCondition(metav1.ConditionTrue, addonv1beta1.AddonAvailableReasonLeaseLeaseUpdated, mca.Name+" add-on is available."), left
		}
	}
	return availableCondition(metav1.ConditionFalse, addonv1beta1.AddonAvailableReasonLeaseUpdateStopped, mca.Name+" add-on is not available."), 0
}

func availableCondition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: addonv1beta1.ManagedClusterAddOnConditionAvailable, Status: status, Reason: reason, Message: message}
}
