package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	// finalizer keeps a cluster until its namespace holds no add-ons and works.
	finalizer = "cluster.open-cluster-management.io/resource-cleanup"
	// acceptanceFinalizer is that of the controller that takes a cluster its rights away; it is left to it.
	acceptanceFinalizer = "cluster.open-cluster-management.io/api-resource-cleanup"

	conditionDeleting = "Deleting"
)

func (a *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := a.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, a.emptyNamespace(ctx, name)
	}
	if err != nil {
		return 0, err
	}
	enabled := a.Settings.Get().Features.Enabled(feature.ResourceCleanup, feature.DefaultHubRegistrationFeatureGates)
	has := slices.Contains(mc.Finalizers, finalizer)
	switch {
	case !enabled && has:
		return 0, a.keepFinalizers(ctx, mc, func(f string) bool { return f != finalizer })
	case mc.DeletionTimestamp == nil && enabled && !has:
		return 0, a.patch(ctx, mc, map[string]any{"metadata": map[string]any{"finalizers": append(slices.Clone(mc.Finalizers), finalizer)}})
	case mc.DeletionTimestamp == nil || !has:
		return 0, nil
	}
	return a.empty(ctx, mc)
}

// empty deletes what comes first of what is left. The end of each object is an event that calls again.
func (a *Controller) empty(ctx context.Context, mc *clusterv1.ManagedCluster) (time.Duration, error) {
	letGo, again := patience(mc, a.Settings.Get().RemovalTimeout, a.Clock.Now())
	if letGo {
		return 0, a.letGo(ctx, mc)
	}
	left, objects, err := a.removeNext(ctx, mc.Name)
	if err != nil {
		a.Events.Cluster(mc.Name, corev1.EventTypeWarning, "ResourceCleanupFail", err.Error())
		return 0, errors.Join(err, a.report(ctx, mc, metav1.ConditionFalse, "DeletingError", err.Error()))
	}
	if left != "" {
		return again, a.report(ctx, mc, metav1.ConditionFalse, "ResourceRemaining", remaining(left, objects))
	}
	if err := a.report(ctx, mc, metav1.ConditionTrue, "NoResource", "No cleaned resource in cluster ns."); err != nil {
		return 0, err
	}
	a.Events.Cluster(mc.Name, corev1.EventTypeNormal, "ResourceCleanupCompleted", "The resources of the managed cluster are cleaned up.")
	return 0, a.keepFinalizers(ctx, mc, func(f string) bool { return f != finalizer })
}

// removeNext deletes the objects whose turn it is, and returns the first kind of which something is left, with all of it.
func (a *Controller) removeNext(ctx context.Context, cluster string) (resource string, left []metav1.Object, err error) {
	for _, kind := range a.kinds(cluster) {
		objects, err := kind.list()
		if err != nil {
			return "", nil, fmt.Errorf("%s of cluster %s: %w", kind.resource, cluster, err)
		}
		if len(objects) == 0 {
			continue
		}
		for _, o := range lowest(objects) {
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			if err := kind.remove(ctx, o.GetName()); err != nil && !apierrors.IsNotFound(err) {
				return "", nil, fmt.Errorf("delete %s %s/%s: %w", kind.resource, cluster, o.GetName(), err)
			}
		}
		return kind.resource, objects, nil
	}
	return "", nil, nil
}

// letGo lets a cluster go that waits for somebody: its agent will not come back, or nobody wants to wait for it.
func (a *Controller) letGo(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if err := a.giveUp(ctx, mc.Name); err != nil {
		return err
	}
	if err := a.report(ctx, mc, metav1.ConditionTrue, "NoResource", "No cleaned resource in cluster ns."); err != nil {
		return err
	}
	return a.keepFinalizers(ctx, mc, func(f string) bool { return f == acceptanceFinalizer })
}

// giveUp removes everything of a cluster whoever still wants to keep it, and says so. What the works applied stays where it
// is.
func (a *Controller) giveUp(ctx context.Context, cluster string) error {
	var behind []string
	var errs []error
	for _, kind := range a.kinds(cluster) {
		objects, err := kind.list()
		if err != nil {
			return fmt.Errorf("%s of cluster %s: %w", kind.resource, cluster, err)
		}
		if len(objects) > 0 {
			behind = append(behind, leftBehind(kind.resource, objects))
		}
		for _, o := range objects {
			errs = append(errs, about(kind.forget(ctx, o.GetName()), kind.resource, cluster, o.GetName()))
		}
	}
	if err := errors.Join(errs...); err != nil || len(behind) == 0 {
		return err
	}
	text := fmt.Sprintf("The managed cluster was removed without its agent; what these applied stays on it: %s.", strings.Join(behind, ", "))
	a.Log.WithField(log.FieldCluster, cluster).Warn(text)
	a.Events.Cluster(cluster, corev1.EventTypeWarning, "RemovedWithoutAgent", text)
	return nil
}

func about(err error, resource, namespace, name string) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("let go of %s %s/%s: %w", resource, namespace, name, err)
}

// emptyNamespace does for a cluster that is gone, with or without its finalizers, what is left to do: its agent has no
// access any more, so nobody else will. Requests for certificates that nobody decided about are those of its earlier life:
// whoever joins under its name next must not be taken for them.
func (a *Controller) emptyNamespace(ctx context.Context, name string) error {
	_, err := a.Clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return nil // it is back, and the cache will know in a moment
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("managed cluster %s: %w", name, err)
	}
	ns, err := a.namespaces.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	if err == nil && ownNamespace(ns) != "" {
		err = a.giveUp(ctx, name)
	} else {
		err = nil
	}
	return errors.Join(err, a.dropRequests(ctx, name))
}

func (a *Controller) dropRequests(ctx context.Context, name string) error {
	requests := a.Kube.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{identity.ClusterNameLabel: name}.String()})
	if err != nil {
		return fmt.Errorf("signing requests of cluster %s: %w", name, err)
	}
	var errs []error
	for i := range list.Items {
		csr := &list.Items[i]
		if len(csr.Status.Conditions) > 0 {
			continue
		}
		uid := csr.UID
		err := requests.Delete(ctx, csr.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("signing request %s of cluster %s: %w", csr.Name, name, err))
		}
	}
	return errors.Join(errs...)
}

func (a *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	conditions := slices.Clone(mc.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, metav1.Condition{Type: conditionDeleting, Status: status, Reason: reason, Message: message}) {
		return nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	written, err := a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("managed cluster %s: %w", mc.Name, err)
	}
	if err == nil {
		mc.ResourceVersion = written.ResourceVersion
	}
	return nil
}

// keepFinalizers takes all others off the cluster.
func (a *Controller) keepFinalizers(ctx context.Context, mc *clusterv1.ManagedCluster, keep func(string) bool) error {
	left := slices.DeleteFunc(slices.Clone(mc.Finalizers), func(f string) bool { return !keep(f) })
	return a.patch(ctx, mc, map[string]any{"metadata": map[string]any{"finalizers": left}})
}

func (a *Controller) patch(ctx context.Context, mc *clusterv1.ManagedCluster, change map[string]any) error {
	body, err := reconcile.MergePatch(mc, change)
	if err != nil {
		return err
	}
	_, err = a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("managed cluster %s: %w", mc.Name, err)
	}
	return nil
}
