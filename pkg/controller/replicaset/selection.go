package replicaset

import (
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/rollout"
)

// selection is what a placement selects.
type selection struct {
	missing bool // there is no such placement
	whole   bool // all decisions are there to be read: what is not among them is not selected
	groups  []rollout.Group
	total   int // clusters
}

// selectionOf reads the decisions of a placement. Decisions and placement come by different ways, and decisions of a former
// placement of the same name may still be there: only when they are those that the status tells of can it be said who is not
// selected any more.
func (c *Controller) selectionOf(namespace, name string) (selection, error) {
	p, err := c.placements.Placements(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return selection{missing: true}, nil
	}
	if err != nil {
		return selection{}, err
	}
	found, err := c.decisions.ByIndex(byPlacement, namespace+"/"+name)
	if err != nil {
		return selection{}, err
	}
	var s selection
	names := map[string]bool{}
	groups := map[int32]*rollout.Group{}
	for _, obj := range found {
		d, ok := obj.(*clusterv1beta1.PlacementDecision)
		if owner := metav1.GetControllerOf(d); !ok || owner != nil && owner.UID != p.UID {
			continue
		}
		names[d.Name] = true
		index, err := strconv.ParseInt(d.Labels[clusterv1beta1.DecisionGroupIndexLabel], 10, 32)
		if err != nil {
			index = 0 // without a group, as upstream's clients read it
		}
		g := groups[int32(index)]
		if g == nil {
			g = &rollout.Group{Index: int32(index), Name: d.Labels[clusterv1beta1.DecisionGroupNameLabel]}
			groups[g.Index] = g
		}
		for _, decision := range d.Status.Decisions {
			if decision.ClusterName != "" {
				g.Clusters = append(g.Clusters, decision.ClusterName)
			}
		}
	}
	distinct := map[string]bool{}
	for _, g := range groups {
		s.groups = append(s.groups, *g)
		for _, cluster := range g.Clusters {
			distinct[cluster] = true
		}
	}
	slices.SortFunc(s.groups, func(a, b rollout.Group) int { return int(a.Index) - int(b.Index) })
	s.total = len(distinct)
	s.whole = whole(p, names, s.total)
	return s, nil
}

// whole tells whether the decisions of a placement are those that its status tells of. Whoever schedules it otherwise may not
// keep the status.
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
