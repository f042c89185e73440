// Package work applies ManifestWorks to a managed cluster: it watches the hub for what is wanted and the cluster for what
// is there, and brings the two together at once when either changes (spec 4, design D7).
package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const (
	// workFinalizer keeps a work on the hub until what it applied is gone from the cluster.
	workFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"

	// workers apply different works at the same time.
	workers = 16

	// driftBurst repairs of one work come at once, further ones at driftEvery: two writers that each want their own would
	// otherwise keep an API server busy with nothing else.
	driftBurst = 20
	driftEvery = time.Second

	// retryFailed is how soon a manifest that failed is tried again when nothing else happens. The first tries come much
	// sooner, with the loop's back-off.
	retryFailed = 30 * time.Second

	// refreshKinds is how often, at most, the cluster is asked anew which kinds it serves.
	refreshKinds = 100 * time.Millisecond
)

// Config is what the agent needs.
type Config struct {
	Log        logrus.FieldLogger
	Cluster    string // the managed cluster's name, and namespace on the hub
	HubServer  string // URL of the hub, for the names of AppliedManifestWorks
	Hub, Spoke *rest.Config
	AgentID    string                      // of this installation; AppliedManifestWorks of others are left alone
	Settings   *live.Value[settings.Agent] // grace period of evictions
	Clock      clock.WithTicker
}

// Agent applies the works of one cluster.
type Agent struct {
	Config
	hubHash       string
	hubWorks      workv1client.ManifestWorkInterface
	appliedClient workv1client.AppliedManifestWorkInterface
	spoke         dynamic.Interface
	mapper        *kinds
	watcher       *watcher
	works         worklisters.ManifestWorkNamespaceLister
	applied       worklisters.AppliedManifestWorkLister
	loop          *reconcile.Loop
	appliedLoop   *reconcile.Loop
	start         []func(stop <-chan struct{})
	synced        []cache.InformerSynced

	mu    sync.Mutex
	drift map[string]*rate.Limiter // by work

	ended sync.Map // names of works that were seen to be deleted on the hub
}

// New prepares clients and informers.
func New(c Config) (*Agent, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	hub, err := workclient.NewForConfig(c.Hub)
	if err != nil {
		return nil, fmt.Errorf("client of the hub: %w", err)
	}
	spoke, err := newSpokeClients(c.Spoke)
	if err != nil {
		return nil, err
	}
	works := workinformers.NewSharedInformerFactoryWithOptions(hub, 0, workinformers.WithNamespace(c.Cluster), workinformers.WithTransform(withoutManagedFields))
	applied := workinformers.NewSharedInformerFactoryWithOptions(spoke.works, 0, workinformers.WithTransform(withoutManagedFields))
	a := &Agent{
		Config:        c,
		hubHash:       HubHash(c.HubServer),
		hubWorks:      hub.WorkV1().ManifestWorks(c.Cluster),
		appliedClient: spoke.works.WorkV1().AppliedManifestWorks(),
		spoke:         spoke.dynamic,
		mapper:        newKinds(spoke.discovery, c.Clock),
		works:         works.Work().V1().ManifestWorks().Lister().ManifestWorks(c.Cluster),
		applied:       applied.Work().V1().AppliedManifestWorks().Lister(),
		start:         []func(<-chan struct{}){works.Start, applied.Start},
		drift:         map[string]*rate.Limiter{},
	}
	a.watcher = newWatcher(spoke.metadata, a.drifted)
	a.loop = reconcile.New("work", c.Log, workers, a.reconcile)
	a.appliedLoop = reconcile.New("applied", c.Log, workers, a.reconcileApplied)
	return a, a.listen(works.Work().V1().ManifestWorks().Informer(), applied.Work().V1().AppliedManifestWorks().Informer())
}

type spokeClients struct {
	works     *workclient.Clientset
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
}

func newSpokeClients(config *rest.Config) (*spokeClients, error) {
	var s spokeClients
	var errs [4]error
	s.works, errs[0] = workclient.NewForConfig(config)
	s.dynamic, errs[1] = dynamic.NewForConfig(config)
	s.metadata, errs[2] = metadata.NewForConfig(config)
	s.discovery, errs[3] = discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("clients of the managed cluster: %w", err)
	}
	return &s, nil
}

func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// listen registers for works of the hub, and for what stands for them on the cluster.
func (a *Agent) listen(works, applied cache.SharedIndexInformer) error {
	name := func(obj any) (string, bool) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		o, ok := obj.(metav1.Object)
		if !ok {
			return "", false
		}
		return o.GetName(), true
	}
	changed := func(obj any) {
		if n, ok := name(obj); ok {
			a.loop.Add(n)
		}
	}
	appliedChanged := func(obj any) {
		if n, ok := name(obj); ok {
			a.appliedLoop.Add(n)
		}
	}
	registration, err := works.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if n, ok := name(obj); ok {
				a.ended.Delete(n)
			}
			changed(obj)
		},
		UpdateFunc: func(before, after any) {
			// Our own writes of the status come back, too; there is nothing to do about them.
			x, y := before.(*workv1.ManifestWork), after.(*workv1.ManifestWork)
			if x.Generation != y.Generation || !slices.Equal(x.Finalizers, y.Finalizers) || (x.DeletionTimestamp == nil) != (y.DeletionTimestamp == nil) || x.UID != y.UID {
				changed(after)
			}
		},
		DeleteFunc: func(obj any) {
			// Seen to be deleted, rather than found missing after the connection was lost.
			if work, ok := obj.(*workv1.ManifestWork); ok {
				a.ended.Store(work.Name, struct{}{})
			}
			changed(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("watch works of cluster %s: %w", a.Cluster, err)
	}
	a.synced = append(a.synced, registration.HasSynced)
	registration, err = applied.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    appliedChanged,
		UpdateFunc: func(_, obj any) { appliedChanged(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if amw, ok := obj.(*workv1.AppliedManifestWork); ok {
				a.loop.Add(amw.Spec.ManifestWorkName) // its work may go now, or has to be applied anew
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch applied manifest works: %w", err)
	}
	a.synced = append(a.synced, registration.HasSynced)
	return nil
}

// Run applies works until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	a.watcher.start(ctx)
	for _, start := range a.start {
		start(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() { _ = a.appliedLoop.Run(ctx) }) // a loop returns no error
	running.Go(func() { a.followSettings(ctx) })
	err := a.loop.Run(ctx)
	running.Wait()
	return err
}

// followSettings looks again at what waits to be evicted when it may have to wait otherwise.
func (a *Agent) followSettings(ctx context.Context) {
	before, changed := a.Settings.Watch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		var now settings.Agent
		if now, changed = a.Settings.Watch(); now.EvictionGrace == before.EvictionGrace {
			continue
		}
		before = now
		all, err := a.applied.List(labels.Everything())
		if err != nil {
			continue // a cache does not fail
		}
		for _, amw := range all {
			if amw.Status.EvictionStartTime != nil {
				a.appliedLoop.Add(amw.Name)
			}
		}
	}
}

// drifted is called when an object of a work was changed or deleted by somebody else, or has gone as it should.
func (a *Agent) drifted(work string) {
	a.mu.Lock()
	limiter := a.drift[work]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(driftEvery), driftBurst)
		a.drift[work] = limiter
	}
	delay := limiter.ReserveN(a.Clock.Now(), 1).DelayFrom(a.Clock.Now())
	a.mu.Unlock()
	if amw, err := a.findApplied(work); err == nil && amw != nil && amw.DeletionTimestamp != nil {
		a.appliedLoop.Add(amw.Name)
	}
	a.loop.AddAfter(work, delay)
}

// reconcile brings the cluster in line with one work.
func (a *Agent) reconcile(ctx context.Context, name string) (time.Duration, error) {
	work, err := a.works.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, a.orphaned(name)
	}
	if err != nil {
		return 0, err
	}
	if work.DeletionTimestamp != nil {
		return 0, a.finish(ctx, work)
	}
	held := a.hold(ctx, work)
	amw, err := a.ensureApplied(ctx, work)
	if err != nil {
		_, holdErr := held()
		return 0, errors.Join(err, holdErr)
	}
	if amw.DeletionTimestamp != nil {
		_, err := held()
		return 0, err // its end is an event, and then another one is made
	}
	return a.applyWork(ctx, work, amw, held)
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

// applyWork applies, prunes and reports.
func (a *Agent) applyWork(ctx context.Context, work *workv1.ManifestWork, amw *workv1.AppliedManifestWork, held func() (*workv1.ManifestWork, error)) (time.Duration, error) {
	results, applied := a.applyAll(ctx, work, amw)
	left := staleOf(amw, applied)
	var pruneErr error
	if listed, all := identifiers(results); all { // else nobody can tell what is stale
		left, pruneErr = a.prune(ctx, amw, applied, listed)
	}
	// Hub and cluster are told at the same time. A crash between the two is mended by the next start.
	var saving sync.WaitGroup
	var saveErr error
	saving.Go(func() { saveErr = a.saveApplied(ctx, amw, append(applied, left...)) })
	work, reportErr := held()
	switch {
	case apierrors.IsNotFound(reportErr):
		saving.Wait()
		return 0, a.abandon(ctx, amw, applied)
	case reportErr == nil:
		reportErr = a.report(ctx, work, status(work, results))
	}
	saving.Wait()
	if apierrors.IsNotFound(saveErr) { // the work has ended meanwhile, and what stood for it here did not know of these
		_, err := a.remove(ctx, amw, applied)
		return 0, err
	}
	if err := errors.Join(pruneErr, saveErr, reportErr, retriable(results)); err != nil {
		return 0, err
	}
	switch {
	case len(left) > 0:
		return lookAgain, nil
	case slices.ContainsFunc(results, func(r result) bool { return r.err != nil }):
		return reconcile.Jitter(retryFailed), nil
	}
	return 0, nil
}

// abandon takes back what was applied for a work that was gone before it could be held.
func (a *Agent) abandon(ctx context.Context, amw *workv1.AppliedManifestWork, applied []workv1.AppliedManifestResourceMeta) error {
	_, err := a.remove(ctx, amw, applied)
	return errors.Join(err, a.deleteApplied(ctx, amw))
}

// staleOf is what the work once applied and does not now, for when nothing may be deleted.
func staleOf(amw *workv1.AppliedManifestWork, now []workv1.AppliedManifestResourceMeta) []workv1.AppliedManifestResourceMeta {
	return slices.DeleteFunc(slices.Clone(amw.Status.AppliedResources), func(before workv1.AppliedManifestResourceMeta) bool {
		return slices.ContainsFunc(now, func(r workv1.AppliedManifestResourceMeta) bool {
			return r.ResourceIdentifier == before.ResourceIdentifier
		})
	})
}

// retriable is an error if something failed that may work at once again: a kind that is about to be served, a namespace
// that is about to be there, a conflict. What a person has to mend is tried again later.
func retriable(results []result) error {
	for _, r := range results {
		if r.err == nil || errors.Is(r.err, errUnsupported) || apierrors.IsForbidden(r.err) || apierrors.IsInvalid(r.err) ||
			apierrors.HasStatusCause(r.err, metav1.CauseTypeFieldManagerConflict) {
			continue
		}
		return fmt.Errorf("manifest %d: %w", r.ordinal, r.err)
	}
	return nil
}

// identifiers are those of all objects that the work lists; all is false if there are any whose kind is not known.
func identifiers(results []result) (listed map[workv1.ResourceIdentifier]bool, all bool) {
	listed, all = map[workv1.ResourceIdentifier]bool{}, true
	for _, r := range results {
		if r.gvr.Resource == "" {
			all = false
			continue
		}
		listed[resourceOf(r.key(), "").ResourceIdentifier] = true
	}
	return listed, all
}

// applyAll applies every manifest in order; one that fails does not keep the others back.
func (a *Agent) applyAll(ctx context.Context, work *workv1.ManifestWork, amw *workv1.AppliedManifestWork) (results []result, applied []workv1.AppliedManifestResourceMeta) {
	keep := map[key]bool{}
	before := map[workv1.ResourceIdentifier]workv1.AppliedManifestResourceMeta{}
	for _, r := range amw.Status.AppliedResources {
		before[r.ResourceIdentifier] = r
	}
	for _, m := range inOrder(decode(work)) {
		m.resolve(a.mapper)
		if m.err != nil {
			a.mapper.refresh()
			results = append(results, result{manifest: m, err: m.err})
			continue
		}
		r := a.applyOne(ctx, work, m, ownerOf(amw))
		results = append(results, r)
		keep[m.key()] = true
		switch {
		case r.err == nil && r.exists && owned(work, m) && !readOnly(work, m):
			applied = append(applied, resourceOf(m.key(), r.uid))
		case r.err != nil && before[resourceOf(m.key(), "").ResourceIdentifier].UID != "":
			applied = append(applied, before[resourceOf(m.key(), "").ResourceIdentifier]) // it failed to change, but it is ours
		}
	}
	a.watcher.forget(work.Name, keep)
	return results, applied
}

func readOnly(work *workv1.ManifestWork, m *manifest) bool {
	s := configFor(work, m).UpdateStrategy
	return s != nil && s.Type == workv1.UpdateStrategyTypeReadOnly
}

func (a *Agent) applyOne(ctx context.Context, work *workv1.ManifestWork, m *manifest, owner metav1.OwnerReference) result {
	r := result{manifest: m}
	if work.Spec.Executor != nil {
		r.err = fmt.Errorf("spec.executor %w", errUnsupported)
		return r
	}
	mine, hash := owned(work, m), treatment(work, m)
	if uid, ok := a.watcher.settled(m.key(), work.Name, hash, mine); ok && !readOnly(work, m) {
		r.exists, r.uid = true, uid
		return r
	}
	a.watcher.expect(m.key(), work.Name)
	live, err := a.apply(ctx, work, m, owner)
	r.err = err
	if live != nil {
		r.exists, r.uid = true, string(live.GetUID())
	}
	if err == nil {
		a.watcher.applied(m.key(), work.Name, hash, mine, live)
		if live.GetDeletionTimestamp() != nil {
			r.err = fmt.Errorf("%s is being deleted; it is applied again once it is gone", m.key())
		}
	}
	return r
}

func (a *Agent) patchFinalizers(ctx context.Context, work *workv1.ManifestWork, finalizers []string) (*workv1.ManifestWork, error) {
	body, err := reconcile.MergePatch(work, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		return nil, err
	}
	patched, err := a.hubWorks.Patch(ctx, work.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("finalizer of work %s: %w", work.Name, err)
	}
	return patched, nil
}

// finish ends a work that is being deleted: what it applied goes, then what stands for it on the cluster, then the work.
func (a *Agent) finish(ctx context.Context, work *workv1.ManifestWork) error {
	if !slices.Contains(work.Finalizers, workFinalizer) {
		return nil
	}
	amw, err := a.findApplied(work.Name)
	if err != nil {
		return err
	}
	if amw != nil {
		if amw.DeletionTimestamp == nil {
			if err := a.releaseOrphans(ctx, work, amw); err != nil {
				return err
			}
			if err := a.appliedClient.Delete(ctx, amw.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete applied manifest work %s: %w", amw.Name, err)
			}
		}
		next := *work.Status.DeepCopy()
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{Type: workv1.WorkDeleting, Status: metav1.ConditionTrue, Reason: "WorkDeleting",
			Message: "ManifestWork is being deleted", ObservedGeneration: work.Generation})
		return a.report(ctx, work, next) // the end of the AppliedManifestWork calls again
	}
	a.forget(work.Name)
	_, err = a.patchFinalizers(ctx, work, slices.DeleteFunc(slices.Clone(work.Finalizers), func(f string) bool { return f == workFinalizer }))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// releaseOrphans lets go of what is to stay when the work goes, for a work whose option was changed just before its end.
func (a *Agent) releaseOrphans(ctx context.Context, work *workv1.ManifestWork, amw *workv1.AppliedManifestWork) error {
	stays := map[workv1.ResourceIdentifier]bool{}
	for _, m := range decode(work) {
		if m.resolve(a.mapper); m.err == nil && (!owned(work, m) || readOnly(work, m)) {
			stays[resourceOf(m.key(), "").ResourceIdentifier] = true
		}
	}
	var errs []error
	for _, object := range amw.Status.AppliedResources {
		if stays[object.ResourceIdentifier] {
			errs = append(errs, a.release(ctx, amw, object))
		}
	}
	return errors.Join(errs...)
}

// orphaned looks at what stands on the cluster for a work that is not on the hub any more.
func (a *Agent) orphaned(name string) error {
	a.forget(name)
	amw, err := a.findApplied(name)
	if err != nil || amw == nil {
		return err
	}
	a.appliedLoop.Add(amw.Name)
	return nil
}

func (a *Agent) forget(work string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.drift, work)
}

// kinds maps kinds to resources as the cluster serves them, and asks it again when a kind is not known.
type kinds struct {
	*restmapper.DeferredDiscoveryRESTMapper
	clock clock.PassiveClock

	mu   sync.Mutex
	last time.Time
}

func newKinds(client discovery.DiscoveryInterface, c clock.PassiveClock) *kinds {
	return &kinds{DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), clock: c}
}

// refresh forgets what the cluster serves, at most so often that works with unknown kinds do not keep it busy.
func (k *kinds) refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock.Since(k.last) < refreshKinds {
		return
	}
	k.last = k.clock.Now()
	k.Reset()
}
