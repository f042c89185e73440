package scheduling

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/placement"
	"nave/pkg/reconcile"
)

// byNamespace is the index that every informer has.
const byNamespace = cache.NamespaceIndex

// clusterChanged evaluates the placements again that a cluster can matter to. Upstream evaluates all placements of all of
// the cluster's sets with each heartbeat (spec 10.3, P2).
func (c *Controller) clusterChanged(before, after *clusterv1.ManagedCluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mc := after
	if after != nil {
		c.fleet.set(after)
	} else {
		mc = before
	}
	m := c.fleet.byName[mc.Name]
	if m == nil {
		return
	}
	var difference *placement.Difference
	if before != nil && after != nil {
		difference = placement.DifferenceOf(before, after)
	}
	for key, t := range c.targets {
		matters := t.matters(before, after, difference)
		if matters || before == nil { // what is kept under its id may be of one that is gone
			t.doubt(m)
		}
		if matters {
			c.enqueue(key)
		}
	}
	if after == nil {
		c.fleet.unset(mc.Name)
	}
}

// setChanged evaluates the placements again that may select from a set.
func (c *Controller) setChanged(before, after *clusterv1beta2.ManagedClusterSet) {
	if before != nil && after != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return // only that more or fewer clusters are in it
	}
	set := after
	if after == nil {
		set = before
	}
	for _, obj := range c.bindings.List() {
		if binding, ok := obj.(*clusterv1beta2.ManagedClusterSetBinding); ok && binding.Name == set.Name {
			c.namespaceChanged(binding.Namespace)
		}
	}
}

func (c *Controller) bindingChanged(before, after *clusterv1beta2.ManagedClusterSetBinding) {
	switch {
	case before == nil:
		c.namespaceChanged(after.Namespace)
	case after == nil:
		c.namespaceChanged(before.Namespace)
	}
}

// namespaceChanged judges every cluster again for the placements of a namespace.
func (c *Controller) namespaceChanged(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.targets {
		if t.namespace == namespace && t.object != nil {
			t.forget()
			c.enqueue(key)
		}
	}
}

func (c *Controller) placementChanged(before, after *clusterv1beta1.Placement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if after == nil {
		if t := c.targets[before.Namespace+"/"+before.Name]; t != nil {
			t.object = nil
			t.follow(&c.fleet)
			c.drop(t)
		}
		return
	}
	t := c.target(after.Namespace, after.Name)
	known := t.object
	if known != nil && known.UID == after.UID && !reconcile.Newer(after.ResourceVersion, known.ResourceVersion) {
		return // it is what this controller wrote, or older
	}
	t.object = after
	if known != nil && known.UID != after.UID || disabled(after) {
		t.follow(&c.fleet)
	}
	c.enqueue(t.key())
}

// decisionChanged takes notice of decisions, also of those that are of no placement: they count for Balance. Those that
// somebody else changed are repaired.
func (c *Controller) decisionChanged(before, after *clusterv1beta1.PlacementDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case after == nil:
		c.decisionSeen(before, func(t *target) bool { return t.lose(before, &c.fleet) })
		return
	case before != nil && placementOf(before) != placementOf(after):
		c.decisionSeen(before, func(t *target) bool { return t.disown(after, &c.fleet) })
	}
	c.decisionSeen(after, func(t *target) bool { return t.see(after, &c.fleet) })
}

// decisionSeen hands a decision to the placement that it says it is of, and evaluates that again if it is news to it.
func (c *Controller) decisionSeen(d *clusterv1beta1.PlacementDecision, news func(*target) bool) {
	name := placementOf(d)
	if name == "" {
		return
	}
	t := c.target(d.Namespace, name)
	if news(t) && t.object != nil {
		c.enqueue(t.key())
	}
	c.drop(t)
}

func placementOf(d *clusterv1beta1.PlacementDecision) string {
	return d.Labels[clusterv1beta1.PlacementLabel]
}

// scoreChanged evaluates the placements again that read a score of one of their clusters.
func (c *Controller) scoreChanged(before, after *clusterv1alpha1.AddOnPlacementScore) {
	score := after
	switch {
	case after == nil:
		score = before
	case before != nil && equality.Semantic.DeepEqual(before.Status.Scores, after.Status.Scores) && before.Status.ValidUntil.Equal(after.Status.ValidUntil):
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.fleet.byName[score.Namespace]
	if m == nil || m.cluster == nil {
		return
	}
	for key, t := range c.targets {
		if t.object != nil && t.plan != nil && t.plan.ReadsScore(score.Name) && (scope{members: t.sets}).has(m.cluster) {
			t.doubt(m)
			c.enqueue(key)
		}
	}
}

func (c *Controller) target(namespace, name string) *target {
	key := namespace + "/" + name
	t := c.targets[key]
	if t == nil {
		t = newTarget(namespace, name)
		c.targets[key] = t
	}
	return t
}

// drop forgets a placement once neither it nor decisions of it are there.
func (c *Controller) drop(t *target) {
	if t.object == nil && len(t.decisions) == 0 {
		delete(c.targets, t.key())
	}
}
