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
	set := s.object
	c.mu.Unlock()
	next, err := c.bring(ctx, s, set)
	again := max(next.Sub(c.Clock.Now()), time.Millisecond)
	switch {
	case next.IsZero():
		again = 0
	case err != nil:
		c.loop.AddAfter(value, again) // attempts are further and further apart, what time changes is not
	}
	if err != nil {
		return 0, fmt.Errorf("replica set %s/%s: %w", set.Namespace, set.Name, err)
	}
	return again, nil
}

// bring brings the works and the status of a set in line, and gives the time of the next look at it, if time alone makes one
// necessary.
func (c *Controller) bring(ctx context.Context, s *state, set *workv1alpha1.ManifestWorkReplicaSet) (time.Time, error) {
	switch {
	case set.DeletionTimestamp != nil:
		return time.Time{}, c.finalize(ctx, s, set)
	case c.switchedOff():
		return time.Time{}, nil
	case !slices.Contains(set.Finalizers, workv1alpha1.ManifestWorkReplicaSetFinalizer):
		finalizers := append(slices.Clone(set.Finalizers), workv1alpha1.ManifestWorkReplicaSetFinalizer)
		return c.Clock.Now(), c.patch(ctx, s, set, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	}
	return c.rollOut(ctx, s)
}

// rollOut does what an evaluation of the set asks for, and reports what then is. What is written may change when the set is to
// be looked at next, so it is evaluated again.
func (c *Controller) rollOut(ctx context.Context, s *state) (time.Time, error) {
	e, err := c.look(s)
	if e == nil || err != nil {
		return time.Time{}, err
	}
	var failed []error
	if before := e; e.pending() {
		failed = c.write(ctx, s, e)
		if e, err = c.look(s); e == nil || err != nil {
			return time.Time{}, err
		}
		switch {
		case len(failed) > 0:
		case e.repeats(before):
			failed = []error{errPassing}
		case e.pending():
			e.wake(c.Clock.Now())
		}
	}
	if err := c.report(ctx, s, e.set, e.status(c.troubles(s, e.set, failed))); err != nil {
		return e.next, err
	}
	return e.next, errors.Join(failed[:min(len(failed), maxNamed)]...)
}

// troubles are the first of the failures that people have to be told of. When there are such for the first time they are
// logged, too; attempts after that are not.
func (c *Controller) troubles(s *state, set *workv1alpha1.ManifestWorkReplicaSet, failed []error) []string {
	lasting := slices.DeleteFunc(slices.Clone(failed), passing)
	if len(lasting) > 0 && !s.troubled {
		c.Log.WithField(log.FieldObject, objectOf(set)).WithField("works", len(lasting)).WithError(lasting[0]).Info("works cannot be written")
	}
	s.troubled = len(lasting) > 0
	return brief(lasting)
}

func objectOf(set *workv1alpha1.ManifestWorkReplicaSet) string {
	return "replica set " + set.Namespace + "/" + set.Name
}

// look evaluates a set; nil if it is gone.
func (c *Controller) look(s *state) (*evaluation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.object == nil {
		return nil, nil
	}
	return c.evaluate(s, c.Clock.Now())
}

// report writes the status where it differs.
func (c *Controller) report(ctx context.Context, s *state, set *workv1alpha1.ManifestWorkReplicaSet, status workv1alpha1.ManifestWorkReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(status, set.Status) {
		return nil
	}
	before, after := reasonOf(set.Status.Conditions), reasonOf(status.Conditions)
	if err := c.patch(ctx, s, set, map[string]any{"status": status}, "status"); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if before != after {
		c.Log.WithField(log.FieldObject, objectOf(set)).WithField(log.FieldReason, after).
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
// by themselves (spec 3.2). A work that cannot be deleted holds it in either case.
func (c *Controller) finalize(ctx context.Context, s *state, set *workv1alpha1.ManifestWorkReplicaSet) error {
	if !slices.Contains(set.Finalizers, workv1alpha1.ManifestWorkReplicaSetFinalizer) {
		return nil
	}
	e := &evaluation{set: set}
	c.mu.Lock()
	for _, works := range s.byPlacement() {
		e.discard(works)
	}
	c.mu.Unlock()
	failed := c.write(ctx, s, e)
	c.mu.Lock()
	left := s.clusters()
	c.mu.Unlock()
	if len(failed) == 0 && (len(left) == 0 || set.Spec.CascadeDeletionPolicy != workv1alpha1.Foreground) {
		rest := slices.DeleteFunc(slices.Clone(set.Finalizers), func(f string) bool { return f == workv1alpha1.ManifestWorkReplicaSetFinalizer })
		return c.patch(ctx, s, set, map[string]any{"metadata": map[string]any{"finalizers": rest}})
	}
	if err := c.report(ctx, s, set, leaving(set, left, c.troubles(s, set, failed))); err != nil {
		return err
	}
	return errors.Join(failed[:min(len(failed), maxNamed)]...)
}
