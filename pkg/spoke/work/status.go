package work

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// result is what came of one manifest.
type result struct {
	*manifest
	err    error // why it was not applied
	exists bool  // the object is on the cluster
	uid    string
}

// conditionSupported says what a work asks for that this agent cannot do; it is there only then.
const conditionSupported = "Supported"

// status is the work's status by what came of its manifests (spec 4.2, 4.6). Conditions of others, and the transition
// times of what did not change, are kept.
func status(work *workv1.ManifestWork, results []result) workv1.ManifestWorkStatus {
	next := *work.Status.DeepCopy()
	before := next.ResourceStatus.Manifests
	next.ResourceStatus.Manifests = make([]workv1.ManifestCondition, len(results))
	for _, r := range results {
		identity := resourceMeta(r.manifest)
		next.ResourceStatus.Manifests[r.ordinal] = workv1.ManifestCondition{
			ResourceMeta: identity,
			Conditions:   manifestConditions(work, r, conditionsOf(before, identity)),
		}
	}
	for _, c := range workConditions(work, results) {
		meta.SetStatusCondition(&next.Conditions, c)
	}
	if missing := unsupported(work); missing != "" {
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{Type: conditionSupported, Status: metav1.ConditionFalse, Reason: "NotSupported",
			Message: "this agent does not support yet: " + missing, ObservedGeneration: work.Generation})
	} else {
		meta.RemoveStatusCondition(&next.Conditions, conditionSupported)
	}
	return next
}

// unsupported names what stands in a work beside its manifests and is not done.
func unsupported(work *workv1.ManifestWork) string {
	var missing []string
	if work.Spec.Executor != nil {
		missing = append(missing, "spec.executor")
	}
	if o := work.Spec.DeleteOption; o != nil && o.TTLSecondsAfterFinished != nil {
		missing = append(missing, "spec.deleteOption.ttlSecondsAfterFinished")
	}
	for _, c := range work.Spec.ManifestConfigs {
		if len(c.ConditionRules) > 0 && !slices.Contains(missing, "spec.manifestConfigs[].conditionRules") {
			missing = append(missing, "spec.manifestConfigs[].conditionRules")
		}
		if len(c.FeedbackRules) > 0 && !slices.Contains(missing, "spec.manifestConfigs[].feedbackRules") {
			missing = append(missing, "spec.manifestConfigs[].feedbackRules")
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprint(missing)
}

func resourceMeta(m *manifest) workv1.ManifestResourceMeta {
	gvk := m.object.GroupVersionKind()
	return workv1.ManifestResourceMeta{
		Ordinal: int32(m.ordinal), Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Resource: m.gvr.Resource, Namespace: m.object.GetNamespace(), Name: m.object.GetName(),
	}
}

// conditionsOf finds what was said before of the same object, wherever in the work it stood then.
func conditionsOf(all []workv1.ManifestCondition, identity workv1.ManifestResourceMeta) []metav1.Condition {
	for _, m := range all {
		same := m.ResourceMeta
		same.Ordinal, same.Resource = identity.Ordinal, identity.Resource
		if same == identity {
			return slices.Clone(m.Conditions)
		}
	}
	return nil
}

func manifestConditions(work *workv1.ManifestWork, r result, conditions []metav1.Condition) []metav1.Condition {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: work.Generation})
	}
	if r.err != nil {
		set(workv1.ManifestApplied, metav1.ConditionFalse, "AppliedManifestFailed", "Failed to apply manifest: "+r.err.Error())
	} else {
		set(workv1.ManifestApplied, metav1.ConditionTrue, "AppliedManifestComplete", "Apply manifest complete")
	}
	switch {
	case r.exists:
		set(workv1.ManifestAvailable, metav1.ConditionTrue, "ResourceAvailable", "Resource is available")
	case errors.Is(r.err, errUnseen):
		set(workv1.ManifestAvailable, metav1.ConditionUnknown, "FetchingResourceFailed", r.err.Error())
	case r.gvr.Resource == "" || r.object.GetName() == "":
		set(workv1.ManifestAvailable, metav1.ConditionUnknown, "IncompleteResourceMeta", "Resource meta is incomplete")
	default:
		set(workv1.ManifestAvailable, metav1.ConditionFalse, "ResourceNotAvailable", "Resource is not available")
	}
	if rules := configFor(work, r.manifest).FeedbackRules; len(rules) > 0 {
		set("StatusFeedbackSynced", metav1.ConditionFalse, "StatusFeedbackSyncFailed", "Sync status feedback failed with error: feedbackRules "+errUnsupported.Error())
	}
	return conditions
}

func workConditions(work *workv1.ManifestWork, results []result) []metav1.Condition {
	failed, missing, unknown := 0, 0, 0
	for _, r := range results {
		if r.err != nil {
			failed++
		}
		switch {
		case r.exists:
		case r.gvr.Resource == "", errors.Is(r.err, errUnseen):
			unknown++
		default:
			missing++
		}
	}
	applied := metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete", Message: "Apply manifest work complete"}
	if failed > 0 {
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, "AppliedManifestWorkFailed", "Failed to apply manifest work"
	}
	available := metav1.Condition{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, Reason: "ResourcesAvailable", Message: "All resources are available"}
	switch {
	case missing > 0:
		available.Status, available.Reason = metav1.ConditionFalse, "ResourcesNotAvailable"
		available.Message = fmt.Sprintf("%d of %d resources are not available", missing, len(results))
	case unknown > 0:
		available.Status, available.Reason = metav1.ConditionUnknown, "ResourcesStatusUnknown"
		available.Message = fmt.Sprintf("%d of %d resources have unknown status", unknown, len(results))
	}
	applied.ObservedGeneration, available.ObservedGeneration = work.Generation, work.Generation
	return []metav1.Condition{applied, available}
}

// report writes a work's status where it differs.
func (a *Agent) report(ctx context.Context, work *workv1.ManifestWork, next workv1.ManifestWorkStatus) error {
	if equality.Semantic.DeepEqual(work.Status, next) {
		return nil
	}
	body, err := reconcile.MergePatch(work, map[string]any{"status": map[string]any{
		"conditions": next.Conditions, "resourceStatus": map[string]any{"manifests": next.ResourceStatus.Manifests},
	}})
	if err != nil {
		return err
	}
	_, err = a.hubWorks.Patch(ctx, work.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("status of work %s: %w", work.Name, err)
	}
	a.logChange(work, next)
	return nil
}

func (a *Agent) logChange(work *workv1.ManifestWork, next workv1.ManifestWorkStatus) {
	before := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
	after := meta.FindStatusCondition(next.Conditions, workv1.WorkApplied)
	if after == nil || (before != nil && before.Status == after.Status && before.ObservedGeneration == after.ObservedGeneration) {
		return
	}
	entry := a.Log.WithField(log.FieldWork, work.Name).WithField("generation", work.Generation)
	if after.Status == metav1.ConditionTrue {
		entry.Info("work is applied")
		return
	}
	entry.WithError(firstError(next)).Warn("work is not applied")
}

func firstError(next workv1.ManifestWorkStatus) error {
	for _, m := range next.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, workv1.ManifestApplied); c != nil && c.Status == metav1.ConditionFalse {
			return errors.New(c.Message)
		}
	}
	return errors.New("no manifest says why")
}
