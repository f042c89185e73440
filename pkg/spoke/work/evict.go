package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// reconcileStrays sees to AppliedManifestWorks of that work's name that do not stand for a work of the hub.
func (a *Agent) reconcileStrays(ctx context.Context, name string) (again time.Duration, err error) {
	found, err := a.applied.ByIndex(byWork, name)
	if err != nil {
		return 0, fmt.Errorf("applied manifest works of work %s: %w", name, err)
	}
	var errs []error
	if len(found) == 0 {
		a.ended.Delete(name) // nothing is left that it would tell anything about
	}
	for _, obj := range found {
		amw := obj.(*workv1.AppliedManifestWork)
		if a.stands(amw) {
			continue
		}
		wait, err := a.reconcileStray(ctx, amw)
		again = sooner(again, wait)
		errs = append(errs, err)
	}
	return again, errors.Join(errs...)
}

// stands tells whether an AppliedManifestWork stands for a work that is on the hub.
func (a *Agent) stands(amw *workv1.AppliedManifestWork) bool {
	if _, err := a.works.Get(amw.Spec.ManifestWorkName); err != nil {
		return false
	}
	standing := a.findApplied(amw.Spec.ManifestWorkName)
	return standing != nil && standing.UID == amw.UID
}

// reconcileStray leaves alone what another agent on this cluster has made, also when it is being deleted: that one has the
// rights that its works are applied with.
func (a *Agent) reconcileStray(ctx context.Context, amw *workv1.AppliedManifestWork) (time.Duration, error) {
	if amw.Spec.AgentID != a.AgentID {
		return 0, nil
	}
	if amw.DeletionTimestamp == nil {
		return a.evict(ctx, amw)
	}
	left, again, err := a.tearDown(ctx, amw)
	if _, missing := a.works.Get(amw.Spec.ManifestWorkName); err == nil && len(left) == 0 && missing != nil {
		a.watcher.forget(amw.Spec.ManifestWorkName, nil)
	}
	return again, err
}

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
