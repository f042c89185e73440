package placement

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// Difference is between two states of a cluster. It is made once for all placements that are asked whether it matters.
type Difference struct {
	before, after *clusterv1.ManagedCluster
	claimsBefore  labels.Set
	claimsAfter   labels.Set

	taints, labels, claims, resources bool // differ
}

// DifferenceOf compares two states of a cluster.
func DifferenceOf(before, after *clusterv1.ManagedCluster) *Difference {
	d := &Difference{before: before, after: after, claimsBefore: claimsOf(before), claimsAfter: claimsOf(after)}
	d.taints = !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
	d.labels = !maps.Equal(before.Labels, after.Labels)
	d.claims = !maps.Equal(d.claimsBefore, d.claimsAfter)
	d.resources = !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) || !equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity)
	return d
}

// Reads tells whether a difference is one that can matter to the plan: a label of another value does not if the selectors say
// of the cluster what they said before. Membership of sets and deletion are the caller's.
func (p *Plan) Reads(d *Difference) bool {
	return d.taints || d.labels && p.readsLabels(d) || d.claims && p.readsClaims(d) || d.resources && p.readsResources(d) || p.expressionsRead(d)
}

func (p *Plan) readsLabels(d *Difference) bool {
	return p.anySelector(func(by *predicate) bool {
		return by.labels.Matches(labels.Set(d.before.Labels)) != by.labels.Matches(labels.Set(d.after.Labels))
	}) || p.spreadReads(d, false)
}

func (p *Plan) readsClaims(d *Difference) bool {
	return p.anySelector(func(by *predicate) bool { return by.claims.match(d.claimsBefore) != by.claims.match(d.claimsAfter) }) || p.spreadReads(d, true)
}

// anySelector asks the predicates of the placement and those of its groups.
func (p *Plan) anySelector(reads func(*predicate) bool) bool {
	for i := range p.predicates {
		if reads(&p.predicates[i]) {
			return true
		}
	}
	for i := range p.groups.named {
		if reads(&p.groups.named[i].predicate) {
			return true
		}
	}
	return false
}

func (p *Plan) spreadReads(d *Difference, claims bool) bool {
	for i := range p.spread {
		if p.spread[i].claim != claims {
			continue
		}
		a, knownBefore := p.spread[i].valueOf(d.before)
		b, knownAfter := p.spread[i].valueOf(d.after)
		if a != b || knownBefore != knownAfter {
			return true
		}
	}
	return false
}

func (p *Plan) readsResources(d *Difference) bool {
	for i := range p.prioritizers {
		if name := p.prioritizers[i].resource; name != "" {
			a, knownBefore := resourceOf(d.before, name)
			b, knownAfter := resourceOf(d.after, name)
			if a != b || knownBefore != knownAfter {
				return true
			}
		}
	}
	return false
}

func (p *Plan) expressionsRead(d *Difference) bool {
	for i := range p.predicates {
		if p.predicates[i].cel.differs(d.before, d.after) {
			return true
		}
	}
	return false
}

// differs tells whether expressions may see a difference between two states of a cluster.
func (s *celSelector) differs(before, after *clusterv1.ManagedCluster) bool {
	if s == nil || len(s.reads.paths) == 0 {
		return false
	}
	was, err := s.view.of(before)
	is, also := s.view.of(after)
	return err != nil || also != nil || s.reads.differ(was, is)
}

// ReadsScore tells whether an AddOnPlacementScore of this name can make a difference.
func (p *Plan) ReadsScore(name string) bool {
	for i := range p.predicates {
		if cel := p.predicates[i].cel; cel != nil && cel.reads.readsScore(name) {
			return true
		}
	}
	for i := range p.prioritizers {
		if p.prioritizers[i].addOn == name {
			return true
		}
	}
	return false
}
