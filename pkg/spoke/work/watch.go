package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"
)

// identity names an object on the cluster, whatever the version of its API.
type identity = workv1.ResourceIdentifier

// watcher sees what happens to the objects that works have to do with, by watching the metadata of their kinds. Of other
// objects it keeps nothing, however many there are.
type watcher struct {
	client metadata.Interface
	clock  clock.PassiveClock
	notify func(work string, delay time.Duration, what change)
	kinds  func() // is called when the cluster may serve other kinds than before

	mu      sync.Mutex
	ctx     context.Context // ends with the agent
	objects map[identity]*object
	works   map[string]map[identity]*use
	streams map[scope]*stream
	users   map[scope]int // uses of objects in each namespace, and under namespace "" in all
}

// change is what has happened to an object.
type change int

const (
	drift    change = iota // it may differ from what a manifest says
	progress               // it says something else about itself, as in its status
)

// An object is what is known of one that works have to do with.
type object struct {
	uid     string
	version uint64 // resourceVersion of our newest write or look
	content string // its signature at that version

	seenVersion uint64 // of the newest change that was seen
	seenContent string

	uses map[string]*use // by work
}

// A use is what one work has to do with an object. While nothing but what the work itself did has been seen of the object, it
// needs no request at all.
type use struct {
	gvr       schema.GroupVersionResource
	treatment treatment
	uid       string
	drifted   bool // the object has been changed or deleted by somebody else since, or the work has not written it yet

	busy  bool   // a request about the object is under way; what happens meanwhile is looked at when it is answered
	since uint64 // newest change that had been seen before that request

	every    time.Duration // how often what the object says about itself is looked at; negative if nobody wants to know
	looked   time.Time
	version  uint64 // at which it was looked at
	findings *findings
}

func newWatcher(client metadata.Interface, clock clock.PassiveClock, notify func(string, time.Duration, change), kinds func()) *watcher {
	return &watcher{
		client: client, clock: clock, notify: notify, kinds: kinds,
		objects: map[identity]*object{}, works: map[string]map[identity]*use{}, streams: map[scope]*stream{}, users: map[scope]int{},
	}
}

// start lets watches live until ctx ends.
func (w *watcher) start(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = ctx
}

// expect watches an object that a work wants to be gone.
func (w *watcher) expect(gvr schema.GroupVersionResource, id identity, work string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.use(gvr, id, work)
}

// begin watches an object that a work is about to write, so that nothing that happens to it is missed. settle or fail ends it.
func (w *watcher) begin(gvr schema.GroupVersionResource, id identity, work string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, u := w.use(gvr, id, work)
	u.busy, u.since = true, o.seenVersion
}

// fail ends a request that failed. It tells whether something has happened to the object meanwhile.
func (w *watcher) fail(id identity, work string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.works[work][id]
	if u == nil {
		return false
	}
	u.busy, u.drifted = false, true
	return w.objects[id].seenVersion != u.since
}

// use is the record of a work's object, which is made if there is none. The caller holds the lock.
func (w *watcher) use(gvr schema.GroupVersionResource, id identity, work string) (*object, *use) {
	o := w.objects[id]
	if o == nil {
		o = &object{uses: map[string]*use{}}
		w.objects[id] = o
	}
	u := o.uses[work]
	if u != nil && u.gvr == gvr {
		return o, u
	}
	if u != nil {
		w.drop(id, work)
		w.objects[id] = o
	}
	u = &use{gvr: gvr, drifted: true, every: -1}
	o.uses[work] = u
	if w.works[work] == nil {
		w.works[work] = map[identity]*use{}
	}
	w.works[work][id] = u
	w.users[scope{gvr, ""}]++
	if id.Namespace != "" {
		w.users[scope{gvr, id.Namespace}]++
	}
	w.watch(gvr, id.Namespace)
	return o, u
}

// settled tells whether the object is, as far as anyone has seen, as this treatment of its manifest left it.
func (w *watcher) settled(id identity, work string, t treatment) (uid string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.works[work][id]
	if u == nil || u.drifted || u.treatment != t {
		return "", false
	}
	return u.uid, w.watched(u.gvr, id.Namespace)
}

// settle notes what an object is after a work wrote or looked at it. It tells whether somebody else has changed it between
// the request and this note of it.
func (w *watcher) settle(gvr schema.GroupVersionResource, id identity, work string, t treatment, live v1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, u := w.use(gvr, id, work)
	version, content := number(live.GetResourceVersion()), signature(live)
	if version >= o.version || string(live.GetUID()) != o.uid {
		o.uid, o.version, o.content = string(live.GetUID()), version, content
	}
	w.served(gvr)
	u.treatment, u.uid, u.busy = t, string(live.GetUID()), false
	u.drifted = o.seenVersion > o.version && o.seenContent != o.content
	return u.drifted
}

// forget drops what a work no longer has to do with, and watches that nobody needs any more.
func (w *watcher) forget(work string, keep map[identity]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.works[work] {
		if !keep[id] {
			w.drop(id, work)
		}
	}
}

// drop ends the use of an object. The caller holds the lock.
func (w *watcher) drop(id identity, work string) {
	u := w.works[work][id]
	delete(w.works[work], id)
	if len(w.works[work]) == 0 {
		delete(w.works, work)
	}
	delete(w.objects[id].uses, work)
	if len(w.objects[id].uses) == 0 {
		delete(w.objects, id)
	}
	w.release(scope{u.gvr, ""})
	if id.Namespace != "" {
		w.release(scope{u.gvr, id.Namespace})
	}
}

func (w *watcher) release(s scope) {
	if w.users[s]--; w.users[s] > 0 {
		return
	}
	delete(w.users, s)
	w.unwatch(s)
}

// seen compares what happened to an object with what was done to it here. A change that another work of this agent made is
// no drift: two works that want different things of an object would otherwise undo each other's for ever. The last one that
// changed has its way, and both are called for when somebody else changes the object.
func (w *watcher) seen(id identity, o *v1.PartialObjectMetadata, deleted bool) {
	if !w.known(id) {
		return
	}
	content := "gone"
	if !deleted {
		content = signature(o)
	}
	w.happened(id, string(o.UID), number(o.ResourceVersion), content)
}

func (w *watcher) known(id identity) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[id] != nil
}

// happened takes note of the state of an object at a version.
func (w *watcher) happened(id identity, uid string, version uint64, content string) {
	w.mu.Lock()
	o := w.objects[id]
	if o == nil || version < o.seenVersion {
		w.mu.Unlock()
		return
	}
	o.seenVersion, o.seenContent = version, content
	calls := map[string]time.Duration{}
	what := drift
	switch {
	case version < o.version || (version == o.version && uid == o.uid && content != "gone"):
	case content == o.content && uid == o.uid:
		what = progress
		for work, u := range o.uses {
			if u.every >= 0 && !u.busy && version > u.version {
				calls[work] = max(0, u.looked.Add(u.every).Sub(w.clock.Now()))
			}
		}
	default:
		for work, u := range o.uses {
			if u.drifted = true; !u.busy {
				calls[work] = 0
			}
		}
	}
	w.mu.Unlock()
	for work, delay := range calls {
		w.notify(work, delay, what)
	}
}

// listed takes note of a list of a scope: what was there and is not listed is gone.
func (w *watcher) listed(s scope, present map[identity]bool, version uint64) {
	w.mu.Lock()
	var gone []identity
	for id, o := range w.objects {
		if id.Group != s.gvr.Group || id.Resource != s.gvr.Resource || present[id] || o.version > version || o.version == 0 {
			continue
		}
		if s.namespace == "" || s.namespace == id.Namespace {
			gone = append(gone, id)
		}
	}
	w.mu.Unlock()
	for _, id := range gone {
		w.happened(id, "", version, "gone")
	}
}

// signature changes whenever an object may differ from what a manifest says. An object with a generation counts the
// changes of its content itself, so that its status, which changes all the time, does not matter; one without (a
// ConfigMap, a Role) is what its resourceVersion says.
func signature(o v1.Object) string {
	content := strconv.FormatInt(o.GetGeneration(), 10)
	if o.GetGeneration() == 0 {
		content = "v" + o.GetResourceVersion()
	}
	sum := sha256.Sum256(fmt.Append(nil, content, o.GetUID(), o.GetLabels(), o.GetAnnotations(), owners(o), o.GetFinalizers(), o.GetDeletionTimestamp() != nil))
	return hex.EncodeToString(sum[:12])
}

func owners(o v1.Object) []string {
	var uids []string
	for _, r := range o.GetOwnerReferences() {
		uids = append(uids, string(r.UID))
	}
	return uids
}

// number is a resourceVersion as the number that Kubernetes' API servers make it; 0 for one that is none.
func number(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
