package clusterset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/membership"
	"nave/pkg/reconcile"
)

// setUpdated leaves clusters and bindings alone when only the status of a set has changed, as it does whenever a cluster
// joins; else it also looks at the clusters that the set had before.
func (a *Controller) setUpdated(before, after any) {
	old, set := before.(*clusterv1beta2.ManagedClusterSet), after.(*clusterv1beta2.ManagedClusterSet)
	if equality.Semantic.DeepEqual(old.Spec, set.Spec) && (old.DeletionTimestamp == nil) == (set.DeletionTimestamp == nil) {
		a.sets.Add(set.Name)
		return
	}
	if len(old.Spec.ManagedNamespaces) > 0 {
		a.addClustersOf(old)
	}
	a.setChanged(set)
}

func (a *Controller) addClustersOf(set *clusterv1beta2.ManagedClusterSet) {
	clusters, err := a.clusterLister.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, mc := range clusters {
		if membership.Contains(set, mc) {
			a.namespaces.Add(mc.Name)
		}
	}
}

// reconcileNamespaces tells a cluster which namespaces its sets want on it (spec 1.7).
func (a *Controller) reconcileNamespaces(ctx context.Context, name string) (time.Duration, error) {
	mc, err := a.clusterLister.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	sets, err := a.setLister.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	wanted := managedNamespaces(mc, sets)
	if equality.Semantic.DeepEqual(wanted, mc.Status.ManagedNamespaces) {
		return 0, nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"status": map[string]any{"managedNamespaces": wanted}})
	if err != nil {
		return 0, err
	}
	if _, err := a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return 0, about(err, "managed cluster", name)
	}
	a.Events.Cluster(name, corev1.EventTypeNormal, "ManagedNamespacesUpdated", fmt.Sprintf("The sets of the managed cluster want %d namespaces on it.", len(wanted)))
	return 0, nil
}

// managedNamespaces are those of the cluster's sets, by set and then name. What the agent says of one is kept as long as it
// is wanted (spec 10.2, C22).
func managedNamespaces(mc *clusterv1.ManagedCluster, sets []*clusterv1beta2.ManagedClusterSet) []clusterv1.ClusterSetManagedNamespaceConfig {
	type key struct{ set, name string }
	said := map[key][]metav1.Condition{}
	for _, n := range mc.Status.ManagedNamespaces {
		said[key{n.ClusterSet, n.Name}] = n.Conditions
	}
	var all []clusterv1.ClusterSetManagedNamespaceConfig
	for _, set := range sets {
		if set.DeletionTimestamp != nil || !membership.Contains(set, mc) {
			continue
		}
		for _, n := range set.Spec.ManagedNamespaces {
			all = append(all, clusterv1.ClusterSetManagedNamespaceConfig{ManagedNamespaceConfig: n, ClusterSet: set.Name, Conditions: said[key{set.Name, n.Name}]})
		}
	}
	slices.SortFunc(all, func(x, y clusterv1.ClusterSetManagedNamespaceConfig) int {
		return cmp.Or(cmp.Compare(x.ClusterSet, y.ClusterSet), cmp.Compare(x.Name, y.Name))
	})
	return all
}
