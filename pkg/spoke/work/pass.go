package work

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
	"nave/pkg/spoke/work/executor"
)

// saveLater is how long what may wait does, while works queue up.
const saveLater = 5 * time.Second

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
	p.inventory.take(results)
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
	passing, lasting := failures(results)
	return passing && !lasting && a.pace.inARow(work) < patience
}

// failures tells whether manifests failed in ways that may pass at once, and in ways that somebody has to mend.
func failures(results []result) (passing, lasting bool) {
	for _, r := range results {
		if r.err != nil {
			person := forAPerson(r.err)
			passing, lasting = passing || !person, lasting || person
		}
	}
	return passing, lasting
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
	for _, r := range results {
		again = sooner(again, r.again)
	}
	passing, lasting := failures(results)
	if !stuck && !passing && !lasting {
		a.pace.succeeded(p.work.Name)
		return again
	}
	return sooner(again, a.pace.failed(p.work.Name, stuck || passing))
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
		if m.gvr.Resource == "" || m.owned {
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

// forAPerson tells an error that somebody has to mend from one that may pass at once: a kind that is about to be served, a
// namespace that is about to be there, a conflict.
func forAPerson(err error) bool {
	var denied *executor.Denied
	var badField *ignoreFieldError
	return errors.As(err, &denied) || errors.As(err, &badField) || errors.Is(err, errUnknownStrategy) ||
		(apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}
