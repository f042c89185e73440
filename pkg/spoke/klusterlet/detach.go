package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/reconcile"
)

const (
	// appliedFinalizer keeps an AppliedManifestWork until what it lists is gone.
	appliedFinalizer = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"

	// page bounds a list of AppliedManifestWorks.
	page = 500

	// detachAgain is how soon a step that failed is tried again, and detachLimit how long in all.
	detachAgain = time.Second
	detachLimit = 5 * time.Minute
	// namespaceLimit is how long the namespace may take to go. Upstream's tools delete it again once the Klusterlet is gone,
	// and take offence at one that is still going.
	namespaceLimit = time.Minute
)

// Detach takes the agent off a cluster whose Klusterlet was deleted, once its other loops have stopped, as upstream's
// operator does (spec 7.2): it lets go of the AppliedManifestWorks, removes the agent's namespace with its credentials, and
// lets the Klusterlet go. What was applied stays, and so do the AppliedManifestWorks that own it. It may be repeated, and
// does nothing where the Klusterlet is gone already. What the agent has no right to remove is told and stays.
func (a *Loop) Detach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, detachLimit)
	defer cancel()
	for _, step := range []func(context.Context) error{a.releaseWorks, a.removeNamespace, a.releaseKlusterlet} {
		var last error
		err := wait.PollUntilContextCancel(ctx, detachAgain, true, func(ctx context.Context) (bool, error) {
			last = step(ctx)
			if apierrors.IsForbidden(last) {
				a.Log.WithError(last).Warn("the agent has no right to remove this from the cluster, so it stays")
				return true, nil
			}
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("detach the cluster: %w", errors.Join(last, err))
		}
	}
	return nil
}

// Going tells whether the Klusterlet is deleted and waits for this agent. One that upstream's operator keeps does not.
func (a *Loop) Going(ctx context.Context) (bool, error) {
	if a.without(ctx) != "" {
		return false, nil
	}
	k, err := a.klusterlets.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("klusterlet %s: %w", Name, err)
	}
	return leaves(k) && a.mine(k), nil
}

// leaves tells whether a Klusterlet is deleted and waits for its cluster to be detached.
func leaves(k *operatorv1.Klusterlet) bool {
	return k.DeletionTimestamp != nil && (slices.Contains(k.Finalizers, cleanup) || slices.Contains(k.Finalizers, hosted))
}

// agentID is this agent's name in AppliedManifestWorks; empty if it has never had one.
func (a *Loop) agentID(ctx context.Context) (string, error) {
	if name := a.State.Get().Agent; name != "" {
		return name, nil
	}
	secret, err := a.kube.CoreV1().Secrets(Namespace).Get(ctx, hubSecret, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("secret %s/%s: %w", Namespace, hubSecret, err)
	}
	if err != nil {
		return "", nil
	}
	return string(secret.Data[agentName]), nil
}

// releaseWorks takes the finalizer off the AppliedManifestWorks of this agent, so that whoever deletes them need not wait
// for an agent that is not there any more.
func (a *Loop) releaseWorks(ctx context.Context) error {
	id, err := a.agentID(ctx)
	if err != nil || id == "" {
		return err
	}
	list := metav1.ListOptions{Limit: page}
	for {
		works, err := a.works.WorkV1().AppliedManifestWorks().List(ctx, list)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list applied manifest works: %w", err)
		}
		for i := range works.Items {
			if err := a.releaseWork(ctx, &works.Items[i], id); err != nil {
				return err
			}
		}
		if list.Continue = works.Continue; list.Continue == "" {
			return nil
		}
	}
}

func (a *Loop) releaseWork(ctx context.Context, work *workv1.AppliedManifestWork, id string) error {
	if work.Spec.AgentID != id || !slices.Contains(work.Finalizers, appliedFinalizer) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(work.Finalizers), func(f string) bool { return f == appliedFinalizer })
	body, err := reconcile.MergePatch(work, map[string]any{"metadata": map[string]any{"finalizers": left}})
	if err != nil {
		return err
	}
	_, err = a.works.WorkV1().AppliedManifestWorks().Patch(ctx, work.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("applied manifest work %s: %w", work.Name, err)
	}
	return nil
}

// removeNamespace removes the agent's namespace with everything in it, the credentials among it.
func (a *Loop) removeNamespace(ctx context.Context) error {
	namespaces := a.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, Namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	err := wait.PollUntilContextTimeout(ctx, detachAgain, namespaceLimit, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, Namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil && ctx.Err() == nil {
		a.Log.WithField("namespace", Namespace).Warn("the namespace is deleted and not gone yet; something in it has a finalizer")
	}
	return nil
}

func (a *Loop) releaseKlusterlet(ctx context.Context) error {
	k, err := a.klusterlets.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("klusterlet %s: %w", Name, err)
	}
	if k.DeletionTimestamp == nil {
		return nil // another one, that somebody has made since
	}
	left := slices.DeleteFunc(slices.Clone(k.Finalizers), func(f string) bool { return f == cleanup || f == hosted })
	if err := a.patch(ctx, k, map[string]any{"metadata": map[string]any{"finalizers": left}}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
