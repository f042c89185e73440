package work

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
)

const (
	// appliedFinalizer keeps an AppliedManifestWork until what it lists is gone.
	appliedFinalizer = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"

	// lookAgain is how soon objects that are being deleted are looked at again; their end is an event, too.
	lookAgain = 2 * time.Second
)

// HubHash is the part of an AppliedManifestWork's name that stands for a hub (spec 4.1).
func HubHash(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:])
}

// ensureApplied returns the AppliedManifestWork that stands on the cluster for a work. One that this agent made under
// another address of the hub is taken over: renaming it would evict what it applied (spec 10.2, C25).
func (a *Agent) ensureApplied(ctx context.Context, work *workv1.ManifestWork) (*workv1.AppliedManifestWork, error) {
	found, err := a.findApplied(work.Name)
	if err != nil {
		return nil, err
	}
	if found != nil {
		return found, a.takeOver(ctx, found)
	}
	name := a.hubHash + "-" + work.Name
	made, err := a.appliedClient.Create(ctx, &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: work.Labels, Finalizers: []string{appliedFinalizer}},
		Spec:       workv1.AppliedManifestWorkSpec{HubHash: a.hubHash, ManifestWorkName: work.Name, AgentID: a.AgentID},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = a.appliedClient.Get(ctx, name, metav1.GetOptions{}) // the cache is behind
	}
	if err != nil {
		return nil, fmt.Errorf("applied manifest work %s: %w", name, err)
	}
	return made, nil
}

// takeOver makes one that another agent left for the same work of the same hub ours: upstream's klusterlet, or ours before
// it lost its name. Otherwise nobody would evict it.
func (a *Agent) takeOver(ctx context.Context, amw *workv1.AppliedManifestWork) error {
	if amw.Spec.AgentID == a.AgentID || amw.DeletionTimestamp != nil {
		return nil
	}
	body, err := reconcile.MergePatch(amw, map[string]any{"spec": map[string]any{"agentID": a.AgentID}})
	if err != nil {
		return err
	}
	if _, err := a.appliedClient.Patch(ctx, amw.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("take over applied manifest work %s: %w", amw.Name, err)
	}
	return fmt.Errorf("applied manifest work %s was taken over from agent %s and is looked at again", amw.Name, amw.Spec.AgentID)
}

// findApplied looks one up in the cache; nil if there is none. The one of this hub's address comes first.
func (a *Agent) findApplied(work string) (*workv1.AppliedManifestWork, error) {
	found, err := a.applied.Get(a.hubHash + "-" + work)
	if err == nil {
		return found, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	all, err := a.applied.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, amw := range all {
		if amw.Spec.AgentID == a.AgentID && amw.Spec.ManifestWorkName == work {
			return amw, nil
		}
	}
	return nil, nil
}

func ownerOf(amw *workv1.AppliedManifestWork) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: workv1.GroupVersion.String(), Kind: "AppliedManifestWork", Name: amw.Name, UID: amw.UID}
}

func resourceOf(k key, uid string) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{
		Version:            k.gvr.Version,
		ResourceIdentifier: workv1.ResourceIdentifier{Group: k.gvr.Group, Resource: k.gvr.Resource, Namespace: k.namespace, Name: k.name},
		UID:                uid,
	}
}

func keyOf(r workv1.AppliedManifestResourceMeta) key {
	return key{schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}, r.Namespace, r.Name}
}

// prune deletes what the work applied once and no longer lists. It returns what is left of that. An object that the work
// lists under another version of its API is the same object. One that it lists, but that is not to go with it any more, is
// let go and never deleted.
func (a *Agent) prune(ctx context.Context, amw *workv1.AppliedManifestWork, now []workv1.AppliedManifestResourceMeta, listed map[workv1.ResourceIdentifier]bool) ([]workv1.AppliedManifestResourceMeta, error) {
	var stale []workv1.AppliedManifestResourceMeta
	var errs []error
	for _, before := range staleOf(amw, now) {
		if listed[before.ResourceIdentifier] {
			errs = append(errs, a.release(ctx, amw, before))
			continue
		}
		stale = append(stale, before)
	}
	left, err := a.remove(ctx, amw, stale)
	return left, errors.Join(append(errs, err)...)
}

// release takes our reference off an object that was applied, so that it stays when the work goes.
func (a *Agent) release(ctx context.Context, amw *workv1.AppliedManifestWork, object workv1.AppliedManifestResourceMeta) error {
	k := keyOf(object)
	live, err := a.resource(k).Get(ctx, k.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", k, err)
	}
	return a.disown(ctx, k, live, amw.UID)
}

// remove deletes objects in the reverse of the order in which they were applied, so that custom resources go before their
// definitions and content before namespaces; a rank waits until the one before is gone. It returns what is not gone yet.
func (a *Agent) remove(ctx context.Context, amw *workv1.AppliedManifestWork, objects []workv1.AppliedManifestResourceMeta) ([]workv1.AppliedManifestResourceMeta, error) {
	var left []workv1.AppliedManifestResourceMeta
	var errs []error
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(x, y workv1.AppliedManifestResourceMeta) int { return cmp.Compare(removalRank(y), removalRank(x)) })
	for i, object := range sorted {
		if len(left) > 0 && removalRank(object) < removalRank(sorted[i-1]) {
			left = append(left, sorted[i:]...)
			break
		}
		gone, err := a.removeOne(ctx, amw, object)
		errs = append(errs, err)
		if !gone {
			left = append(left, object)
		}
	}
	return left, errors.Join(errs...)
}

// removalRank is high for what goes first. Only namespaces and definitions of kinds have to wait for others.
func removalRank(r workv1.AppliedManifestResourceMeta) int {
	switch {
	case r.Group == "" && r.Resource == "namespaces":
		return 0
	case r.Group == "apiextensions.k8s.io" && r.Resource == "customresourcedefinitions":
		return 1
	}
	return 2
}

// removeOne deletes an object that is the one that was applied and that still carries our reference. If another work owns
// it as well, only the reference goes (spec 4.3).
func (a *Agent) removeOne(ctx context.Context, amw *workv1.AppliedManifestWork, object workv1.AppliedManifestResourceMeta) (gone bool, err error) {
	k := keyOf(object)
	live, err := a.resource(k).Get(ctx, k.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil // also when its kind is gone
	case err != nil:
		return false, fmt.Errorf("look for %s: %w", k, err)
	case string(live.GetUID()) != object.UID:
		return true, nil // another object of the same name
	}
	ours, others := false, false
	for _, o := range live.GetOwnerReferences() {
		if o.Kind == "AppliedManifestWork" && strings.HasPrefix(o.APIVersion, workv1.GroupName+"/") {
			ours = ours || o.UID == amw.UID
			others = others || o.UID != amw.UID
		}
	}
	switch {
	case !ours:
		return true, nil
	case others:
		return true, a.disown(ctx, k, live, amw.UID)
	case live.GetDeletionTimestamp() != nil:
		a.watcher.expect(k, amw.Spec.ManifestWorkName)
		return false, nil
	}
	a.watcher.expect(k, amw.Spec.ManifestWorkName)
	uid, propagation := live.GetUID(), metav1.DeletePropagationBackground
	err = a.resource(k).Delete(ctx, k.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &propagation})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", k, err)
	}
	return false, nil
}

// saveApplied writes down what is on the cluster because of a work, where that changed.
func (a *Agent) saveApplied(ctx context.Context, amw *workv1.AppliedManifestWork, resources []workv1.AppliedManifestResourceMeta) error {
	slices.SortFunc(resources, func(x, y workv1.AppliedManifestResourceMeta) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	if equality.Semantic.DeepEqual(amw.Status.AppliedResources, resources) && amw.Status.EvictionStartTime == nil {
		return nil
	}
	// Without a version: nobody else writes this list, and it has to be written whatever else happens to the object.
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": amw.UID},
		"status":   map[string]any{"appliedResources": resources, "evictionStartTime": nil},
	})
	if err != nil {
		return fmt.Errorf("applied manifest work %s: encode: %w", amw.Name, err)
	}
	if _, err = a.appliedClient.Patch(ctx, amw.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("applied manifest work %s: %w", amw.Name, err)
	}
	return nil
}

// reconcileApplied ends an AppliedManifestWork that is being deleted, and evicts one whose work is gone from the hub.
func (a *Agent) reconcileApplied(ctx context.Context, name string) (time.Duration, error) {
	amw, err := a.applied.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if amw.DeletionTimestamp == nil {
		return a.evict(ctx, amw)
	}
	if !slices.Contains(amw.Finalizers, appliedFinalizer) {
		return 0, nil
	}
	left, err := a.remove(ctx, amw, amw.Status.AppliedResources)
	if err != nil {
		return 0, err
	}
	if len(left) > 0 {
		return lookAgain, nil
	}
	a.watcher.forget(amw.Spec.ManifestWorkName, nil)
	finalizers := slices.DeleteFunc(slices.Clone(amw.Finalizers), func(f string) bool { return f == appliedFinalizer })
	body, err := reconcile.MergePatch(amw, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		return 0, err
	}
	if _, err := a.appliedClient.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("applied manifest work %s: %w", name, err)
	}
	return 0, nil
}

// evict deletes an AppliedManifestWork of this agent whose work is gone from the hub: at once if its deletion was seen, and
// after the grace period if it is only missing, since then it was deleted while the agent was off, or the agent is at another
// hub (spec 4.5).
func (a *Agent) evict(ctx context.Context, amw *workv1.AppliedManifestWork) (time.Duration, error) {
	if amw.Spec.AgentID != a.AgentID {
		return 0, nil
	}
	if _, err := a.works.Get(amw.Spec.ManifestWorkName); err == nil || !apierrors.IsNotFound(err) {
		return 0, err
	}
	if _, seen := a.ended.Load(amw.Spec.ManifestWorkName); seen {
		return 0, a.deleteApplied(ctx, amw)
	}
	now := a.Clock.Now()
	if amw.Status.EvictionStartTime == nil {
		body, err := reconcile.MergePatch(amw, map[string]any{"status": map[string]any{"evictionStartTime": metav1.NewTime(now)}})
		if err != nil {
			return 0, err
		}
		_, err = a.appliedClient.Patch(ctx, amw.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
		return a.Settings.Get().EvictionGrace, err
	}
	if rest := amw.Status.EvictionStartTime.Add(a.Settings.Get().EvictionGrace).Sub(now); rest > 0 {
		return rest, nil
	}
	return 0, a.deleteApplied(ctx, amw)
}

func (a *Agent) deleteApplied(ctx context.Context, amw *workv1.AppliedManifestWork) error {
	a.ended.Delete(amw.Spec.ManifestWorkName)
	err := a.appliedClient.Delete(ctx, amw.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &amw.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete applied manifest work %s: %w", amw.Name, err)
	}
	return nil
}
