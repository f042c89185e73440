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
)

const (
	// gather is how long changes are gathered before they are told: a chart brings a role and its binding together.
	gather = 100 * time.Millisecond

	// The first noticeBurst changes are told at once, further ones every noticeEvery. Some clusters write RBAC objects without
	// end, and each notice makes the works with executors ask again.
	noticeBurst = 6
	noticeEvery = 10 * time.Second
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

// watch follows one kind. It keeps nothing of the objects: that there was a change is all there is to know.
func (c *Checker) watch(ctx context.Context, kind string) {
	client := c.watched.Resource(rbacv1.SchemeGroupVersion.WithResource(kind))
	listed := false
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, o)
			c.watches(ctx, kind, err, false)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			c.watches(ctx, kind, err, listed)
			return w, err
		},
	}
	store := &notice{changed: c.changed, listed: func() {
		listed = true
		c.watches(ctx, kind, nil, true)
	}}
	cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, store, cache.ReflectorOptions{Name: "executor " + kind}).RunWithContext(ctx)
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

// changed drops what was answered.
func (c *Checker) changed() {
	c.answers.forget()
	select {
	case c.changes <- struct{}{}:
	default: // the one that waits will be told later than this
	}
}

// notice is a store that keeps nothing.
type notice struct {
	changed, listed func()
}

var _ cache.ReflectorStore = &notice{}

// Add implements cache.ReflectorStore.
func (n *notice) Add(any) error { n.changed(); return nil }

// Update implements cache.ReflectorStore.
func (n *notice) Update(any) error { n.changed(); return nil }

// Delete implements cache.ReflectorStore.
func (n *notice) Delete(any) error { n.changed(); return nil }

// Replace implements cache.ReflectorStore. After a list, nobody knows what happened before it.
func (n *notice) Replace([]any, string) error {
	n.listed()
	n.changed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (n *notice) Resync() error { return nil }
