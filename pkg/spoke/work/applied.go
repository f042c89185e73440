package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
)

const (
	// appliedFinalizer keeps an AppliedManifestWork until what it lists is gone.
	appliedFinalizer = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"

	// registrationAnnotation of an AppliedManifestWork says which ManagedCluster, by its uid, the work was for. It tells a hub
	// that got another address from another hub (spec 10.2, C25).
	registrationAnnotation = "nave.dev/managed-cluster-uid"

	// byWork indexes AppliedManifestWorks by the name of their work.
	byWork = "work"
)

// HubHash is the part of an AppliedManifestWork's name that stands for a hub (spec 4.1).
func HubHash(server string) string {
	sum := sha256.Sum256([]byte(server))
	return hex.EncodeToString(sum[:])
}

// indexByWork lets AppliedManifestWorks be found by the name of their work.
func indexByWork(obj any) ([]string, error) {
	if amw, ok := obj.(*workv1.AppliedManifestWork); ok {
		return []string{amw.Spec.ManifestWorkName}, nil
	}
	return nil, nil
}

// appliedName is the name of the AppliedManifestWork that this agent makes for a work.
func (a *Agent) appliedName(work string) string { return a.hubHash + "-" + work }

// findApplied looks up what stands on the cluster for a work of this hub; nil if nothing does. It is the one of the hub's
// address, or else one that this agent made when the same hub had another address: renaming it would evict what it applied.
func (a *Agent) findApplied(work string) *workv1.AppliedManifestWork {
	found, err := a.applied.ByIndex(byWork, work)
	if err != nil {
		return nil // never: there is that index
	}
	var other *workv1.AppliedManifestWork
	for _, obj := range found {
		amw := obj.(*workv1.AppliedManifestWork)
		if amw.Name == a.appliedName(work) {
			return amw
		}
		if self := a.registration(); self != "" && amw.Spec.AgentID == a.AgentID && amw.Annotations[registrationAnnotation] == self {
			other = amw
		}
	}
	return other
}

// registration is the uid of the ManagedCluster by which this agent knows the hub; empty where that may not be read.
func (a *Agent) registration() string {
	self, err := a.clusters.Get(a.Cluster)
	if err != nil {
		return ""
	}
	return string(self.UID)
}

// ensureApplied returns the AppliedManifestWork that stands on the cluster for a work, and what it knows, to which the objects
// that are about to be applied have been added.
func (a *Agent) ensureApplied(ctx context.Context, work *workv1.ManifestWork, manifests []*manifest) (*workv1.AppliedManifestWork, *inventory, error) {
	found := a.findApplied(work.Name)
	if found == nil {
		return a.createApplied(ctx, work, manifests)
	}
	if found.DeletionTimestamp != nil {
		return found, nil, nil
	}
	if err := a.claim(ctx, found, work); err != nil {
		return nil, nil, err
	}
	inv, err := a.inventoryOf(found)
	if err != nil {
		return nil, nil, err
	}
	if !inv.expect(manifests) {
		return found, inv, nil
	}
	return found, inv, a.saveNotes(ctx, found, inv)
}

func (a *Agent) createApplied(ctx context.Context, work *workv1.ManifestWork, manifests []*manifest) (*workv1.AppliedManifestWork, *inventory, error) {
	inv := &inventory{items: map[identity]item{}}
	inv.expect(manifests)
	text, err := inv.text()
	if err != nil {
		return nil, nil, fmt.Errorf("inventory of work %s: %w", work.Name, err)
	}
	amw := &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.appliedName(work.Name), Labels: work.Labels, Finalizers: []string{appliedFinalizer},
			Annotations: annotations(text, a.registration()),
		},
		Spec: workv1.AppliedManifestWorkSpec{HubHash: a.hubHash, ManifestWorkName: work.Name, AgentID: a.AgentID},
	}
	made, err := a.appliedClient.Create(ctx, amw, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil, nil, fmt.Errorf("applied manifest work %s is not in the cache yet: %w", amw.Name, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("applied manifest work %s: %w", amw.Name, err)
	}
	inv.noted = text
	a.inventories.Store(made.UID, inv)
	return made, inv, nil
}

// inventoryOf is what an AppliedManifestWork knows. It is read once, since only this agent writes it.
func (a *Agent) inventoryOf(amw *workv1.AppliedManifestWork) (*inventory, error) {
	if known, ok := a.inventories.Load(amw.UID); ok {
		return known.(*inventory), nil
	}
	inv, err := newInventory(amw)
	if err != nil {
		return nil, err
	}
	a.inventories.Store(amw.UID, inv)
	return inv, nil
}

// claim keeps an AppliedManifestWork up to date with its work: whose it is (one that upstream's klusterlet left for the same
// work of the same hub becomes ours, otherwise nobody would evict it), the registration, the labels.
func (a *Agent) claim(ctx context.Context, amw *workv1.AppliedManifestWork, work *workv1.ManifestWork) error {
	registration := a.registration()
	if registration == "" {
		registration = amw.Annotations[registrationAnnotation]
	}
	labels := labelChanges(amw.Labels, work.Labels)
	if amw.Spec.AgentID == a.AgentID && amw.Annotations[registrationAnnotation] == registration && len(labels) == 0 {
		return nil
	}
	body, err := reconcile.MergePatch(amw, map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": map[string]any{registrationAnnotation: registration}},
		"spec":     map[string]any{"agentID": a.AgentID},
	})
	if err != nil {
		return err
	}
	if _, err := a.appliedClient.Patch(ctx, amw.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("applied manifest work %s: %w", amw.Name, err)
	}
	return nil
}

// labelChanges is the merge patch that makes labels of an AppliedManifestWork those of its work (spec 10.2, C6).
func labelChanges(have, want map[string]string) map[string]any {
	changes := map[string]any{}
	for key, value := range want {
		if have[key] != value {
			changes[key] = value
		}
	}
	for key := range have {
		if _, wanted := want[key]; !wanted {
			changes[key] = nil
		}
	}
	return changes
}

// saveNotes writes the inventory's annotation where it changed.
func (a *Agent) saveNotes(ctx context.Context, amw *workv1.AppliedManifestWork, inv *inventory) error {
	text, err := inv.text()
	if err != nil {
		return fmt.Errorf("inventory of applied manifest work %s: %w", amw.Name, err)
	}
	if text == inv.noted {
		return nil
	}
	if err := a.patchApplied(ctx, amw, map[string]any{"metadata": map[string]any{"uid": amw.UID, "annotations": map[string]any{inventoryAnnotation: text}}}); err != nil {
		return err
	}
	inv.noted = text
	return nil
}

// saveApplied writes down what is on the cluster because of a work, where that changed.
func (a *Agent) saveApplied(ctx context.Context, amw *workv1.AppliedManifestWork, inv *inventory) error {
	if err := a.saveNotes(ctx, amw, inv); err != nil {
		return err
	}
	resources := inv.applied()
	if equality.Semantic.DeepEqual(inv.saved, resources) && amw.Status.EvictionStartTime == nil {
		return nil
	}
	err := a.patchApplied(ctx, amw, map[string]any{
		"metadata": map[string]any{"uid": amw.UID},
		"status":   map[string]any{"appliedResources": resources, "evictionStartTime": nil},
	}, "status")
	if err != nil {
		return err
	}
	inv.saved = resources
	return nil
}

// patchApplied changes an AppliedManifestWork, without asking for its version: nobody else writes these fields, and they have
// to be written whatever else happens to the object.
func (a *Agent) patchApplied(ctx context.Context, amw *workv1.AppliedManifestWork, change map[string]any, subresources ...string) error {
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("applied manifest work %s: encode: %w", amw.Name, err)
	}
	if _, err = a.appliedClient.Patch(ctx, amw.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...); err != nil {
		return fmt.Errorf("applied manifest work %s: %w", amw.Name, err)
	}
	return nil
}

// deleteApplied asks for the end of an AppliedManifestWork, which comes when nothing is left of what it applied.
func (a *Agent) deleteApplied(ctx context.Context, amw *workv1.AppliedManifestWork) error {
	if amw.DeletionTimestamp != nil {
		return nil
	}
	err := a.appliedClient.Delete(ctx, amw.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &amw.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete applied manifest work %s: %w", amw.Name, err)
	}
	return nil
}

// releaseApplied lets an AppliedManifestWork go of which nothing is left.
func (a *Agent) releaseApplied(ctx context.Context, amw *workv1.AppliedManifestWork) error {
	a.inventories.Delete(amw.UID)
	left := slices.DeleteFunc(slices.Clone(amw.Finalizers), func(f string) bool { return f == appliedFinalizer })
	err := a.patchApplied(ctx, amw, map[string]any{"metadata": map[string]any{"uid": amw.UID, "finalizers": left}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// formerly is the object of a deletion event, or of one that was missed.
func formerly(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}
