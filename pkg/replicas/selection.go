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
	Whole   bool // all decisions are there to be read: what is not among them is not selected
	Groups  []rollout.Group
	Total   int // clusters
}

// SelectionOf reads what a placement, nil if there is none, selects from the decisions that have its label. Those of a former
// placement of the same name do not count.
func SelectionOf(p *clusterv1beta1.Placement, decisions []*clusterv1beta1.PlacementDecision) Selection {
	if p == nil {
		return Selection{Missing: true}
	}
	var s Selection
	names := map[string]bool{}
	groups := map[int32]*rollout.Group{}
	for _, d := range decisions {
		if owner := metav1.GetControllerOf(d); owner != nil && owner.UID != p.UID {
			continue
		}
		names[d.Name] = true
		index := groupIndex(d)
		g := groups[index]
		if g == nil {
			g = &rollout.Group{Index: index, Name: d.Labels[clusterv1beta1.DecisionGroupNameLabel]}
			groups[index] = g
		}
		for _, decision := range d.Status.Decisions {
			if decision.ClusterName != "" {
				g.Clusters = append(g.Clusters, decision.ClusterName)
			}
		}
	}
	distinct := map[string]bool{}
	for _, g := range groups {
		s.Groups = append(s.Groups, *g)
		for _, cluster := range g.Clusters {
			distinct[cluster] = true
		}
	}
	slices.SortFunc(s.Groups, func(a, b rollout.Group) int { return cmp.Compare(a.Index, b.Index) })
	s.Total = len(distinct)
	s.Whole = whole(p, names, s.Total)
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

// whole tells whether the decisions of a placement are those that its status tells of: decisions and placement come by
// different ways. Whoever schedules it otherwise may not keep the status.
func whole(p *clusterv1beta1.Placement, names map[string]bool, total int) bool {
	if p.Annotations[clusterv1beta1.PlacementDisableAnnotation] == "true" {
		return len(names) > 0
	}
	if len(p.Status.Conditions) == 0 || int(p.Status.NumberOfSelectedClusters) != total {
		return false
	}
	for _, g := range p.Status.DecisionGroups {
		for _, name := range g.Decisions {
			if !names[name] {
				return false
			}
		}
	}
	return true
}
