// Package cleanup empties a managed cluster before it goes: first its add-ons, whose agents may need their works to clean
// up after themselves, then its works, and only then the cluster (spec 1.4). A cluster whose agent will never do its part
// is let go when somebody says so, or after a time that the hub's settings set.
package cleanup

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const workers = 4

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Kube             kubernetes.Interface
	Clusters         clusterclient.Interface
	Addons           addonclient.Interface
	Works            workclient.Interface
	KubeInformers    informers.SharedInformerFactory
	ClusterInformers clusterinformers.SharedInformerFactory
	AddonInformers   addoninformers.SharedInformerFactory
	WorkInformers    workinformers.SharedInformerFactory
	Settings         *live.Value[settings.Hub]
	Clock            clock.PassiveClock
	Events           Recorder
}

// Recorder writes an event about a cluster into its namespace.
type Recorder interface {
	Cluster(name, kind, reason, message string)
}

// Controller empties clusters that are being deleted, and the namespaces of those that are gone.
type Controller struct {
	Config
	loop       *reconcile.Loop
	clusters   clusterlisters.ManagedClusterLister
	addons     addonlisters.ManagedClusterAddOnLister
	works      worklisters.ManifestWorkLister
	namespaces corelisters.NamespaceLister
	synced     []cache.InformerSynced
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	addons := c.AddonInformers.Addon().V1alpha1().ManagedClusterAddOns()
	works := c.WorkInformers.Work().V1().ManifestWorks()
	namespaces := c.KubeInformers.Core().V1().Namespaces()
	a := &Controller{Config: c, clusters: clusters.Lister(), addons: addons.Lister(), works: works.Lister(), namespaces: namespaces.Lister()}
	a.loop = reconcile.New("cleanup", c.Log, workers, a.reconcile)
	byName, byNamespace := a.enqueue(metav1.Object.GetName), a.enqueue(metav1.Object.GetNamespace)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		clusters.Informer(): {AddFunc: byName, UpdateFunc: func(_, obj any) { byName(obj) }, DeleteFunc: byName},
		addons.Informer():   {DeleteFunc: byNamespace},
		works.Informer():    {DeleteFunc: byNamespace},
		// At a start, these are how a cluster shows that was removed by force while no hub ran.
		namespaces.Informer(): {AddFunc: a.enqueue(ownNamespace)},
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("cleanup: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

// ownNamespace is the cluster whose own a namespace is, or nothing.
func ownNamespace(o metav1.Object) string {
	if cluster := o.GetLabels()[identity.ClusterNameLabel]; cluster == o.GetName() {
		return cluster
	}
	return ""
}

func (a *Controller) enqueue(key func(metav1.Object) string) func(any) {
	return func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(metav1.Object); ok && key(o) != "" {
			a.loop.Add(key(o))
		}
	}
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	return a.loop.Run(ctx)
}
