package klusterlet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/log"
	"nave/pkg/operator"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

func (a *Loop) reconcile(ctx context.Context, name string) (time.Duration, error) {
	err := a.keep(ctx, name)
	if !apierrors.IsForbidden(err) {
		a.narrow = a.narrow && err != nil
		return 0, err
	}
	if !a.narrow {
		a.narrow = true
		a.Log.WithError(err).Warn("the agent may not keep its Klusterlet and goes on without; give it the rights to create, update and patch it")
	}
	return reconcile.Jitter(refused), nil
}

func (a *Loop) keep(ctx context.Context, name string) error {
	obj, there, err := a.informer.GetStore().GetByKey(name)
	if err != nil {
		return err
	}
	if !there {
		return a.create(ctx)
	}
	k := obj.(*operatorv1.Klusterlet)
	if !a.mine(k) {
		a.leaveAlone(k)
		return nil
	}
	switch {
	case leaves(k):
		a.once.Do(func() { close(a.deleted) })
		return nil
	case k.DeletionTimestamp != nil:
		return nil // it comes back once it is gone: nobody waits for the cluster to be detached
	case !slices.Contains(k.Finalizers, cleanup) || k.Annotations[keptBy] != a.Cluster:
		return a.adopt(ctx, k)
	}
	return a.follow(ctx, k)
}

// mine tells whether this agent keeps the object: nobody else does, or an agent that was stopped.
func (a *Loop) mine(k *operatorv1.Klusterlet) bool {
	by := k.Annotations[keptBy]
	return by == "" || by == a.Cluster || meta.IsStatusConditionFalse(k.Status.Conditions, operatorv1.ConditionKlusterletAvailable)
}

func (a *Loop) leaveAlone(k *operatorv1.Klusterlet) {
	if !a.foreign {
		a.foreign = true
		a.Log.WithField(log.FieldObject, "Klusterlet "+Name).Warnf("another agent on this cluster, which runs as %s, keeps it; "+
			"if there is none, remove the annotation %s", k.Annotations[keptBy], keptBy)
	}
}

// adopt makes an object the agent's own that somebody else has made, or another agent has left.
func (a *Loop) adopt(ctx context.Context, k *operatorv1.Klusterlet) error {
	finalizers := slices.Clone(k.Finalizers)
	if !slices.Contains(finalizers, cleanup) {
		finalizers = append(finalizers, cleanup)
	}
	return a.patch(ctx, k, map[string]any{"metadata": map[string]any{"finalizers": finalizers, "annotations": map[string]string{keptBy: a.Cluster}}})
}

// create makes the object as it is when nobody has set anything. Besides what upstream's tools look for it holds no copy of
// the flags, which it would then override at the next start.
func (a *Loop) create(ctx context.Context) error {
	_, err := a.klusterlets.Create(ctx, &operatorv1.Klusterlet{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Finalizers: []string{cleanup}, Annotations: map[string]string{keptBy: a.Cluster}},
		Spec: operatorv1.KlusterletSpec{
			ClusterName: a.Cluster, Namespace: Namespace,
			DeployOption: operatorv1.KlusterletDeployOption{Mode: operatorv1.InstallModeSingleton},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create klusterlet %s: %w", Name, err)
	}
	return nil
}

// follow puts the spec in force and says so, and how the agent stands.
func (a *Loop) follow(ctx context.Context, k *operatorv1.Klusterlet) error {
	s, found := read(a.flags, a.Cluster, k.Spec)
	a.Settings.Update(func(settings.Agent) settings.Agent { return s })
	a.tell(found)
	return a.saveStatus(ctx, k, statusOf(k, a.State.Get(), s, found, a.definitions))
}

// tell logs what has no effect, once for each change of it.
func (a *Loop) tell(found operator.Findings) {
	all := slices.Concat(found.InvalidGates, found.Unsupported)
	if slices.Equal(all, a.told) {
		return
	}
	a.told = all
	if len(all) > 0 {
		a.Log.WithField(log.FieldObject, "Klusterlet "+Name).WithField(log.FieldReason, all).Warn("the object sets what has no effect here; see its conditions")
	}
}

// sayGoodbye leaves word that the agent does not run any more. Nobody waits long for it.
func (a *Loop) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	k, err := a.klusterlets.Get(ctx, Name, metav1.GetOptions{})
	if err == nil && k.Annotations[keptBy] == a.Cluster {
		status := *k.Status.DeepCopy()
		status.Conditions = stopped(k)
		err = a.saveStatus(ctx, k, status)
	}
	if err != nil {
		a.Log.WithError(err).Debug("the Klusterlet does not say that the agent was stopped")
	}
}

// saveStatus writes a status where it differs.
func (a *Loop) saveStatus(ctx context.Context, k *operatorv1.Klusterlet, status operatorv1.KlusterletStatus) error {
	if equality.Semantic.DeepEqual(status, k.Status) {
		return nil
	}
	return a.patch(ctx, k, map[string]any{"status": map[string]any{
		"observedGeneration": status.ObservedGeneration, "conditions": status.Conditions,
		"relatedResources": status.RelatedResources, "generations": status.Generations,
	}}, "status")
}

func (a *Loop) patch(ctx context.Context, k *operatorv1.Klusterlet, change map[string]any, subresources ...string) error {
	body, err := reconcile.MergePatch(k, change)
	if err != nil {
		return err
	}
	if _, err := a.klusterlets.Patch(ctx, k.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...); err != nil {
		return fmt.Errorf("klusterlet %s: %w", k.Name, err)
	}
	return nil
}
