package work

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/spoke/work/rights"
)

const (
	// lookAgain is how soon objects that are being deleted are looked at again; their end is an event, too.
	lookAgain = 2 * time.Second

	// atOnce is how many objects of one work are written or deleted at the same time.
	atOnce = 8
)

// remainder is an object that is to go and is still there.
type remainder struct {
	workv1.AppliedManifestResourceMeta
	why    string
	failed bool // it could not be told to go
}

// removal takes objects of one AppliedManifestWork off the cluster.
type removal struct {
	*Agent
	amw *workv1.AppliedManifestWork
}

// remove takes objects off the cluster, wave by wave, and returns what is not gone yet. One that cannot be deleted does not
// keep the others of its wave.
func (a *Agent) remove(ctx context.Context, amw *workv1.AppliedManifestWork, objects []workv1.AppliedManifestResourceMeta) []remainder {
	r := removal{a, amw}
	var left []remainder
	for _, wave := range inWaves(objects) {
		if len(left) == 0 {
			left = r.wave(ctx, wave)
			continue
		}
		for _, object := range wave {
			left = append(left, remainder{AppliedManifestResourceMeta: object, why: "waits for others to go first"})
		}
	}
	return left
}

func (r removal) wave(ctx context.Context, objects []workv1.AppliedManifestResourceMeta) []remainder {
	results := make([]remainder, len(objects))
	inParallel(len(objects), func(i int) {
		why, err := r.one(ctx, objects[i])
		results[i] = remainder{objects[i], why, err != nil}
		if err != nil {
			gvr := schema.GroupVersionResource{Group: objects[i].Group, Version: objects[i].Version, Resource: objects[i].Resource}
			results[i].why = "cannot be taken off: " + rights.Explain(err, agentVerbs(), gvr).Error()
		}
	})
	return slices.DeleteFunc(results, func(r remainder) bool { return r.why == "" })
}

func anyFailed(left []remainder) bool {
	return slices.ContainsFunc(left, func(r remainder) bool { return r.failed })
}

// inParallel calls do for 0 to n-1, atOnce at a time.
func inParallel(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	running.Wait()
}

// one deletes an object that is the one that was applied and that still carries our reference. If another work owns it as
// well, only the reference goes (spec 4.3). It returns why the object is still there, or nothing if it is of no more concern.
func (r removal) one(ctx context.Context, object workv1.AppliedManifestResourceMeta) (why string, err error) {
	gvr, live, err := r.look(ctx, object)
	switch {
	case err != nil || live == nil:
		return "", err
	case object.UID != "" && string(live.UID) != object.UID:
		return "", nil // another object of the same name
	}
	ours, others := ownersOf(live, r.amw)
	switch {
	case !ours:
		return "", nil
	case others:
		return "", r.disown(ctx, gvr, object.ResourceIdentifier, live, r.amw.UID)
	}
	r.watcher.expect(gvr, object.ResourceIdentifier, r.amw.Spec.ManifestWorkName)
	if live.DeletionTimestamp != nil {
		return r.hasten(ctx, gvr, live)
	}
	return r.delete(ctx, gvr, live)
}

// look reads the metadata of an object that was applied; nil if it is gone, or its kind is. An object outlives the version
// of its API under which it was applied.
func (r removal) look(ctx context.Context, object workv1.AppliedManifestResourceMeta) (schema.GroupVersionResource, *metav1.PartialObjectMetadata, error) {
	gvr := schema.GroupVersionResource{Group: object.Group, Version: object.Version, Resource: object.Resource}
	live, err := r.metadata.Resource(gvr).Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	if noSuchKind(err) {
		known, mapErr := r.mapper.ResourceFor(schema.GroupVersionResource{Group: object.Group, Resource: object.Resource})
		if mapErr != nil || known == gvr {
			r.mapper.refresh()
			return gvr, nil, nil
		}
		gvr = known
		live, err = r.metadata.Resource(gvr).Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return gvr, nil, nil
	}
	if err != nil {
		return gvr, nil, fmt.Errorf("look for %s: %w", describe(object.ResourceIdentifier), err)
	}
	return gvr, live, nil
}

// noSuchKind tells whether the cluster does not serve what it was asked for, as against having no object of that name.
func noSuchKind(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// ownersOf tells whether an AppliedManifestWork owns an object, and whether others do.
func ownersOf(live metav1.Object, amw *workv1.AppliedManifestWork) (ours, others bool) {
	for _, o := range live.GetOwnerReferences() {
		if o.Kind == "AppliedManifestWork" && strings.HasPrefix(o.APIVersion, workv1.GroupName+"/") {
			ours = ours || o.UID == amw.UID
			others = others || o.UID != amw.UID
		}
	}
	return ours, others
}

// delete tells the cluster to delete an object. Workloads take their pods along before they are gone themselves, where the
// cluster has a garbage collector that sees to it.
func (r removal) delete(ctx context.Context, gvr schema.GroupVersionResource, live *metav1.PartialObjectMetadata) (string, error) {
	policy := metav1.DeletePropagationBackground
	if (gvr.Group == "apps" || gvr.Group == "batch") && r.collector.present(ctx) {
		policy = metav1.DeletePropagationForeground
	}
	uid := live.UID
	err := r.metadata.Resource(gvr).Namespace(live.Namespace).Delete(ctx, live.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && !strings.Contains(err.Error(), "terminating"):
		return "", nil // another object has taken its name
	case err != nil:
		return "", fmt.Errorf("delete %s %s: %w", gvr.GroupResource(), live.Name, err)
	case policy == metav1.DeletePropagationBackground && len(live.Finalizers) == 0 && goesAtOnce(gvr):
		return "", nil
	}
	return "is being deleted", nil
}

// goesAtOnce tells whether an object without finalizers is gone when its deletion has been answered.
func goesAtOnce(gvr schema.GroupVersionResource) bool {
	return gvr.Group != "" || (gvr.Resource != "namespaces" && gvr.Resource != "pods")
}

// hasten says what an object that is being deleted waits for. One that waits for a garbage collector that is not there, or
// does not do its work, is deleted without it.
func (r removal) hasten(ctx context.Context, gvr schema.GroupVersionResource, live *metav1.PartialObjectMetadata) (string, error) {
	waits := len(live.Finalizers) == 1 && live.Finalizers[0] == metav1.FinalizerDeleteDependents
	if waits && (!r.collector.present(ctx) || r.Clock.Since(live.DeletionTimestamp.Time) > collectorPatience) {
		policy := metav1.DeletePropagationBackground
		err := r.metadata.Resource(gvr).Namespace(live.Namespace).Delete(ctx, live.Name, metav1.DeleteOptions{PropagationPolicy: &policy})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("delete %s %s: %w", gvr.GroupResource(), live.Name, err)
		}
	}
	if len(live.Finalizers) > 0 {
		return "is being deleted and has finalizers " + strings.Join(live.Finalizers, ", "), nil
	}
	return "is being deleted", nil
}

// summary says in one sentence what is left, for the condition of a work that is being deleted.
func summary(left []remainder) string {
	const most = 5 // the condition's reader wants to know where to look, not all of it
	var named []string
	for i, r := range left {
		if i == most {
			named = append(named, fmt.Sprintf("and %d more", len(left)-most))
			break
		}
		named = append(named, describe(r.ResourceIdentifier)+" "+r.why)
	}
	return strings.Join(named, "; ")
}
