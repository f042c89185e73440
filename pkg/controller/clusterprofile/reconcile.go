package clusterprofile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// pageSize bounds how many profiles are looked at in one request.
const pageSize = 500

// reconcile makes, updates or deletes one profile.
func (k *keeper) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	mc, err := k.clusterLister.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	bindings, err := k.bindingLister.ManagedClusterSetBindings(namespace).List(labels.Everything())
	if err != nil {
		return 0, err
	}
	obj, there, err := k.existing.GetIndexer().GetByKey(key)
	if err != nil {
		return 0, err
	}
	want := wanted(mc, bindings, k.set)
	if !there {
		if want {
			err = k.create(ctx, namespace, mc)
		}
		return 0, err
	}
	p, err := read(obj)
	if err != nil {
		return 0, err
	}
	switch {
	case p.DeletionTimestamp != nil: // it comes back once it has gone, if it is wanted
	case !want:
		err = k.remove(ctx, p)
	case !p.kept():
		k.Log.WithField(log.FieldObject, "ClusterProfile "+key).WithField(log.FieldReason, "its manager is "+p.Spec.ClusterManager.Name).
			Warn("there is a profile of somebody else with this name, which stays as it is")
	default:
		err = k.update(ctx, p, mc)
	}
	return 0, err
}

// set is a cluster set by name, or nil.
func (k *keeper) set(name string) *clusterv1beta2.ManagedClusterSet {
	set, err := k.setLister.Get(name)
	if err != nil {
		return nil
	}
	return set
}

func (k *keeper) create(ctx context.Context, namespace string, mc *clusterv1.ManagedCluster) error {
	made, err := k.profiles.Namespace(namespace).Create(ctx, newProfile(namespace, mc), metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsAlreadyExists(err):
		return nil // the first ends with its bindings, of the second the informer will tell
	case err != nil:
		return fmt.Errorf("create cluster profile %s/%s: %w", namespace, mc.Name, err)
	}
	p, err := read(made)
	if err != nil {
		return err
	}
	return k.update(ctx, p, mc)
}

// update writes what of labels and status is not as it should be.
func (k *keeper) update(ctx context.Context, p *profile, mc *clusterv1.ManagedCluster) error {
	if change := labelChange(p.Labels, labelsOf(mc)); len(change) > 0 {
		next, err := k.patch(ctx, p, map[string]any{"metadata": map[string]any{"labels": change}})
		if err != nil || next == nil {
			return err
		}
		p = next
	}
	next := statusOf(mc, p.Status)
	if equality.Semantic.DeepEqual(next, p.Status) {
		return nil
	}
	_, err := k.patch(ctx, p, map[string]any{"status": next}, "status")
	return err
}

// patch returns the profile as it is after it, or nil if it has gone.
func (k *keeper) patch(ctx context.Context, p *profile, change map[string]any, subresources ...string) (*profile, error) {
	body, err := reconcile.MergePatch(p, change)
	if err != nil {
		return nil, err
	}
	changed, err := k.profiles.Namespace(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster profile %s/%s: %w", p.Namespace, p.Name, err)
	}
	return read(changed)
}

// remove deletes a profile that says, in its spec and by its label, that this controller keeps it. Others are somebody else's.
func (a *Controller) remove(ctx context.Context, p *profile) error {
	if !p.kept() || p.Labels[managerLabel] != manager {
		return nil
	}
	err := a.profiles.Namespace(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict is another profile of that name
		return fmt.Errorf("delete cluster profile %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// clear takes away the profiles of a hub whose gate is off, since nobody would keep them true. The kind stays: others may
// have profiles of their own.
func (a *Controller) clear(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: labels.Set{managerLabel: manager}.String(), Limit: pageSize}
	for {
		page, err := a.profiles.List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil // the kind is not served
		}
		if err != nil {
			return fmt.Errorf("list cluster profiles: %w", err)
		}
		for i := range page.Items {
			p, err := read(&page.Items[i])
			if err != nil {
				return err
			}
			if err := a.remove(ctx, p); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
