package replicaset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// pace is how long a set that has just been looked at waits for more changes: of a thousand works that report in a second,
// its status is written a few times.
const pace = 50 * time.Millisecond

// reconcile brings the works and the status of a set in line.
func (c *Controller) reconcile(ctx context.Context, value string) (time.Duration, error) {
	c.mu.Lock()
	s := c.states[value]
	if s == nil || s.object == nil {
		c.mu.Unlock()
		return 0, nil // works without a set are left to whoever took its finalizer away
	}
	set, now := s.object, c.Clock.Now()
	c.mu.Unlock()
	var next time.Time
	var err error
	switch {
	case set.DeletionTimestamp != nil:
		err = c.finalize(ctx, s, set)
	case c.switchedOff():
	case !slices.Contains(set.Finalizers, workv1alpha1.ManifestWorkReplicaSetFinalizer):
		err = c.patch(ctx, s, set, map[string]any{"metadata": map[string]any{"finalizers": append(slices.Clone(set.Finalizers), workv1alpha1.ManifestWorkReplicaSetFinalizer)}})
		next = now.Add(pace)
	default:
		next, err = c.rollOut(ctx, s)
	}
	if err != nil {
		return 0, fmt.Errorf("replica set %s/%s: %w", set.Namespace, set.Name, err)
	}
	if next.IsZero() {
		return 0, nil
	}
	return max(next.Sub(now), time.Millisecond), nil
}

func (c *Controller) rollOut(ctx context.Context, s *state) (time.Time, error) {
	c.mu.Lock()
	if s.object == nil {
		c.mu.Unlock()
		return time.Time{}, nil
	}
	p, err := c.plan(s, c.Clock.Now())
	c.mu.Unlock()
	if err != nil {
		return time.Time{}, err
	}
	failed := c.write(ctx, s, p)
	c.mu.Lock()
	s.troubles = brief(slices.DeleteFunc(slices.Clone(failed), passing))
	status, err := c.statusOf(s, c.Clock.Now())
	set := s.object
	c.mu.Unlock()
	if err != nil || set == nil {
		return time.Time{}, err
	}
	if err := c.report(ctx, s, set, status); err != nil {
		return time.Time{}, err
	}
	return p.next, errors.Join(failed[:min(len(failed), maxNamed)]...)
}

// report writes the status where it differs.
func (c *Controller) report(ctx context.Context, s *state, set *workv1alpha1.ManifestWorkReplicaSet, status workv1alpha1.ManifestWorkReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(status, set.Status) {
		return nil
	}
	before, after := rolledOut(set.Status.Conditions), rolledOut(status.Conditions)
	if err := c.patch(ctx, s, set, map[string]any{"status": status}, "status"); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if before != after {
		c.Log.WithField(log.FieldObject, "replica set "+set.Namespace+"/"+set.Name).WithField(log.FieldReason, after).
			WithField("clusters", status.Summary.DesiredTotal).WithField("updated", status.Summary.Updated).Info("rollout")
	}
	return nil
}

// patch changes the set as it was looked at, and takes over what became of it.
func (c *Controller) patch(ctx context.Context, s *state, set *workv1alpha1.ManifestWorkReplicaSet, change map[string]any, subresources ...string) error {
	body, err := reconcile.MergePatch(set, change)
	if err != nil {
		return err
	}
	after, err := c.Works.WorkV1alpha1().ManifestWorkReplicaSets(set.Namespace).Patch(ctx, set.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.object != nil && s.object.UID == after.UID {
		s.take(after)
	}
	return nil
}

// finalize takes the works of a set away that is being deleted. With Foreground it waits until they are gone; else they go
// by themselves (spec 3.2).
func (c *Controller) finalize(ctx context.Context, s *state, set *workv1alpha1.ManifestWorkReplicaSet) error {
	if !slices.Contains(set.Finalizers, workv1alpha1.ManifestWorkReplicaSetFinalizer) {
		return nil
	}
	p := &plan{set: set}
	c.mu.Lock()
	for _, r := range s.sorted() {
		if !r.deleting() {
			p.removes = append(p.removes, r)
		}
	}
	c.mu.Unlock()
	if failed := c.write(ctx, s, p); len(failed) > 0 {
		return errors.Join(failed[:min(len(failed), maxNamed)]...)
	}
	c.mu.Lock()
	left := len(s.works)
	status := leaving(s, set)
	c.mu.Unlock()
	if set.Spec.CascadeDeletionPolicy == workv1alpha1.Foreground && left > 0 {
		return c.report(ctx, s, set, status)
	}
	rest := slices.DeleteFunc(slices.Clone(set.Finalizers), func(f string) bool { return f == workv1alpha1.ManifestWorkReplicaSetFinalizer })
	return c.patch(ctx, s, set, map[string]any{"metadata": map[string]any{"finalizers": rest}})
}
