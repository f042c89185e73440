package work

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// evict deletes an AppliedManifestWork of this agent whose work is not on the hub: at once if its deletion was seen, and
// after the grace period if it is only missing, since then it was deleted while the agent was off, or the agent is at another
// hub (spec 4.5).
func (a *Agent) evict(ctx context.Context, amw *workv1.AppliedManifestWork) (time.Duration, error) {
	if _, seen := a.ended.Load(amw.Spec.ManifestWorkName); seen && amw == a.findApplied(amw.Spec.ManifestWorkName) {
		a.ended.Delete(amw.Spec.ManifestWorkName)
		return 0, a.deleteApplied(ctx, amw)
	}
	now, grace := a.Clock.Now(), a.Settings.Get().EvictionGrace
	if amw.Status.EvictionStartTime == nil {
		a.Log.WithField(log.FieldWork, amw.Spec.ManifestWorkName).WithField("grace", grace.String()).
			Warn("work is missing on the hub; what it applied goes when the grace period is over")
		return grace, a.markEviction(ctx, amw, now)
	}
	if rest := amw.Status.EvictionStartTime.Add(grace).Sub(now); rest > 0 {
		return rest, nil
	}
	a.Log.WithField(log.FieldWork, amw.Spec.ManifestWorkName).Warn("work has been missing on the hub for the whole grace period; what it applied goes")
	return 0, a.deleteApplied(ctx, amw)
}

func (a *Agent) markEviction(ctx context.Context, amw *workv1.AppliedManifestWork, now time.Time) error {
	body, err := reconcile.MergePatch(amw, map[string]any{"status": map[string]any{"evictionStartTime": metav1.NewTime(now)}})
	if err != nil {
		return err
	}
	_, err = a.appliedClient.Patch(ctx, amw.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
