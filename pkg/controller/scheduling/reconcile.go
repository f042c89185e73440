package scheduling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// pace is how long a placement that has just been evaluated waits for more changes. The first one is acted on at once; of a
// thousand clusters that join in a second, each decision is written a few times rather than a thousand.
const pace = 50 * time.Millisecond

// atATime is how many decisions of one placement are written side by side.
const atATime = 8

// maxFailure is how much of an error a condition quotes, in bytes.
const maxFailure = 512

// reconcile brings the decisions and the status of a placement in line.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	c.mu.Lock()
	t := c.targets[key]
	c.mu.Unlock()
	if t == nil {
		return 0, nil
	}
	if err := c.prepare(ctx, t); err != nil {
		return 0, fmt.Errorf("placement %s: %w", key, err)
	}
	c.mu.Lock()
	if t.object == nil || t.object.DeletionTimestamp != nil {
		c.mu.Unlock()
		return 0, nil
	}
	now := c.Clock.Now()
	o, err := c.decide(t, now)
	c.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("placement %s: %w", key, err)
	}
	if err := c.write(ctx, t, o); err != nil {
		return 0, errors.Join(fmt.Errorf("placement %s: %w", key, err), c.confess(ctx, t, err))
	}
	c.tell(t, o)
	if o.until.IsZero() {
		return 0, nil
	}
	return max(o.until.Sub(now), time.Millisecond), nil
}

// write makes the changes, and then the status that tells of them.
func (c *Controller) write(ctx context.Context, t *target, o *outcome) error {
	for _, step := range []struct {
		decisions []*clusterv1beta1.PlacementDecision
		do        func(context.Context, *target, *clusterv1beta1.PlacementDecision) error
	}{
		{o.changes.arrivals, c.put}, {o.changes.departures, c.put}, {o.changes.surplus, c.remove},
	} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(atATime)
		for _, d := range step.decisions {
			group.Go(func() error { return step.do(ctx, t, d) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	if o.status == nil {
		return nil
	}
	return c.writeStatus(ctx, t, o.object, o.status)
}

func (c *Controller) writeStatus(ctx context.Context, t *target, of *clusterv1beta1.Placement, status *clusterv1beta1.PlacementStatus) error {
	body, err := reconcile.MergePatch(of, map[string]any{"status": status})
	if err != nil {
		return err
	}
	p, err := c.Clusters.ClusterV1beta1().Placements(t.namespace).Patch(ctx, t.name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // it is gone, and its decisions will be
	}
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.object != nil && reconcile.Newer(p.ResourceVersion, t.object.ResourceVersion) {
		t.object = p
	}
	return nil
}

// confess says in the status that decisions could not be written, and why: whoever waits for them finds it nowhere else.
// What passes by itself is not worth a word.
func (c *Controller) confess(ctx context.Context, t *target, failure error) error {
	if ctx.Err() != nil || apierrors.IsConflict(failure) || apierrors.IsNotFound(failure) {
		return nil
	}
	c.mu.Lock()
	p, wrong := t.object, t.wrong
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	status := p.Status.DeepCopy()
	status.Conditions = conditionsOf(p, configured(wrong), unsatisfied(reasonNotScheduled, "decisions cannot be written, and are tried again: %s", shortened(failure)))
	if equality.Semantic.DeepEqual(status, &p.Status) {
		return nil
	}
	c.Log.WithField(log.FieldObject, "placement "+p.Namespace+"/"+p.Name).WithError(failure).Warn("decisions cannot be written, and are tried again")
	return c.writeStatus(ctx, t, p, status)
}

// shortened is an error that fits into a condition; what the API server says is of any length.
func shortened(err error) string {
	text := err.Error()
	if len(text) > maxFailure {
		return strings.ToValidUTF8(text[:maxFailure], "") + " …"
	}
	return text
}

// put writes a decision with its entries at once, which the API server lets the hub's own parts do: nobody ever sees a new
// decision empty, or one in a group that its clusters are not in.
func (c *Controller) put(ctx context.Context, t *target, d *clusterv1beta1.PlacementDecision) error {
	decisions := c.Clusters.ClusterV1beta1().PlacementDecisions(d.Namespace)
	d = d.DeepCopy()
	c.mu.Lock()
	if before := t.decisions[d.Name]; before != nil {
		d.ResourceVersion, d.UID = before.ResourceVersion, before.UID // an earlier step may have changed it
	}
	c.mu.Unlock()
	var written *clusterv1beta1.PlacementDecision
	var err error
	if d.ResourceVersion == "" {
		written, err = decisions.Create(ctx, d, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // one that has lost its label, or was made by somebody else
			var other *clusterv1beta1.PlacementDecision
			if other, err = decisions.Get(ctx, d.Name, metav1.GetOptions{}); err == nil {
				d.ResourceVersion, d.UID = other.ResourceVersion, other.UID
				written, err = decisions.Update(ctx, d, metav1.UpdateOptions{})
			}
		}
	} else {
		written, err = decisions.Update(ctx, d, metav1.UpdateOptions{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if apierrors.IsNotFound(err) && d.ResourceVersion != "" {
		t.lose(d, &c.fleet) // it was deleted, and the event is on its way
	}
	if err != nil {
		return fmt.Errorf("decision %s: %w", d.Name, err)
	}
	if c.targets[t.key()] == t { // else the placement is gone, and an event tells of what was written for it
		t.see(written, &c.fleet)
	}
	return nil
}

func (c *Controller) remove(ctx context.Context, t *target, d *clusterv1beta1.PlacementDecision) error {
	err := c.Clusters.ClusterV1beta1().PlacementDecisions(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &d.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("decision %s: %w", d.Name, err)
	}
	return nil // its disappearance is an event
}

// tell writes one line and one event about what is written now, whatever its size.
func (c *Controller) tell(t *target, o *outcome) {
	c.mu.Lock()
	t.untold = shift{}
	c.mu.Unlock()
	if o.status != nil {
		status, reason := satisfiedOf(o.status.Conditions)
		if before, was := satisfiedOf(o.object.Status.Conditions); before != status || was != reason {
			c.Log.WithField(log.FieldObject, "placement "+o.object.Namespace+"/"+o.object.Name).WithField(log.FieldReason, reason).
				WithField("clusters", o.total).Info("placement is satisfied: " + string(status))
		}
	}
	if o.moved.in.count+o.moved.out.count == 0 {
		return
	}
	reason := "DecisionUpdate"
	if o.moved.first {
		reason = "DecisionCreate"
	}
	message := fmt.Sprintf("%d clusters are selected", o.total)
	if o.moved.in.count > 0 {
		message += "; new: " + o.moved.in.String()
	}
	if o.moved.out.count > 0 {
		message += "; no longer: " + o.moved.out.String()
	}
	kind := corev1.EventTypeNormal
	for _, warning := range o.warns {
		kind = corev1.EventTypeWarning
		message += "; " + warning
	}
	c.Events.Placement(o.object, kind, reason, message)
	if o.scores != "" {
		c.Events.Placement(o.object, corev1.EventTypeNormal, "ScoreUpdate", o.scores)
	}
}
