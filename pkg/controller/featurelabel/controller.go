// Package featurelabel says in labels of a ManagedCluster which add-ons it has and how they are, so that placements can
// select by it (spec 1.3).
package featurelabel

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"

	"nave/pkg/reconcile"
)

const workers = 4

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Clusters         clusterclient.Interface
	ClusterInformers clusterinformers.SharedInformerFactory
	AddonInformers   addoninformers.SharedInformerFactory
}

// Controller keeps the labels of every cluster true to its add-ons.
type Controller struct {
	Config
	loop     *reconcile.Loop
	clusters clusterlisters.ManagedClusterLister
	addons   addonlisters.ManagedClusterAddOnLister
	synced   []cache.InformerSynced
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	addons := c.AddonInformers.Addon().V1alpha1().ManagedClusterAddOns()
	a := &Controller{Config: c, clusters: clusters.Lister(), addons: addons.Lister()}
	a.loop = reconcile.New("featurelabel", c.Log, workers, a.reconcile)
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		key      func(metav1.Object) string
	}{
		{clusters.Informer(), metav1.Object.GetName},
		{addons.Informer(), metav1.Object.GetNamespace},
	} {
		enqueue := func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(metav1.Object); ok {
				a.loop.Add(w.key(o))
			}
		}
		registration, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
		})
		if err != nil {
			return nil, fmt.Errorf("feature labels: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	return a.loop.Run(ctx)
}

func (a *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := a.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	addons, err := a.addons.ManagedClusterAddOns(name).List(labels.Everything())
	if err != nil {
		return 0, fmt.Errorf("add-ons of cluster %s: %w", name, err)
	}
	change := changes(mc, addons)
	if len(change) == 0 {
		return 0, nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"metadata": map[string]any{"labels": change}})
	if err != nil {
		return 0, err
	}
	_, err = a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("managed cluster %s: %w", name, err)
	}
	return 0, nil
}
