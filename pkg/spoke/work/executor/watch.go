package executor

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	// gather is how long changes are gathered before they are told: a chart brings a role and its binding together.
	gather = 100 * time.Millisecond

	// The first noticeBurst changes are told at once, further ones every noticeEvery. Some clusters write RBAC objects without
	// end, and each notice makes the works with executors ask again.
	noticeBurst = 20
	noticeEvery = 10 * time.Second

	// forbiddenAgain is how late the agent notices that it may watch what it might not.
	forbiddenAgain = time.Minute
)

// Run watches what decides about permissions until ctx ends; changed is called when answers may have changed. Nothing is
// watched before the first question, since most agents are never asked one.
func (c *Checker) Run(ctx context.Context, changed func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.asked:
	}
	var watching sync.WaitGroup
	for _, kind := range deciding {
		watching.Go(func() { c.watch(ctx, kind) })
	}
	c.tell(ctx, changed)
	watching.Wait()
	return nil
}

// tell passes changes on.
func (c *Checker) tell(ctx context.Context, changed func()) {
	limit := rate.NewLimiter(rate.Every(noticeEvery), noticeBurst)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changes:
		}
		now := c.clock.Now()
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(max(gather, limit.ReserveN(now, 1).DelayFrom(now))):
		}
		select {
		case <-c.changes: // it came meanwhile, and is told with the first
		default:
		}
		changed()
	}
}

// watch follows one kind. Nothing of the objects is kept but who is bound to what.
func (c *Checker) watch(ctx context.Context, kind string) {
	source, expected := c.source(kind)
	listed := false
	followed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			c.unlessForbidden(ctx, func() error {
				list, err = source.list(ctx, o)
				c.watches(ctx, kind, err, false)
				return err
			})
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (w watch.Interface, err error) {
			c.unlessForbidden(ctx, func() error {
				w, err = source.watch(ctx, o)
				c.watches(ctx, kind, err, listed)
				return err
			})
			return w, err
		},
	}
	store := &follower{changed: c.seen, listed: func(all []any) {
		c.listed(kind, all)
		listed = true
		c.watches(ctx, kind, nil, true)
	}}
	cache.NewReflectorWithOptions(followed, expected, store, cache.ReflectorOptions{Name: "executor " + kind}).RunWithContext(ctx)
}

// unlessForbidden tries again where the agent may not do something, until it may. Left to itself, the reflector would do so
// every few seconds, and say so each time.
func (c *Checker) unlessForbidden(ctx context.Context, try func() error) {
	for apierrors.IsForbidden(try()) {
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(reconcile.Jitter(forbiddenAgain)):
		}
	}
}

// source is where objects of a kind come from, and an example of one.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// source has bindings whole, since it matters to whom they are; of roles, that they changed is all there is to know.
func (c *Checker) source(kind string) (source, runtime.Object) {
	switch kind {
	case "rolebindings":
		client := c.rbac.RoleBindings(metav1.NamespaceAll)
		return source{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }, client.Watch}, &rbacv1.RoleBinding{}
	case "clusterrolebindings":
		client := c.rbac.ClusterRoleBindings()
		return source{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }, client.Watch}, &rbacv1.ClusterRoleBinding{}
	}
	client := c.roles.Resource(rbacv1.SchemeGroupVersion.WithResource(kind))
	return source{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }, client.Watch}, &metav1.PartialObjectMetadata{}
}

// watches notes what came of a request for a watch. running says that it goes on where a list, or an earlier one, ended.
func (c *Checker) watches(ctx context.Context, kind string, err error, running bool) {
	runs := err == nil
	if ctx.Err() != nil || runs && !running || !c.answers.watching(kind, runs) {
		return
	}
	logger := c.log.WithField(log.FieldObject, kind)
	switch {
	case apierrors.IsForbidden(err):
		logger.WithError(err).Warn("the agent may not watch who has which rights; answers about executors are used for a minute at most")
	case err != nil:
		logger.WithError(err).Debug("the watch of rights was interrupted")
	default:
		logger.Debug("rights are watched")
	}
}

// seen is called with every object that has changed, or has gone.
func (c *Checker) seen(obj any, gone bool) {
	if role, ok := obj.(*metav1.PartialObjectMetadata); ok {
		c.forget(c.bindings.having(place{role.Namespace, role.Name}))
		return
	}
	at, now := bindingOf(obj)
	if gone {
		now = bound{}
	}
	c.forget(c.bindings.set(at, now))
}

// listed is called with all objects of a kind. Nobody knows what happened before, so everybody may be affected.
func (c *Checker) listed(kind string, all []any) {
	if kind == "rolebindings" || kind == "clusterrolebindings" {
		listed := map[place]bound{}
		for _, obj := range all {
			at, b := bindingOf(obj)
			listed[at] = b
		}
		c.bindings.replace(kind == "rolebindings", listed)
	}
	c.answers.forgetAll()
	c.notice()
}

// forget drops what was answered about some accounts.
func (c *Checker) forget(affected []account) {
	c.answers.forget(affected)
	if len(affected) > 0 {
		c.notice()
	}
}

func (c *Checker) notice() {
	select {
	case c.changes <- struct{}{}:
	default: // the one that waits will be told later than this
	}
}

// follower hands objects on as they come, and keeps none.
type follower struct {
	changed func(obj any, gone bool)
	listed  func(all []any)
}

var _ cache.ReflectorStore = &follower{}

// Add implements cache.ReflectorStore.
func (f *follower) Add(obj any) error { f.changed(obj, false); return nil }

// Update implements cache.ReflectorStore.
func (f *follower) Update(obj any) error { f.changed(obj, false); return nil }

// Delete implements cache.ReflectorStore.
func (f *follower) Delete(obj any) error { f.changed(obj, true); return nil }

// Replace implements cache.ReflectorStore.
func (f *follower) Replace(all []any, _ string) error { f.listed(all); return nil }

// Resync implements cache.ReflectorStore.
func (f *follower) Resync() error { return nil }
