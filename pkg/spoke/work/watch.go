package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// A record is what the agent knows of an object that a work applied: which manifest it had, what came of it, and what has
// been seen of it since. While nothing but that has been seen, the object needs no request at all.
type record struct {
	hash      [sha256.Size]byte
	owned     bool
	uid       string
	version   uint64 // resourceVersion after our own write
	signature string // of the object after our own write
	drifted   bool   // it has been changed or deleted since

	seenVersion   uint64 // of the newest change that was seen
	seenSignature string
}

// watcher sees every change of the objects that works have applied, by watching the metadata of their kinds. Of objects
// that no work applied it keeps a few words each.
type watcher struct {
	client metadata.Interface
	notify func(work string)

	mu      sync.Mutex
	ctx     context.Context // ends with the agent
	records map[key]map[string]*record
	watches map[schema.GroupVersionResource]*kindWatch
}

type kindWatch struct {
	stop   context.CancelFunc
	synced cache.InformerSynced
}

func newWatcher(client metadata.Interface, notify func(string)) *watcher {
	return &watcher{client: client, notify: notify, records: map[key]map[string]*record{}, watches: map[schema.GroupVersionResource]*kindWatch{}}
}

// start lets the watches of kinds live until ctx ends.
func (w *watcher) start(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = ctx
}

// settled tells whether the object is, as far as anyone has seen, as this manifest left it.
func (w *watcher) settled(k key, work string, hash [sha256.Size]byte, owned bool) (uid string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.records[k][work]
	if r == nil || r.drifted || r.hash != hash || r.owned != owned {
		return "", false
	}
	watch := w.watches[k.gvr]
	return r.uid, watch != nil && watch.synced()
}

// applied notes what an object is after our write, and watches its kind from then on.
func (w *watcher) applied(k key, work string, hash [sha256.Size]byte, owned bool, live v1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records[k] == nil {
		w.records[k] = map[string]*record{}
	}
	next := &record{hash: hash, owned: owned, uid: string(live.GetUID()), version: number(live.GetResourceVersion()), signature: signature(live)}
	if before := w.records[k][work]; before != nil && before.seenVersion > next.version && before.seenSignature != next.signature {
		next.drifted = true // somebody was there between our write and this note of it, and the work has been called for
	}
	w.records[k][work] = next
	w.watch(k.gvr)
}

// forget drops what a work no longer has on the cluster, and the watch of a kind of which nothing is left.
func (w *watcher) forget(work string, keep map[key]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[schema.GroupVersionResource]bool{}
	for k, works := range w.records {
		if works[work] != nil && !keep[k] {
			delete(works, work)
		}
		if len(works) == 0 {
			delete(w.records, k)
			continue
		}
		used[k.gvr] = true
	}
	for gvr, watch := range w.watches {
		if !used[gvr] {
			watch.stop()
			delete(w.watches, gvr)
		}
	}
}

// expect watches an object that a work is about to write or to delete, so that nothing that happens to it is missed.
func (w *watcher) expect(k key, work string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records[k] == nil {
		w.records[k] = map[string]*record{}
	}
	if w.records[k][work] == nil {
		w.records[k][work] = &record{drifted: true}
	}
	w.watch(k.gvr)
}

// watch begins to watch a kind. The caller holds the lock.
func (w *watcher) watch(gvr schema.GroupVersionResource) {
	if w.watches[gvr] != nil || w.ctx == nil {
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, gvr, v1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	// Errors below are of an informer that has started; this one has not.
	_ = informer.SetTransform(inFewWords)
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.seen(gvr, obj, false) },
		UpdateFunc: func(_, obj any) { w.seen(gvr, obj, false) },
		DeleteFunc: func(obj any) { w.seen(gvr, obj, true) },
	})
	if err != nil {
		stop()
		return
	}
	w.watches[gvr] = &kindWatch{stop: stop, synced: registration.HasSynced}
	go informer.Run(ctx.Done())
}

// seen compares what happened to an object with what we did to it.
func (w *watcher) seen(gvr schema.GroupVersionResource, obj any, deleted bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o, ok := obj.(*v1.PartialObjectMetadata)
	if !ok {
		return
	}
	w.mu.Lock()
	var changed []string
	for work, r := range w.records[key{gvr, o.Namespace, o.Name}] {
		ours := !deleted && (o.Annotations[signatureKey] == r.signature || number(o.ResourceVersion) < r.version)
		if ours && string(o.UID) == r.uid {
			continue
		}
		r.drifted, r.seenVersion, r.seenSignature = true, number(o.ResourceVersion), o.Annotations[signatureKey]
		changed = append(changed, work)
	}
	w.mu.Unlock()
	for _, work := range changed {
		w.notify(work)
	}
}

// signatureKey is where inFewWords leaves an object's signature.
const signatureKey = "signature"

// inFewWords keeps of an object its name and a signature of what matters about it.
func inFewWords(obj any) (any, error) {
	o, ok := obj.(*v1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &v1.PartialObjectMetadata{ObjectMeta: v1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Annotations: map[string]string{signatureKey: signature(o)},
	}}, nil
}

// signature changes whenever an object may differ from what a manifest says. An object with a generation counts the
// changes of its content itself, so that its status, which changes all the time, does not matter; one without (a
// ConfigMap, a Role) is what its resourceVersion says.
func signature(o v1.Object) string {
	content := strconv.FormatInt(o.GetGeneration(), 10)
	if o.GetGeneration() == 0 {
		content = "v" + o.GetResourceVersion()
	}
	sum := sha256.Sum256(fmt.Append(nil, content, o.GetUID(), o.GetLabels(), o.GetAnnotations(), owners(o), o.GetDeletionTimestamp() != nil))
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
