// Package managednamespace keeps the namespaces on the managed cluster that the cluster's sets want there (spec 2.4). What is
// in a namespace is people's, so one that is no longer wanted is only marked, never deleted.
package managednamespace

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	hubinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/reconcile"
)

// Config is what the loop needs. Whoever makes the informer of clusters starts it.
type Config struct {
	Log      logrus.FieldLogger
	Cluster  string
	Server   string // URL of the hub; namespaces of several hubs are told apart by it
	Hub      clusterclient.Interface
	Clusters hubinformers.ManagedClusterInformer // of the agent's own cluster alone
	Spoke    kubernetes.Interface
}

// Controller keeps the namespaces.
type Controller struct {
	Config
	label      string
	loop       *reconcile.Loop
	clusters   clusterlisters.ManagedClusterLister
	namespaces corelisters.NamespaceLister // those with the label
	start      func(stop <-chan struct{})
	synced     []cache.InformerSynced
}

// New registers for the cluster's own object, and for the namespaces that are or were wanted.
func New(c Config) (*Controller, error) {
	m := &Controller{Config: c, label: labelOf(c.Server), clusters: c.Clusters.Lister()}
	m.loop = reconcile.New("managednamespace", c.Log, 1, m.reconcile)
	marked := informers.NewSharedInformerFactoryWithOptions(c.Spoke, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = m.label }), informers.WithTransform(withoutDetails))
	namespaces := marked.Core().V1().Namespaces()
	m.namespaces, m.start = namespaces.Lister(), marked.Start

	changed := func(any) { m.loop.Add(c.Cluster) }
	own, err := c.Clusters.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed,
		UpdateFunc: func(before, after any) {
			if served(before) != served(after) || !equality.Semantic.DeepEqual(listed(before), listed(after)) {
				changed(after)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch cluster %s: %w", c.Cluster, err)
	}
	ofNamespaces, err := namespaces.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed,
	})
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	m.synced = []cache.InformerSynced{own.HasSynced, ofNamespaces.HasSynced}
	return m, nil
}

// withoutDetails keeps of a namespace what is looked at.
func withoutDetails(obj any) (any, error) {
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.ManagedFields, ns.Annotations = nil, nil
	}
	return obj, nil
}

func listed(obj any) []clusterv1.ClusterSetManagedNamespaceConfig {
	if mc, ok := obj.(*clusterv1.ManagedCluster); ok {
		return mc.Status.ManagedNamespaces
	}
	return nil
}

// served tells whether namespaces are made and reported; those of a cluster that is about to leave the hub are not.
func served(obj any) bool {
	mc, ok := obj.(*clusterv1.ManagedCluster)
	return ok && mc.DeletionTimestamp == nil && !clockApart(mc)
}

// Run works until ctx ends.
func (m *Controller) Run(ctx context.Context) error {
	m.start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), m.synced...) {
		return nil
	}
	return m.loop.Run(ctx)
}
