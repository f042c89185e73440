package placement

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// Reads tells whether the difference between two states of a cluster is one that the plan looks at. Membership of sets and
// deletion are the caller's.
func (p *Plan) Reads(before, after *clusterv1.ManagedCluster) bool {
	if !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) {
		return true
	}
	was, is := claimsOf(before), claimsOf(after)
	differs := func(selector *predicate) bool {
		requirements, _ := selector.labels.Requirements()
		return differ(requirements, before.Labels, after.Labels) || differ(selector.claims, was, is)
	}
	for i := range p.predicates {
		if differs(&p.predicates[i]) || p.predicates[i].cel.differs(before, after) {
			return true
		}
	}
	for i := range p.groups.named {
		if differs(&p.groups.named[i].predicate) {
			return true
		}
	}
	for i := range p.spread {
		a, knownBefore := p.spread[i].valueOf(before)
		b, knownAfter := p.spread[i].valueOf(after)
		if a != b || knownBefore != knownAfter {
			return true
		}
	}
	for i := range p.prioritizers {
		if name := p.prioritizers[i].resource; name != "" {
			a, knownBefore := resourceOf(before, name)
			b, knownAfter := resourceOf(after, name)
			if a != b || knownBefore != knownAfter {
				return true
			}
		}
	}
	return false
}

// differ tells whether any key of the requirements has another value.
func differ(requirements []labels.Requirement, before, after labels.Set) bool {
	for i := range requirements {
		key := requirements[i].Key()
		a, knownBefore := before[key]
		b, knownAfter := after[key]
		if a != b || knownBefore != knownAfter {
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
