package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
	"nave/pkg/spoke/work/executor"
)

// workFinalizer keeps a work on the hub until what it applied is gone from the cluster.
const workFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"

// saveLater is how long what may wait does, while works queue up.
const saveLater = 5 * time.Second

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

// pass is one pass over a work.
type pass struct {
	work      *workv1.ManifestWork
	amw       *workv1.AppliedManifestWork
	inventory *inventory
	manifests []*manifest
}

// applyWork applies, prunes and reports.
func (a *Agent) applyWork(ctx context.Context, p pass, held func() (*workv1.ManifestWork, error)) (time.Duration, error) {
	results := a.applyAll(ctx, p)
	p.inventory.take(p.work, results)
	left, pruneErr := a.prune(ctx, p)
	// Hub and cluster are told at the same time. A crash between the two is mended by the next start.
	var saving sync.WaitGroup
	var saveErr error
	later := a.mayWait(p.inventory)
	saving.Go(func() {
		if !later {
			saveErr = a.saveApplied(ctx, p.amw, p.inventory)
		}
	})
	work, reportErr := held()
	gone := apierrors.IsNotFound(reportErr)
	if reportErr == nil && !a.hasty(p.work.Name, results) {
		reportErr = a.report(ctx, work, status(p.work, work.Status, results, a.Clock.Now()))
	}
	saving.Wait()
	if gone || apierrors.IsNotFound(saveErr) {
		return 0, a.abandon(ctx, p)
	}
	if err := errors.Join(pruneErr, saveErr, reportErr); err != nil {
		return 0, err
	}
	again := a.lookAt(p, results, left)
	if later {
		again = sooner(again, reconcile.Jitter(saveLater))
	}
	return again, nil
}

// mayWait tells whether the list of what is applied may be written later: while many works wait for a worker, and nothing is
// in it that the inventory, which is written before anything is applied, does not say as well.
func (a *Agent) mayWait(inv *inventory) bool {
	if a.loop.Waiting() <= workers {
		return false
	}
	text, err := inv.text()
	return err == nil && text == inv.noted
}

// hasty tells whether to say nothing yet: what failed may well pass before anybody has read of it.
func (a *Agent) hasty(work string, results []result) bool {
	failed := false
	for _, r := range results {
		if r.err != nil && forAPerson(r.err) {
			return false
		}
		failed = failed || r.err != nil
	}
	return failed && a.pace.inARow(work) < patience
}

// abandon takes back what was applied for a work, or under an AppliedManifestWork, that was gone meanwhile.
func (a *Agent) abandon(ctx context.Context, p pass) error {
	a.remove(ctx, p.amw, p.inventory.all())
	return a.deleteApplied(ctx, p.amw) // and its end takes what is left
}

// lookAt is when the work is to be looked at again though nothing happens.
func (a *Agent) lookAt(p pass, results []result, left []remainder) time.Duration {
	var again time.Duration
	stuck := anyFailed(left)
	if len(left) > 0 && !stuck {
		again = lookAgain
	}
	failed, soon := stuck, stuck
	for _, r := range results {
		failed = failed || r.err != nil
		soon = soon || (r.err != nil && !forAPerson(r.err))
		again = sooner(again, r.again)
	}
	if !failed {
		a.pace.succeeded(p.work.Name)
		return again
	}
	return sooner(again, a.pace.failed(p.work.Name, soon))
}

// prune deletes what the work applied once and no longer lists, and lets go of what it lists but is not to go with it any
// more. It returns what is left of the former. An object that the work lists under another version of its API is the same
// object. While the kind of a manifest is not known, nobody can tell what is not listed any more, and nothing is deleted.
func (a *Agent) prune(ctx context.Context, p pass) ([]remainder, error) {
	listed := map[identity]bool{}
	for _, m := range p.manifests {
		if m.gvr.Resource == "" {
			return nil, nil
		}
		listed[m.id()] = true
	}
	if err := a.releaseOrphans(ctx, p); err != nil {
		return nil, err
	}
	stale := p.inventory.stale(listed)
	left := a.remove(ctx, p.amw, stale)
	keep := listed
	for _, r := range left {
		keep[r.ResourceIdentifier] = true
	}
	for _, gone := range stale {
		if !keep[gone.ResourceIdentifier] {
			delete(p.inventory.items, gone.ResourceIdentifier)
		}
	}
	a.watcher.forget(p.work.Name, keep)
	return left, nil
}

// releaseOrphans takes our reference off what was applied and is to stay when the work goes.
func (a *Agent) releaseOrphans(ctx context.Context, p pass) error {
	for _, m := range p.manifests {
		if m.gvr.Resource == "" || owned(p.work, m) {
			continue
		}
		i, known := p.inventory.items[m.id()]
		if !known || i.version == "" {
			continue
		}
		if err := a.release(ctx, p.amw, resource(m.id(), i)); err != nil {
			return err
		}
		if i = (item{manager: i.manager, done: i.done}); i == (item{}) {
			delete(p.inventory.items, m.id())
			continue
		}
		p.inventory.items[m.id()] = i
	}
	return nil
}

// release takes our reference off an object that was applied, so that it stays when the work goes.
func (a *Agent) release(ctx context.Context, amw *workv1.AppliedManifestWork, object workv1.AppliedManifestResourceMeta) error {
	gvr, live, err := removal{a, amw}.look(ctx, object)
	if err != nil || live == nil {
		return err
	}
	return a.disown(ctx, gvr, object.ResourceIdentifier, live, amw.UID)
}

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

// forAPerson tells an error that somebody has to mend from one that may pass at once: a kind that is about to be served, a
// namespace that is about to be there, a conflict.
func forAPerson(err error) bool {
	var denied *executor.Denied
	var badField *ignoreFieldError
	return errors.As(err, &denied) || errors.As(err, &badField) || errors.Is(err, errUnknownStrategy) ||
		(apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}
