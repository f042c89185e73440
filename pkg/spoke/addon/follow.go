package addon

import (
	"context"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// leases follows single leases, each with a watch of its own: a cluster has leases that change every few seconds, one for
// each node among them, and few of them are add-ons'.
type leases struct {
	kube    kubernetes.Interface
	changed func(addon string)

	mu       sync.Mutex
	followed map[string]*followed // by add-on
	running  sync.WaitGroup
}

type followed struct {
	namespace string
	informer  cache.SharedIndexInformer
	stop      context.CancelFunc
}

// get returns the lease of an add-on, nil if there is none. The first time it only begins to follow the lease, which is
// reported as a change once it is known; until then ok is false.
func (l *leases) get(ctx context.Context, addon, namespace string) (lease *coordinationv1.Lease, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.followed[addon]
	if f != nil && f.namespace != namespace {
		f.stop()
		f = nil
	}
	if f == nil {
		f = l.follow(ctx, addon, namespace)
		l.followed[addon] = f
	}
	if !f.informer.HasSynced() {
		return nil, false
	}
	obj, exists, err := f.informer.GetStore().GetByKey(namespace + "/" + addon)
	if err != nil || !exists {
		return nil, true
	}
	lease, ok = obj.(*coordinationv1.Lease)
	return lease, ok
}

func (l *leases) follow(ctx context.Context, addon, namespace string) *followed {
	ctx, stop := context.WithCancel(ctx)
	source := cache.NewListWatchFromClient(l.kube.CoordinationV1().RESTClient(), "leases", namespace, fields.OneTermEqualSelector("metadata.name", addon))
	informer := cache.NewSharedIndexInformer(source, &coordinationv1.Lease{}, 0, cache.Indexers{})
	l.running.Go(func() { informer.RunWithContext(ctx) })
	l.running.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return
		}
		// Also if there is no lease: that is news as well.
		l.changed(addon)
		notify := func(any) { l.changed(addon) }
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify})
		if err != nil {
			return // the informer has been stopped
		}
	})
	return &followed{namespace: namespace, informer: informer, stop: stop}
}

// forget follows the lease of an add-on no longer.
func (l *leases) forget(addon string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.followed[addon]; f != nil {
		f.stop()
		delete(l.followed, addon)
	}
}
