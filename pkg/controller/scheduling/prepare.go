package scheduling

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

// prepare does without the lock what may take long: to compile a placement, and to match clusters against its expressions.
// decide finds it done, and does again only what has changed meanwhile. t need not be one of the controller's targets.
func (c *Controller) prepare(ctx context.Context, t *target) error {
	c.mu.Lock()
	object := t.object
	if object == nil || object.DeletionTimestamp != nil || disabled(object) {
		c.mu.Unlock()
		return nil
	}
	done := t.isCompiled()
	c.mu.Unlock()
	if !done {
		plan, wrong := compile(c.compiler, object)
		c.mu.Lock()
		if t.object == object {
			t.adopt(plan, wrong)
		}
		c.mu.Unlock()
	}
	return c.matchAhead(ctx, t)
}

// ahead is a cluster that is matched without the lock.
type ahead struct {
	member  *member
	cluster *clusterv1.ManagedCluster
	standing
}

func (c *Controller) matchAhead(ctx context.Context, t *target) error {
	plan, all, err := c.unmatched(t)
	if err != nil {
		return err
	}
	for i := range all {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("match clusters against expressions: %w", err)
		}
		if all[i].standing = mismatched; plan.Matches(all[i].cluster) {
			all[i].standing = matched
		}
	}
	c.believe(t, all)
	return nil
}

// believe takes over what was found out about clusters that nobody has doubted meanwhile.
func (c *Controller) believe(t *target, all []ahead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range all {
		if t.matching[a.member.id] && a.member.cluster == a.cluster {
			t.standings[a.member.id] = a.standing
		}
	}
	clear(t.matching)
}

// unmatched are the clusters that expressions are to be evaluated for; none if there are no expressions.
func (c *Controller) unmatched(t *target) (*placement.Plan, []ahead, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.object == nil || !t.isCompiled() || t.plan == nil || !t.plan.HasExpressions() {
		return nil, nil, nil
	}
	s, err := c.scopeOf(t)
	if err != nil {
		return nil, nil, err
	}
	var all []ahead
	t.grow(&c.fleet)
	t.matching = map[int]bool{}
	for _, m := range c.fleet.sorted {
		if t.standings[m.id] == unknown && s.has(m.cluster) && m.cluster.DeletionTimestamp == nil {
			all = append(all, ahead{member: m, cluster: m.cluster})
			t.matching[m.id] = true
		}
	}
	return t.plan, all, nil
}

// compile makes a plan, or tells what is wrong with the placement.
func compile(compiler *placement.Compiler, p *clusterv1beta1.Placement) (*placement.Plan, *placement.Misconfigured) {
	plan, err := compiler.Compile(p)
	if err == nil && len(p.Name) > maxLabelLength {
		err = &placement.Misconfigured{Plugin: "Placement", Message: fmt.Sprintf("the name is longer than the %d characters of a label, which PlacementDecisions carry it in", maxLabelLength)}
	}
	if err == nil {
		return plan, nil
	}
	wrong := &placement.Misconfigured{Plugin: "Placement", Message: err.Error()}
	errors.As(err, &wrong)
	return nil, wrong
}
