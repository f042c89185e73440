package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// decisionWatch is what a client knows of the decisions of all placements.
type decisionWatch struct {
	events watch.Interface
	// clusters by placement and PlacementDecision
	decided map[string]map[string]map[string]bool
}

func watchDecisions(ctx context.Context, clusters clusterclient.Interface) (*decisionWatch, error) {
	decisions := clusters.ClusterV1beta1().PlacementDecisions(placementNamespace)
	list, err := decisions.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	events, err := decisions.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watch decisions: %w", err)
	}
	w := &decisionWatch{events, map[string]map[string]map[string]bool{}}
	for i := range list.Items {
		w.set(&list.Items[i])
	}
	return w, nil
}

func (w *decisionWatch) stop() { w.events.Stop() }

func (w *decisionWatch) set(d *clusterv1beta1.PlacementDecision) {
	placement := d.Labels[clusterv1beta1.PlacementLabel]
	if w.decided[placement] == nil {
		w.decided[placement] = map[string]map[string]bool{}
	}
	clusters := make(map[string]bool, len(d.Status.Decisions))
	for _, decision := range d.Status.Decisions {
		clusters[decision.ClusterName] = true
	}
	w.decided[placement][d.Name] = clusters
}

// has tells whether a placement has selected a cluster.
func (w *decisionWatch) has(placement, cluster string) bool {
	for _, clusters := range w.decided[placement] {
		if clusters[cluster] {
			return true
		}
	}
	return false
}

// until takes events in until done says so.
func (w *decisionWatch) until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-w.events.ResultChan():
			if !ok {
				return errors.New("the watch has ended")
			}
			d, ok := event.Object.(*clusterv1beta1.PlacementDecision)
			switch {
			case !ok:
				return fmt.Errorf("the watch says %s: %v", event.Type, event.Object)
			case event.Type == watch.Deleted:
				delete(w.decided[d.Labels[clusterv1beta1.PlacementLabel]], d.Name)
			default:
				w.set(d)
			}
		}
	}
	return nil
}
