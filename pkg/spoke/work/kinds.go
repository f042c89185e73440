package work

import (
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/clock"
)

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
