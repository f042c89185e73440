package addontoken

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"nave/pkg/reconcile"
)

// client is the part of a typed client that keeping an object as it should be takes.
type client[T any] interface {
	Create(ctx context.Context, obj T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// ensure makes all pieces and returns the UID of the account.
func (a *Controller) ensure(ctx context.Context, p pieces) (types.UID, error) {
	account, err := a.accounts.ServiceAccounts(p.cluster).Get(p.accountName())
	if apierrors.IsNotFound(err) {
		account, err = a.Kube.CoreV1().ServiceAccounts(p.cluster).Create(ctx, p.account(), metav1.CreateOptions{})
	} else if err == nil {
		err = p.checkOwner("ServiceAccount", account)
	}
	if err != nil {
		return "", fmt.Errorf("service account of add-on %s/%s: %w", p.cluster, p.addon, err)
	}
	role, found := a.roles.Roles(p.cluster).Get(p.roleName())
	if err := keep(ctx, a.Kube.RbacV1().Roles(p.cluster), p, "Role", p.role(), role, found, sameRules); err != nil {
		return "", fmt.Errorf("role of add-on %s/%s: %w", p.cluster, p.addon, err)
	}
	binding, found := a.bindings.RoleBindings(p.cluster).Get(p.roleName())
	if err := keep(ctx, a.Kube.RbacV1().RoleBindings(p.cluster), p, "RoleBinding", p.binding(), binding, found, sameSubjects); err != nil {
		return "", fmt.Errorf("role binding of add-on %s/%s: %w", p.cluster, p.addon, err)
	}
	return account.UID, nil
}

// keep makes wanted, or puts it in the place of what differs. current is what the cache has, found whether it has any.
func keep[T metav1.Object](ctx context.Context, c client[T], p pieces, kind string, wanted, current T, found error, same func(a, b T) bool) error {
	if apierrors.IsNotFound(found) {
		_, err := c.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if found != nil {
		return found
	}
	if err := p.checkOwner(kind, current); err != nil {
		return err
	}
	if same(current, wanted) {
		return nil
	}
	wanted.SetResourceVersion(current.GetResourceVersion())
	_, err := c.Update(ctx, wanted, metav1.UpdateOptions{})
	return err
}

// remove deletes what was made for an add-on. The right to ask for tokens goes before the account.
func (a *Controller) remove(ctx context.Context, p pieces) error {
	binding, found := a.bindings.RoleBindings(p.cluster).Get(p.roleName())
	errs := []error{drop(ctx, a.Kube.RbacV1().RoleBindings(p.cluster), p, binding, found)}
	role, found := a.roles.Roles(p.cluster).Get(p.roleName())
	errs = append(errs, drop(ctx, a.Kube.RbacV1().Roles(p.cluster), p, role, found))
	account, found := a.accounts.ServiceAccounts(p.cluster).Get(p.accountName())
	errs = append(errs, drop(ctx, a.Kube.CoreV1().ServiceAccounts(p.cluster), p, account, found))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what tokens of add-on %s/%s needed: %w", p.cluster, p.addon, err)
	}
	return nil
}

func drop[T metav1.Object](ctx context.Context, c client[T], p pieces, current T, found error) error {
	if apierrors.IsNotFound(found) {
		return nil
	}
	if found != nil {
		return found
	}
	if addonOf(current) != p.addon || current.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := current.GetUID()
	err := c.Delete(ctx, current.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// report writes the condition where it differs; none takes it away.
func (a *Controller) report(ctx context.Context, mca *addonv1alpha1.ManagedClusterAddOn, condition *metav1.Condition) error {
	next := mca.DeepCopy()
	changed := false
	if condition == nil {
		changed = meta.RemoveStatusCondition(&next.Status.Conditions, conditionReady)
	} else {
		changed = meta.SetStatusCondition(&next.Status.Conditions, *condition)
	}
	if !changed {
		return nil
	}
	body, err := reconcile.MergePatch(mca, map[string]any{"status": map[string]any{"conditions": next.Status.Conditions}})
	if err != nil {
		return err
	}
	if _, err := a.Addons.AddonV1alpha1().ManagedClusterAddOns(mca.Namespace).Patch(ctx, mca.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of add-on %s/%s: %w", mca.Namespace, mca.Name, err)
	}
	return nil
}
