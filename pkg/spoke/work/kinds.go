package work

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
)

// definitions are where the cluster says which custom kinds it serves.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// servedAfter is how long after a change of a definition its kind is looked for: it is served a moment later.
const servedAfter = 50 * time.Millisecond

// refreshKinds is how often, at most, the cluster is asked anew which kinds it serves.
const refreshKinds = 100 * time.Millisecond

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

// awaitKinds notes whether a work waits for kinds that the cluster does not serve.
func (a *Agent) awaitKinds(work string, manifests []*manifest) {
	for _, m := range manifests {
		if m.gvr.Resource == "" && m.object.GetKind() != "" {
			a.unserved.Store(work, struct{}{})
			a.watcher.watchKinds()
			return
		}
	}
	a.unserved.Delete(work)
}

// kindsChanged looks again at works that wait for kinds.
func (a *Agent) kindsChanged() {
	a.unserved.Range(func(work, _ any) bool {
		a.mapper.Reset()
		a.loop.AddAfter(work.(string), servedAfter)
		return true
	})
}
