package workttl

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// longest is as long as a work's time can be counted; whoever asks for more means for ever. A duration of Go holds 292
// years, and a larger number of seconds would come out as one that is over.
const longest = 200 * 365 * 24 * time.Hour

// end is when a complete work's time is over. A work that is not complete, asks for no end, is being deleted, or belongs to
// a ManifestWorkReplicaSet, which would make it again, has none.
func end(work *workv1.ManifestWork) (at time.Time, ends bool) {
	option := work.Spec.DeleteOption
	if option == nil || option.TTLSecondsAfterFinished == nil || work.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	if _, owned := work.Labels[workv1alpha1.ManifestWorkReplicaSetControllerNameLabelKey]; owned {
		return time.Time{}, false
	}
	complete := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkComplete)
	if complete == nil || complete.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	seconds := *option.TTLSecondsAfterFinished
	if seconds > int64(longest/time.Second) {
		return time.Time{}, false
	}
	return complete.LastTransitionTime.Add(time.Duration(max(seconds, 0)) * time.Second), true
}

// Kept leaves of a work what this controller looks at, besides its metadata. Manifests and status are nearly all of a work's
// bytes, and a hub has many.
func Kept(work *workv1.ManifestWork) (workv1.ManifestWorkSpec, workv1.ManifestWorkStatus) {
	var spec workv1.ManifestWorkSpec
	var status workv1.ManifestWorkStatus
	if option := work.Spec.DeleteOption; option != nil && option.TTLSecondsAfterFinished != nil {
		spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: option.TTLSecondsAfterFinished}
		if complete := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkComplete); complete != nil {
			status.Conditions = []metav1.Condition{*complete}
		}
	}
	return spec, status
}
