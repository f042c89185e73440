package work

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// report writes a work's status where it differs.
func (a *Agent) report(ctx context.Context, work *workv1.ManifestWork, next workv1.ManifestWorkStatus) error {
	if equality.Semantic.DeepEqual(work.Status, next) {
		return nil
	}
	body, err := reconcile.MergePatch(work, map[string]any{"status": statusChange(work.Status, next)})
	if err != nil {
		return err
	}
	changed, err := a.hubWorks.Patch(ctx, work.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("status of work %s: %w", work.Name, err)
	}
	metricStatus.Inc()
	a.answered(changed)
	a.logChange(work, next)
	return nil
}

// statusChange leaves out what is as it was: the list of manifests is by far the bigger part.
func statusChange(before, next workv1.ManifestWorkStatus) map[string]any {
	change := map[string]any{}
	if !equality.Semantic.DeepEqual(before.Conditions, next.Conditions) {
		change["conditions"] = next.Conditions
	}
	if !equality.Semantic.DeepEqual(before.ResourceStatus, next.ResourceStatus) {
		change["resourceStatus"] = map[string]any{"manifests": next.ResourceStatus.Manifests}
	}
	return change
}

// reportDeleting says that a work is being deleted, and what that waits for. The rest of the status stays as it is.
func (a *Agent) reportDeleting(ctx context.Context, work *workv1.ManifestWork, left []remainder) error {
	message := "ManifestWork is being deleted"
	if len(left) > 0 {
		message += ": " + summary(left)
	}
	next := *work.Status.DeepCopy()
	meta.SetStatusCondition(&next.Conditions, metav1.Condition{
		Type: workv1.WorkDeleting, Status: metav1.ConditionTrue, Reason: "WorkDeleting", Message: shorten(message), ObservedGeneration: work.Generation,
	})
	return a.report(ctx, work, next)
}

// logChange writes one line when a work's state changes.
func (a *Agent) logChange(work *workv1.ManifestWork, next workv1.ManifestWorkStatus) {
	entry := a.Log.WithField(log.FieldWork, work.Name).WithField("generation", work.Generation)
	if c := turned(work.Status, next, workv1.WorkDeleting); c != nil {
		entry.Info("work is being deleted")
	}
	if c := turned(work.Status, next, workv1.WorkComplete); c != nil && c.Status == metav1.ConditionTrue {
		entry.Info("work is complete")
	}
	switch c := turned(work.Status, next, workv1.WorkApplied); {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		entry.Info("work is applied")
	default:
		entry.WithError(firstError(next)).Warn("work is not applied")
	}
	if c := turned(work.Status, next, workv1.WorkAvailable); c != nil && c.Status != metav1.ConditionTrue {
		entry.Warn(c.Message)
	}
}

// turned is a condition that is another one than before, or is about another generation.
func turned(before, next workv1.ManifestWorkStatus, kind string) *metav1.Condition {
	old, c := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(next.Conditions, kind)
	if c == nil || (old != nil && old.Status == c.Status && old.ObservedGeneration == c.ObservedGeneration) {
		return nil
	}
	return c
}

func firstError(next workv1.ManifestWorkStatus) error {
	for _, m := range next.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(m.Conditions, workv1.ManifestApplied); c != nil && c.Status == metav1.ConditionFalse {
			return errors.New(c.Message)
		}
	}
	return errors.New("no manifest says why")
}
