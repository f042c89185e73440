package replicaset

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/replicas"
)

// selectionOf is what a placement selects, as far as informers know. Clusters that are being deleted are not in its groups any
// more, whatever the decisions still say: their works are taken away meanwhile, and would be made again.
func (c *Controller) selectionOf(namespace, name string) (replicas.Selection, error) {
	p, err := c.placements.Placements(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return replicas.SelectionOf(nil, nil), nil
	}
	if err != nil {
		return replicas.Selection{}, err
	}
	found, err := c.decisions.ByIndex(placementIndex, namespace+"/"+name)
	if err != nil {
		return replicas.Selection{}, err
	}
	var decisions []*clusterv1beta1.PlacementDecision
	for _, obj := range found {
		if d, ok := obj.(*clusterv1beta1.PlacementDecision); ok {
			decisions = append(decisions, d)
		}
	}
	s := replicas.SelectionOf(p, decisions)
	for i := range s.Groups {
		s.Groups[i].Clusters = slices.DeleteFunc(s.Groups[i].Clusters, c.leaves)
	}
	return s, nil
}

// leaves tells whether a cluster is being deleted.
func (c *Controller) leaves(cluster string) bool {
	mc, err := c.clusters.Get(cluster)
	return err == nil && mc.DeletionTimestamp != nil
}
