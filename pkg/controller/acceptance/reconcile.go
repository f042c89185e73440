package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/reconcile"
)

const (
	// clusterFinalizer keeps a cluster until its rights are gone.
	clusterFinalizer = "cluster.open-cluster-management.io/api-resource-cleanup"
	// workFinalizer keeps the rights to works until no works are left.
	workFinalizer = "cluster.open-cluster-management.io/manifest-work-cleanup"

	reasonAccepted = "HubClusterAdminAccepted"
	reasonDenied   = "HubClusterAdminDenied"
	reasonError    = "Error"

	// namespaceRetry is how soon a namespace that was on its way out is looked for again; its end is an event, too.
	namespaceRetry = time.Second
)

// reconcile brings one cluster's namespace and rights in line with what the hub decided about it.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	if name == sharedKey {
		return 0, c.keepSharedRoles(ctx)
	}
	mc, err := c.clusters.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		c.loop.Add(sharedKey) // it may have been the last one
		return 0, c.withdraw(ctx, name)
	case err != nil:
		return 0, err
	case mc.DeletionTimestamp != nil:
		return 0, c.leave(ctx, mc)
	case mc.Spec.HubAcceptsClient:
		return c.accept(ctx, mc)
	case !decided(mc):
		return 0, nil
	default:
		return 0, c.deny(ctx, mc)
	}
}

// decided tells whether the hub ever accepted the cluster. The finalizer is set before anything else is made, so it tells
// that even where the condition could not be written before the next decision came.
func decided(mc *clusterv1.ManagedCluster) bool {
	return slices.Contains(mc.Finalizers, clusterFinalizer) ||
		meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != nil
}

// keepSharedRoles keeps the roles of all agents as long as there is a cluster (spec 1.1).
func (c *Controller) keepSharedRoles(ctx context.Context) error {
	clusters, err := c.clusters.List(labels.Everything())
	if err != nil {
		return about(err, "managed clusters")
	}
	var errs []error
	for _, role := range sharedRoles() {
		switch {
		case len(clusters) == 0:
			errs = append(errs, c.removeClusterRole(ctx, role.Name))
		case slices.ContainsFunc(clusters, decided):
			errs = append(errs, c.ensureClusterRole(ctx, role))
		}
	}
	return errors.Join(errs...)
}

// accept gives the cluster what it needs. Whatever cannot be made is tried again, and stands in the condition.
func (c *Controller) accept(ctx context.Context, mc *clusterv1.ManagedCluster) (time.Duration, error) {
	if !slices.Contains(mc.Finalizers, clusterFinalizer) {
		return 0, c.addFinalizer(ctx, mc) // its event calls again, with the version that the rest is about
	}
	// A binding that a denial took away, or that goes with its namespace, is made anew once it is gone.
	if err := c.dropEndingBinding(ctx, mc.Name); err != nil {
		return 0, err
	}
	err := c.ensureNamespace(ctx, mc.Name)
	if errors.Is(err, errTerminating) {
		// Rights in a namespace of an earlier life would vanish with it seconds later.
		return namespaceRetry, c.report(ctx, mc, metav1.ConditionFalse, reasonError, err.Error())
	}
	errs := []error{err}
	for _, role := range sharedRoles() {
		errs = append(errs, c.ensureClusterRole(ctx, role))
	}
	errs = append(errs, c.ensureClusterRole(ctx, clusterRole(mc.Name, true)), c.ensureClusterRoleBinding(ctx, clusterRoleBinding(mc.Name)))
	for _, binding := range roleBindings(mc.Name) {
		errs = append(errs, c.ensureRoleBinding(ctx, binding))
	}
	if err := errors.Join(errs...); err != nil {
		return 0, errors.Join(err, c.report(ctx, mc, metav1.ConditionFalse, reasonError, err.Error()))
	}
	return 0, c.report(ctx, mc, metav1.ConditionTrue, reasonAccepted, "Accepted by hub cluster admin")
}

// deny takes the rights away and says so at once. The condition does not wait for works to be gone: a dead agent would
// keep it from ever changing (spec 10.2, C19).
func (c *Controller) deny(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	return errors.Join(
		c.ensureClusterRole(ctx, clusterRole(mc.Name, false)),
		c.removeRoleBindings(ctx, mc.Name),
		c.releaseWorkBinding(ctx, mc.Name),
		c.report(ctx, mc, metav1.ConditionFalse, reasonDenied, "Denied by hub cluster admin"),
	)
}

// leave takes everything away from a cluster that is being deleted, and lets it go once its works are gone.
func (c *Controller) leave(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if err := c.withdraw(ctx, mc.Name); err != nil {
		return err
	}
	left, err := c.hasWorks(mc.Name)
	if err != nil || left {
		return err // the end of the last work calls again
	}
	return c.removeFinalizer(ctx, mc)
}

// withdraw removes a cluster's rights, those to works only as long as there are none. The namespace stays (spec 1.1).
func (c *Controller) withdraw(ctx context.Context, name string) error {
	left, err := c.hasWorks(name)
	if err != nil {
		return err
	}
	errs := []error{c.removeRoleBindings(ctx, name)}
	if left {
		// The agent has to see its cluster and its works to clean them up.
		return errors.Join(errs...)
	}
	return errors.Join(append(errs,
		c.removeClusterRoleBinding(ctx, clusterRoleName(name)),
		c.removeClusterRole(ctx, clusterRoleName(name)),
		c.releaseWorkBinding(ctx, name),
	)...)
}

// releaseWorkBinding lets the binding for works go once it is being deleted and no works are left.
func (c *Controller) releaseWorkBinding(ctx context.Context, name string) error {
	left, err := c.hasWorks(name)
	if err != nil || left {
		return err // the end of the last work calls again
	}
	return c.dropEndingBinding(ctx, name)
}

// dropEndingBinding takes our finalizer off a binding for works that is being deleted.
func (c *Controller) dropEndingBinding(ctx context.Context, name string) error {
	binding, err := c.roleBindings.RoleBindings(name).Get(workBinding(name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || binding.DeletionTimestamp == nil || !slices.Contains(binding.Finalizers, workFinalizer) {
		return err
	}
	binding = binding.DeepCopy()
	binding.Finalizers = slices.DeleteFunc(binding.Finalizers, func(f string) bool { return f == workFinalizer })
	_, err = c.Kube.RbacV1().RoleBindings(name).Update(ctx, binding, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return about(err, "role binding %s/%s", name, binding.Name)
}

func (c *Controller) hasWorks(name string) (bool, error) {
	works, err := c.works.ManifestWorks(name).List(labels.Everything())
	return len(works) > 0, about(err, "works of cluster %s", name)
}

// report writes the condition where it differs.
func (c *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	conditions := slices.Clone(mc.Status.Conditions)
	changed := meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: status, Reason: reason, Message: message,
	})
	if !changed {
		return nil
	}
	if err := c.patch(ctx, mc, map[string]any{"status": map[string]any{"conditions": conditions}}, "status"); err != nil {
		return err
	}
	switch reason {
	case reasonAccepted:
		c.Events.Cluster(mc.Name, corev1.EventTypeNormal, "ManagedClusterAccepted", fmt.Sprintf("managed cluster %s is accepted by hub cluster admin", mc.Name))
	case reasonDenied:
		c.Events.Cluster(mc.Name, corev1.EventTypeNormal, "ManagedClusterDenied", fmt.Sprintf("managed cluster %s is denied by hub cluster admin", mc.Name))
	}
	return nil
}

func (c *Controller) addFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	return c.patch(ctx, mc, map[string]any{"metadata": map[string]any{"finalizers": append(slices.Clone(mc.Finalizers), clusterFinalizer)}})
}

func (c *Controller) removeFinalizer(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !slices.Contains(mc.Finalizers, clusterFinalizer) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(mc.Finalizers), func(f string) bool { return f == clusterFinalizer })
	return c.patch(ctx, mc, map[string]any{"metadata": map[string]any{"finalizers": left}})
}

// patch is a merge patch that holds only for the version of the cluster that was looked at.
func (c *Controller) patch(ctx context.Context, mc *clusterv1.ManagedCluster, change map[string]any, subresources ...string) error {
	body, err := reconcile.MergePatch(mc, change)
	if err != nil {
		return err
	}
	_, err = c.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return about(err, "managed cluster %s", mc.Name)
}
