package work

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"nave/pkg/reconcile"
)

// own adds our reference to an object whose content is not ours to write.
func (w *writer) own(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	owners := mergedOwners(live.GetOwnerReferences(), w.object.GetOwnerReferences())
	if len(owners) == len(live.GetOwnerReferences()) {
		return live, nil
	}
	body, err := ownersPatch(live, owners)
	if err != nil {
		return nil, err
	}
	changed, err := w.client.Patch(ctx, live.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: ownersManager})
	if err != nil {
		return nil, fmt.Errorf("owners of %s: %w", w, err)
	}
	return changed, nil
}

// disown takes our reference off an object, which then no longer goes with the work.
func (a *Agent) disown(ctx context.Context, gvr schema.GroupVersionResource, id identity, live metav1.Object, owner types.UID) error {
	owners := live.GetOwnerReferences()
	left := slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == owner })
	if len(left) == len(owners) {
		return nil
	}
	body, err := ownersPatch(live, left)
	if err != nil {
		return err
	}
	_, err = a.metadata.Resource(gvr).Namespace(id.Namespace).Patch(ctx, id.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: ownersManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("owners of %s: %w", describe(id), err)
	}
	return nil
}

// ownersPatch holds for the very version of an object that was looked at.
func ownersPatch(live metav1.Object, owners []metav1.OwnerReference) ([]byte, error) {
	return reconcile.MergePatch(live, map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
}
