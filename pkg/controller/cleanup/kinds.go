package cleanup

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// kind is one of the kinds whose objects have to go, in the order in which they go.
type kind struct {
	resource string
	list     func() ([]metav1.Object, error)
	remove   func(ctx context.Context, name string) error
	release  func(ctx context.Context, name string) error // takes all finalizers off
}

// forget removes an object whoever still wants to keep it.
func (k kind) forget(ctx context.Context, name string) error {
	if err := k.remove(ctx, name); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := k.release(ctx, name); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// withoutFinalizers is the merge patch that does what its name says.
const withoutFinalizers = `{"metadata":{"finalizers":null}}`

func (a *Controller) kinds(cluster string) []kind {
	addons, works := a.Addons.AddonV1alpha1().ManagedClusterAddOns(cluster), a.Works.WorkV1().ManifestWorks(cluster)
	return []kind{
		{
			resource: "managedclusteraddons",
			list: func() ([]metav1.Object, error) {
				items, err := a.addons.ManagedClusterAddOns(cluster).List(labels.Everything())
				return objects(items), err
			},
			remove: func(ctx context.Context, name string) error { return addons.Delete(ctx, name, metav1.DeleteOptions{}) },
			release: func(ctx context.Context, name string) error {
				_, err := addons.Patch(ctx, name, types.MergePatchType, []byte(withoutFinalizers), metav1.PatchOptions{})
				return err
			},
		},
		{
			resource: "manifestworks",
			list: func() ([]metav1.Object, error) {
				items, err := a.works.ManifestWorks(cluster).List(labels.Everything())
				return objects(items), err
			},
			remove: func(ctx context.Context, name string) error { return works.Delete(ctx, name, metav1.DeleteOptions{}) },
			release: func(ctx context.Context, name string) error {
				_, err := works.Patch(ctx, name, types.MergePatchType, []byte(withoutFinalizers), metav1.PatchOptions{})
				return err
			},
		},
	}
}

func objects[T metav1.Object](items []T) []metav1.Object {
	var all []metav1.Object
	for _, item := range items {
		all = append(all, item)
	}
	return all
}
