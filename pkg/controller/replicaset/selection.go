package replicaset

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/replicas"
)

// selectionOf is what a placement selects, as far as informers know.
func (c *Controller) selectionOf(namespace, name string) (replicas.Selection, error) {
	p, err := c.placements.Placements(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return replicas.SelectionOf(nil, nil), nil
	}
	if err != nil {
		return replicas.Selection{}, err
	}
	found, err := c.decisions.ByIndex(byPlacement, namespace+"/"+name)
	if err != nil {
		return replicas.Selection{}, err
	}
	var decisions []*clusterv1beta1.PlacementDecision
	for _, obj := range found {
		if d, ok := obj.(*clusterv1beta1.PlacementDecision); ok {
			decisions = append(decisions, d)
		}
	}
	return replicas.SelectionOf(p, decisions), nil
}
