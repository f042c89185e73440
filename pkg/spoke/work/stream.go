package work

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"nave/pkg/reconcile"
)

const (
	// maxStreams bounds the watches that an agent holds open. Kinds beyond are looked at from time to time.
	maxStreams = 256

	// refusedEvery is how often it is tried again to watch what may not be watched.
	refusedEvery = 30 * time.Second
)

// A scope is what one watch covers: a kind in the whole cluster, or in one namespace, for an agent that may not watch all.
type scope struct {
	gvr       schema.GroupVersionResource
	namespace string
}

func (s scope) identity(o v1.Object) identity {
	return identity{Group: s.gvr.Group, Resource: s.gvr.Resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// A stream is a watch of a scope.
type stream struct {
	stop    context.CancelFunc
	synced  bool
	refused bool // the agent may not watch it, or the cluster does not serve it
	absent  bool // it is the latter
	wake    chan struct{}
}

// watchKinds watches the definitions of kinds, for works that wait for one. It goes on as long as the agent.
func (w *watcher) watchKinds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := (scope{definitions, ""}); w.streams[all] == nil {
		w.users[all]++ // so that it outlives the definitions that works have themselves
		w.open(all)
	}
}

// watch begins to watch a kind: all of it, or a namespace where all of it is refused. The caller holds the lock.
func (w *watcher) watch(gvr schema.GroupVersionResource, namespace string) {
	w.open(scope{gvr, ""})
	if all := w.streams[scope{gvr, ""}]; namespace != "" && all != nil && all.refused {
		w.open(scope{gvr, namespace})
	}
}

// watched tells whether changes of objects in a namespace are seen. The caller holds the lock.
func (w *watcher) watched(gvr schema.GroupVersionResource, namespace string) bool {
	for _, s := range []scope{{gvr, ""}, {gvr, namespace}} {
		if stream := w.streams[s]; stream != nil && stream.synced && !stream.refused {
			return true
		}
	}
	return false
}

// blind tells whether changes of an object are not seen, and are not about to be.
func (w *watcher) blind(gvr schema.GroupVersionResource, namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched(gvr, namespace) {
		return false
	}
	for _, s := range []scope{{gvr, ""}, {gvr, namespace}} {
		if stream := w.streams[s]; stream != nil && !stream.refused {
			return false // it is being opened
		}
	}
	return true
}

// open begins a watch. The caller holds the lock.
func (w *watcher) open(s scope) {
	if w.streams[s] != nil || w.ctx == nil || len(w.streams) >= maxStreams {
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.streams[s] = &stream{stop: stop, wake: make(chan struct{}, 1)}
	metricWatches.Inc()
	context.AfterFunc(ctx, metricWatches.Dec)
	reflector := cache.NewReflectorWithOptions(w.source(s), &v1.PartialObjectMetadata{}, &sink{w, s}, cache.ReflectorOptions{
		Name: "work " + s.gvr.GroupResource().String(), Clock: clock.RealClock{},
	})
	go reflector.RunWithContext(ctx)
}

// unwatch ends a watch, if there is one. The caller holds the lock.
func (w *watcher) unwatch(s scope) {
	if stream := w.streams[s]; stream != nil {
		stream.stop()
		delete(w.streams, s)
	}
}

// source lists and watches the metadata of a scope. What may not be watched, or is not served, is waited for in here: it is a
// state of the cluster and no reason to log anything every time.
func (w *watcher) source(s scope) cache.ListerWatcher {
	client := w.client.Resource(s.gvr).Namespace(s.namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o v1.ListOptions) (runtime.Object, error) {
			return untilAllowed(ctx, w, s, func() (runtime.Object, error) { return client.List(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o v1.ListOptions) (watch.Interface, error) {
			return untilAllowed(ctx, w, s, func() (watch.Interface, error) { return client.Watch(ctx, o) })
		},
	}
}

func untilAllowed[T any](ctx context.Context, w *watcher, s scope, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if !refusal(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-w.refused(s, apierrors.IsNotFound(err)):
		case <-time.After(reconcile.Jitter(refusedEvery)):
		}
	}
}

func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// refused notes that a scope may not be watched, or is not there to be watched. In the former case the namespaces in it that
// matter are tried. It returns what says that it is worth another try.
func (w *watcher) refused(s scope, absent bool) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	stream := w.streams[s]
	if stream == nil {
		return nil // it is not wanted any more
	}
	before := stream.refused
	stream.refused, stream.absent = true, absent
	if before || absent || s.namespace != "" {
		return stream.wake
	}
	for used := range w.users {
		if used.gvr == s.gvr && used.namespace != "" {
			w.open(used)
		}
	}
	return stream.wake
}

// served notes that a kind is there after all, since an object of it was written. The caller holds the lock.
func (w *watcher) served(gvr schema.GroupVersionResource) {
	stream := w.streams[scope{gvr, ""}]
	if stream == nil || !stream.absent {
		return
	}
	stream.absent = false
	select {
	case stream.wake <- struct{}{}:
	default: // it has been told
	}
}

// allowed notes that a scope is watched. The whole of a kind makes the watches of its namespaces needless.
func (w *watcher) allowed(s scope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stream := w.streams[s]
	if stream == nil {
		return
	}
	stream.synced, stream.refused, stream.absent = true, false, false
	if s.namespace != "" {
		return
	}
	for other := range w.streams {
		if other.gvr == s.gvr && other.namespace != "" {
			w.unwatch(other)
		}
	}
}

// sink is where a reflector puts what it sees. It stores nothing.
type sink struct {
	*watcher
	scope scope
}

var _ cache.ReflectorStore = &sink{}
var _ cache.TransformingStore = &sink{}

// Add implements cache.ReflectorStore.
func (s *sink) Add(obj any) error { return s.take(obj, false) }

// Update implements cache.ReflectorStore.
func (s *sink) Update(obj any) error { return s.take(obj, false) }

// Delete implements cache.ReflectorStore.
func (s *sink) Delete(obj any) error { return s.take(obj, true) }

// Resync implements cache.ReflectorStore; there is nothing to do again.
func (s *sink) Resync() error { return nil }

func (s *sink) take(obj any, deleted bool) error {
	if s.scope.gvr == definitions {
		s.kinds()
	}
	if o, ok := obj.(*v1.PartialObjectMetadata); ok {
		s.seen(s.scope.identity(o), o, deleted)
	}
	return nil
}

// Replace implements cache.ReflectorStore: the objects are all there are at that version.
func (s *sink) Replace(objects []any, resourceVersion string) error {
	present := make(map[identity]bool)
	for _, obj := range objects {
		o, ok := obj.(*v1.PartialObjectMetadata)
		if !ok {
			continue
		}
		if id := s.scope.identity(o); s.known(id) {
			present[id] = true
			s.seen(id, o, false)
		}
	}
	s.listed(s.scope, present, number(resourceVersion))
	s.allowed(s.scope)
	if s.scope.gvr == definitions {
		s.kinds()
	}
	return nil
}

// Transformer implements cache.TransformingStore: a first list is held whole for a moment, so objects that no work has to do
// with are made small.
func (s *sink) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, ok := obj.(*v1.PartialObjectMetadata)
		if !ok {
			return obj, nil
		}
		if s.known(s.scope.identity(o)) {
			o.ManagedFields = nil
			return o, nil
		}
		return &v1.PartialObjectMetadata{ObjectMeta: v1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion}}, nil
	}
}
