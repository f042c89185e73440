package workload

import (
	"fmt"
	"slices"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// Target is where the objects of a replica set go, and how.
type Target struct {
	Namespace string // of the replica set and of the placement
	Placement string
	// Rollout is how its clusters get them. Nil leaves it as the set has it; a set that does not have the placement gives
	// them to all at once.
	Rollout *clusterv1alpha1.RolloutStrategy
	// Mandatory are the decision groups that come first. Nil leaves those that the set has for this placement, so that a
	// rollout that is described anew still begins with them; empty is none.
	Mandatory []clusterv1alpha1.MandatoryDecisionGroup

	Foreground bool // the set stays, when it is deleted, until its works are gone
}

// refs are the placements of a set, of which before is what it has. Those that somebody else has put there stay beside the
// target: without its reference, the works of a placement go. force moves the set from others to the target.
func (t Target) refs(before *workv1alpha1.ManifestWorkReplicaSet, force bool) ([]workv1alpha1.LocalPlacementReference, error) {
	var all []workv1alpha1.LocalPlacementReference
	if before != nil {
		all = slices.Clone(before.Spec.PlacementRefs)
	}
	at := slices.IndexFunc(all, func(ref workv1alpha1.LocalPlacementReference) bool { return ref.Name == t.Placement })
	if at < 0 {
		if len(all) > 0 && !force {
			return nil, fmt.Errorf("replica set %s of namespace %s goes to placement %s, and not to %s; choose another name for what goes there, or move the set there with --force: then its works go with all that they have applied, and new ones are made",
				before.Name, t.Namespace, list(namesOf(all)), t.Placement)
		}
		all, at = []workv1alpha1.LocalPlacementReference{{Name: t.Placement, RolloutStrategy: atOnce()}}, 0
	}
	all[at].RolloutStrategy = t.strategy(all[at].RolloutStrategy)
	return all, nil
}

// strategy is how clusters get the objects, where before is how they got what was there.
func (t Target) strategy(before clusterv1alpha1.RolloutStrategy) clusterv1alpha1.RolloutStrategy {
	if t.Rollout == nil {
		return before
	}
	after := *t.Rollout.DeepCopy()
	into := mandatoryOf(&after)
	if into == nil {
		return after
	}
	switch from := mandatoryOf(&before); {
	case t.Mandatory != nil:
		into.MandatoryDecisionGroups = t.Mandatory
	case from != nil:
		into.MandatoryDecisionGroups = from.MandatoryDecisionGroups
	}
	return after
}

// mandatoryOf are the groups that a strategy begins with; nil if it is of a kind that has none.
func mandatoryOf(s *clusterv1alpha1.RolloutStrategy) *clusterv1alpha1.MandatoryDecisionGroups {
	switch {
	case s.Type == clusterv1alpha1.Progressive && s.Progressive != nil:
		return &s.Progressive.MandatoryDecisionGroups
	case s.Type == clusterv1alpha1.ProgressivePerGroup && s.ProgressivePerGroup != nil:
		return &s.ProgressivePerGroup.MandatoryDecisionGroups
	}
	return nil
}

func atOnce() clusterv1alpha1.RolloutStrategy {
	return clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.All, All: &clusterv1alpha1.RolloutAll{}}
}

func namesOf(refs []workv1alpha1.LocalPlacementReference) []string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.Name)
	}
	return names
}

// cascade is what a set says of its deletion; nothing leaves it to its default, or to whoever else has said it.
func (t Target) cascade() workv1alpha1.CascadeDeletionPolicy {
	if t.Foreground {
		return workv1alpha1.Foreground
	}
	return ""
}
