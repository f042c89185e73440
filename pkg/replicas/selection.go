package replicas

import (
	"cmp"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
)

// RefsOf are the placements that a set goes by. One that is named twice counts once, as it is named first.
func RefsOf(set *workv1alpha1.ManifestWorkReplicaSet) []workv1alpha1.LocalPlacementReference {
	var refs []workv1alpha1.LocalPlacementReference
	for _, ref := range set.Spec.PlacementRefs {
		if !slices.ContainsFunc(refs, func(r workv1alpha1.LocalPlacementReference) bool { return r.Name == ref.Name }) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Selection is what a placement selects.
type Selection struct {
	Missing bool // there is no such placement
	Whole   bool // all decisions are there to be read: only then are the others known not to be selected, and is it known who goes first
	Groups  []rollout.Group
	Total   int // clusters
}

// SelectionOf reads what a placement, nil if there is none, selects from the decisions that have its label. Those of a former
// placement of the same name do not count.
func SelectionOf(p *clusterv1beta1.Placement, decisions []*clusterv1beta1.PlacementDecision) Selection {
	if p == nil {
		return Selection{Missing: true}
	}
	decisions = slices.DeleteFunc(slices.Clone(decisions), func(d *clusterv1beta1.PlacementDecision) bool {
		owner := metav1.GetControllerOf(d)
		return owner != nil && owner.UID != p.UID
	})
	groups := map[int32]*rollout.Group{}
	for _, d := range decisions {
		index := groupIndex(d)
		g := groups[index]
		if g == nil {
			g = &rollout.Group{Index: index, Name: groupName(d)}
			groups[index] = g
		}
		for _, decision := range d.Status.Decisions {
			if decision.ClusterName != "" {
				g.Clusters = append(g.Clusters, decision.ClusterName)
			}
		}
	}
	var s Selection
	distinct := map[string]bool{}
	for _, g := range groups {
		s.Groups = append(s.Groups, *g)
		for _, cluster := range g.Clusters {
			distinct[cluster] = true
		}
	}
	slices.SortFunc(s.Groups, func(a, b rollout.Group) int { return cmp.Compare(a.Index, b.Index) })
	s.Total = len(distinct)
	s.Whole = s.whole(p, decisions)
	return s
}

// groupIndex is the decision group of a decision. One that does not say is in the first, as upstream's clients read it.
func groupIndex(d *clusterv1beta1.PlacementDecision) int32 {
	index, err := strconv.ParseInt(d.Labels[clusterv1beta1.DecisionGroupIndexLabel], 10, 32)
	if err != nil {
		return 0
	}
	return int32(index)
}

func groupName(d *clusterv1beta1.PlacementDecision) string {
	return d.Labels[clusterv1beta1.DecisionGroupNameLabel]
}

// whole tells whether decisions are those that the status of their placement tells of, in the groups that it tells of:
// decisions and placement come by different ways, and a decision that is missing may be that of the group that goes first.
// Whoever schedules a placement otherwise may not keep its status.
func (s *Selection) whole(p *clusterv1beta1.Placement, decisions []*clusterv1beta1.PlacementDecision) bool {
	if p.Annotations[clusterv1beta1.PlacementDisableAnnotation] == "true" {
		return len(decisions) > 0
	}
	if len(p.Status.Conditions) == 0 || int(p.Status.NumberOfSelectedClusters) != s.Total || len(p.Status.DecisionGroups) != len(s.Groups) {
		return false
	}
	type place struct {
		index int32
		group string
	}
	told := map[string]place{}
	for i, g := range p.Status.DecisionGroups {
		if s.Groups[i].Index != g.DecisionGroupIndex || len(s.Groups[i].Clusters) != int(g.ClustersCount) {
			return false
		}
		for _, name := range g.Decisions {
			told[name] = place{g.DecisionGroupIndex, g.DecisionGroupName}
		}
	}
	return len(told) == len(decisions) && !slices.ContainsFunc(decisions, func(d *clusterv1beta1.PlacementDecision) bool {
		at, ok := told[d.Name]
		return !ok || at != place{groupIndex(d), groupName(d)}
	})
}
