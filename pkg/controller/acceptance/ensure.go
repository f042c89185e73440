package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client is the part of a typed client that keeping an object as it should be takes.
type client[T any] interface {
	Create(ctx context.Context, obj T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// errTerminating says that what should exist is just being deleted; it can be made again once it is gone.
var errTerminating = errors.New("is being deleted")

// ensure makes wanted, or corrects what differs from it. current is what the cache has, found whether it has any. merge
// brings current in line with wanted and tells whether that changed it.
func ensure[T metav1.Object](ctx context.Context, c client[T], wanted, current T, found error, merge func(current, wanted T) bool) error {
	if apierrors.IsNotFound(found) {
		_, err := c.Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache is behind; its event calls again
		}
		return err
	}
	if found != nil {
		return found
	}
	if current.GetDeletionTimestamp() != nil {
		return errTerminating
	}
	if !merge(current, wanted) {
		return nil
	}
	_, err := c.Update(ctx, current, metav1.UpdateOptions{})
	return err
}

// replace makes an object anew of which something differs that cannot be changed, such as a binding's role: somebody else's
// of the same name, or one of an earlier version.
func replace[T metav1.Object](ctx context.Context, c client[T], wanted, current T) error {
	if len(current.GetFinalizers()) > 0 {
		current.SetFinalizers(nil)
		var err error
		if current, err = c.Update(ctx, current, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	uid := current.GetUID()
	err := c.Delete(ctx, current.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = c.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // somebody was faster; the event of it calls again
	}
	return err
}

// remove deletes an object that the cache has and that is not being deleted yet.
func remove[T metav1.Object](ctx context.Context, c client[T], name string, current T, found error) error {
	if apierrors.IsNotFound(found) {
		return nil
	}
	if found != nil {
		return found
	}
	if current.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := c.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// labelled adds the labels that the hub's settings ask for. Those that say whose an object is always win.
func labelled[T metav1.Object](c *Controller, o T) T {
	labels := maps.Clone(c.Settings.Get().Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, o.GetLabels())
	o.SetLabels(labels)
	return o
}

func mergeLabels(current, wanted metav1.Object) bool {
	labels := maps.Clone(current.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, wanted.GetLabels())
	if maps.Equal(labels, current.GetLabels()) {
		return false
	}
	current.SetLabels(labels)
	return true
}

func mergeFinalizers(current, wanted metav1.Object) bool {
	changed := false
	for _, f := range wanted.GetFinalizers() {
		if !slices.Contains(current.GetFinalizers(), f) {
			current.SetFinalizers(append(current.GetFinalizers(), f))
			changed = true
		}
	}
	return changed
}

func (c *Controller) ensureNamespace(ctx context.Context, cluster string) error {
	current, found := c.namespaces.Get(cluster)
	err := ensure(ctx, c.Kube.CoreV1().Namespaces(), labelled(c, namespaceOf(cluster)), current.DeepCopy(), found, func(current, wanted *corev1.Namespace) bool {
		return mergeLabels(current, wanted)
	})
	return about(err, "namespace %s", cluster)
}

func (c *Controller) ensureClusterRole(ctx context.Context, role *rbacv1.ClusterRole) error {
	current, found := c.clusterRoles.Get(role.Name)
	role = labelled(c, role)
	err := ensure(ctx, c.Kube.RbacV1().ClusterRoles(), role, current.DeepCopy(), found, func(current, wanted *rbacv1.ClusterRole) bool {
		changed := mergeLabels(current, wanted)
		if !equality.Semantic.DeepEqual(current.Rules, wanted.Rules) {
			current.Rules, changed = wanted.Rules, true
		}
		return changed
	})
	return about(err, "cluster role %s", role.Name)
}

func (c *Controller) ensureClusterRoleBinding(ctx context.Context, binding *rbacv1.ClusterRoleBinding) error {
	current, found := c.clusterRoleBindings.Get(binding.Name)
	binding = labelled(c, binding)
	if found == nil && current.RoleRef != binding.RoleRef {
		err := replace(ctx, c.Kube.RbacV1().ClusterRoleBindings(), binding, current.DeepCopy())
		return about(err, "cluster role binding %s", binding.Name)
	}
	err := ensure(ctx, c.Kube.RbacV1().ClusterRoleBindings(), binding, current.DeepCopy(), found, func(current, wanted *rbacv1.ClusterRoleBinding) bool {
		changed := mergeLabels(current, wanted)
		if !equality.Semantic.DeepEqual(current.Subjects, wanted.Subjects) {
			current.Subjects, changed = wanted.Subjects, true
		}
		return changed
	})
	return about(err, "cluster role binding %s", binding.Name)
}

func (c *Controller) ensureRoleBinding(ctx context.Context, binding *rbacv1.RoleBinding) error {
	current, found := c.roleBindings.RoleBindings(binding.Namespace).Get(binding.Name)
	binding = labelled(c, binding)
	if found == nil && current.RoleRef != binding.RoleRef {
		err := replace(ctx, c.Kube.RbacV1().RoleBindings(binding.Namespace), binding, current.DeepCopy())
		return about(err, "role binding %s/%s", binding.Namespace, binding.Name)
	}
	err := ensure(ctx, c.Kube.RbacV1().RoleBindings(binding.Namespace), binding, current.DeepCopy(), found, func(current, wanted *rbacv1.RoleBinding) bool {
		labels, finalizers := mergeLabels(current, wanted), mergeFinalizers(current, wanted)
		changed := labels || finalizers
		if !equality.Semantic.DeepEqual(current.Subjects, wanted.Subjects) {
			current.Subjects, changed = wanted.Subjects, true
		}
		return changed
	})
	return about(err, "role binding %s/%s", binding.Namespace, binding.Name)
}

func (c *Controller) removeRoleBindings(ctx context.Context, cluster string) error {
	var errs []error
	for _, binding := range roleBindings(cluster) {
		current, found := c.roleBindings.RoleBindings(cluster).Get(binding.Name)
		err := remove(ctx, c.Kube.RbacV1().RoleBindings(cluster), binding.Name, current, found)
		errs = append(errs, about(err, "role binding %s/%s", cluster, binding.Name))
	}
	return errors.Join(errs...)
}

func (c *Controller) removeClusterRole(ctx context.Context, name string) error {
	current, found := c.clusterRoles.Get(name)
	return about(remove(ctx, c.Kube.RbacV1().ClusterRoles(), name, current, found), "cluster role %s", name)
}

func (c *Controller) removeClusterRoleBinding(ctx context.Context, name string) error {
	current, found := c.clusterRoleBindings.Get(name)
	return about(remove(ctx, c.Kube.RbacV1().ClusterRoleBindings(), name, current, found), "cluster role binding %s", name)
}

func about(err error, format string, arguments ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(arguments, err)...)
}
