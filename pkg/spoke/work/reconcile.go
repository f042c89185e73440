package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
)

// workFinalizer keeps a work on the hub until what it applied is gone from the cluster.
const workFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"

// reconcile brings the cluster in line with one work of the hub, and with its absence.
func (a *Agent) reconcile(ctx context.Context, name string) (time.Duration, error) {
	begun := a.Clock.Now()
	again, err := a.reconcileWork(ctx, name)
	stray, strayErr := a.reconcileStrays(ctx, name)
	metricWork.WithLabelValues(outcome(err)).Observe(a.Clock.Since(begun).Seconds())
	return sooner(again, stray), errors.Join(err, strayErr)
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// sooner is the shorter of two times to wait, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

func (a *Agent) reconcileWork(ctx context.Context, name string) (time.Duration, error) {
	work, err := a.latest(name)
	if apierrors.IsNotFound(err) {
		a.pace.forget(name)
		a.unserved.Delete(name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if work.DeletionTimestamp != nil {
		return a.finish(ctx, work)
	}
	return a.pursue(ctx, work)
}

// latest is a work as the hub last told of it, be it by the watch or in answer to a change.
func (a *Agent) latest(name string) (*workv1.ManifestWork, error) {
	work, err := a.works.Get(name)
	if err != nil {
		return nil, err
	}
	if known, ok := a.newest.Load(name); ok && newer(known.(*workv1.ManifestWork), work) {
		return known.(*workv1.ManifestWork), nil
	}
	return work, nil
}

// answered keeps the hub's answer to a change of a work.
func (a *Agent) answered(work *workv1.ManifestWork) {
	work.SetManagedFields(nil)
	a.newest.Store(work.Name, work)
	if known, err := a.works.Get(work.Name); err != nil || !newer(work, known) {
		a.newest.CompareAndDelete(work.Name, work) // the watch was faster
	}
}

// pursue applies a work and reports what came of it.
func (a *Agent) pursue(ctx context.Context, work *workv1.ManifestWork) (time.Duration, error) {
	held := a.hold(ctx, work)
	manifests := read(work, a.mapper)
	a.awaitKinds(work.Name, manifests)
	amw, inv, err := a.ensureApplied(ctx, work, manifests)
	if err != nil {
		_, holdErr := held()
		return 0, errors.Join(err, holdErr)
	}
	if amw.DeletionTimestamp != nil { // its end is an event, and then another one is made
		a.watcher.forget(work.Name, nil)
		_, again, err := a.tearDown(ctx, amw)
		_, holdErr := held()
		return again, errors.Join(err, holdErr)
	}
	return a.applyWork(ctx, pass{work, amw, inv, manifests}, held)
}

// hold puts the finalizer on a work that lacks it, and returns a function that waits for that and gives the work as it then
// is. The cluster is not kept waiting meanwhile: should the work be gone before it is held, what stands for it on the cluster
// is deleted like that of any other. To go on with the hub's answer saves the round trip of its event.
func (a *Agent) hold(ctx context.Context, work *workv1.ManifestWork) func() (*workv1.ManifestWork, error) {
	if slices.Contains(work.Finalizers, workFinalizer) {
		return func() (*workv1.ManifestWork, error) { return work, nil }
	}
	var held *workv1.ManifestWork
	var err error
	var patching sync.WaitGroup
	patching.Go(func() {
		held, err = a.patchFinalizers(ctx, work, append(slices.Clone(work.Finalizers), workFinalizer))
	})
	return func() (*workv1.ManifestWork, error) {
		patching.Wait()
		return held, err
	}
}

func (a *Agent) patchFinalizers(ctx context.Context, work *workv1.ManifestWork, finalizers []string) (*workv1.ManifestWork, error) {
	body, err := reconcile.MergePatch(work, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		return nil, err
	}
	changed, err := a.hubWorks.Patch(ctx, work.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("finalizer of work %s: %w", work.Name, err)
	}
	a.answered(changed)
	return changed, nil
}
