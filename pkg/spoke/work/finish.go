package work

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	workv1 "open-cluster-management.io/api/work/v1"
)

// finish ends a work that is being deleted: what it applied first, then what stands for it on the cluster, then itself.
func (a *Agent) finish(ctx context.Context, work *workv1.ManifestWork) (time.Duration, error) {
	if !slices.Contains(work.Finalizers, workFinalizer) {
		return 0, nil
	}
	amw := a.findApplied(work.Name)
	if amw == nil {
		return 0, a.letGo(ctx, work)
	}
	if err := a.endApplied(ctx, work, amw); err != nil {
		return 0, err
	}
	left, again, err := a.tearDown(ctx, amw)
	if err != nil {
		return 0, err
	}
	if len(left) == 0 {
		return 0, a.letGo(ctx, work)
	}
	return again, a.reportDeleting(ctx, work, left)
}

// letGo takes the finalizer off a work of which nothing is left.
func (a *Agent) letGo(ctx context.Context, work *workv1.ManifestWork) error {
	a.pace.forget(work.Name)
	a.watcher.forget(work.Name, nil)
	_, err := a.patchFinalizers(ctx, work, slices.DeleteFunc(slices.Clone(work.Finalizers), func(f string) bool { return f == workFinalizer }))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// endApplied asks for the end of what stands for a work, once what is to stay has been let go of: the option may have been
// changed just before the work's end.
func (a *Agent) endApplied(ctx context.Context, work *workv1.ManifestWork, amw *workv1.AppliedManifestWork) error {
	if amw.DeletionTimestamp != nil {
		return nil
	}
	inv, err := a.inventoryOf(amw)
	if err != nil {
		return err
	}
	if err := a.releaseOrphans(ctx, pass{work, amw, inv, read(work, a.mapper)}); err != nil {
		return err
	}
	return a.deleteApplied(ctx, amw)
}

// tearDown takes off the cluster what an AppliedManifestWork that is being deleted has applied, and then lets it go. It
// returns what is left.
func (a *Agent) tearDown(ctx context.Context, amw *workv1.AppliedManifestWork) ([]remainder, time.Duration, error) {
	if !slices.Contains(amw.Finalizers, appliedFinalizer) {
		return nil, 0, nil
	}
	inv, err := a.inventoryOf(amw)
	if err != nil {
		return nil, 0, err
	}
	left := a.remove(ctx, amw, inv.all())
	switch {
	case anyFailed(left):
		return left, a.pace.failed(amw.Spec.ManifestWorkName, true), nil
	case len(left) > 0:
		return left, lookAgain, nil
	}
	return nil, 0, a.releaseApplied(ctx, amw)
}
