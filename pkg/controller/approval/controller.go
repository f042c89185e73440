// Package approval decides without a person what needs none: it approves the signing requests that an agent makes for its
// own certificate and for its cluster's add-ons, and accepts, once, the clusters that joined with a token that says so or
// that a listed user made. All others wait for a person (spec 1.2, 1.5).
//
// A request is looked at whenever it or its cluster or an add-on of its cluster changes, so it depends on what is and not
// on the order in which it came to be.
package approval

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const (
	// workers handle different requests or clusters side by side; each costs a few calls.
	workers = 4

	// byCluster is the index of undecided requests by the cluster that they are labelled with.
	byCluster = "nave.dev/undecided-by-cluster"
)

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Kube             kubernetes.Interface
	Clusters         clusterclient.Interface
	KubeInformers    informers.SharedInformerFactory
	ClusterInformers clusterinformers.SharedInformerFactory
	AddonInformers   addoninformers.SharedInformerFactory
	Settings         *live.Value[settings.Hub]
	Clock            clock.PassiveClock
}

// Controller accepts clusters and approves requests.
type Controller struct {
	Config
	accepting *reconcile.Loop // keys are clusters
	approving *reconcile.Loop // keys are signing requests
	requests  certificateslisters.CertificateSigningRequestLister
	undecided cache.Indexer
	clusters  clusterlisters.ManagedClusterLister
	addons    addonlisters.ManagedClusterAddOnLister
	synced    []cache.InformerSynced
}

// New registers for everything that a decision depends on.
func New(c Config) (*Controller, error) {
	requests := c.KubeInformers.Certificates().V1().CertificateSigningRequests()
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	addons := c.AddonInformers.Addon().V1alpha1().ManagedClusterAddOns()
	a := &Controller{Config: c, requests: requests.Lister(), clusters: clusters.Lister(), addons: addons.Lister()}
	a.accepting = reconcile.New("accepting", c.Log, workers, a.reconcileCluster)
	a.approving = reconcile.New("approving", c.Log, workers, a.reconcileRequest)
	if err := requests.Informer().AddIndexers(cache.Indexers{byCluster: undecidedCluster}); err != nil {
		return nil, fmt.Errorf("approval: index signing requests: %w", err)
	}
	a.undecided = requests.Informer().GetIndexer()
	return a, errors.Join(
		a.on(requests.Informer(), "signing requests", func(obj any) {
			if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && !decided(csr) {
				a.approving.Add(csr.Name)
			}
		}),
		a.on(clusters.Informer(), "managed clusters", func(obj any) {
			if mc, ok := obj.(*clusterv1.ManagedCluster); ok {
				a.accepting.Add(mc.Name)
				a.reconsider(mc.Name)
			}
		}),
		a.on(addons.Informer(), "add-ons of clusters", func(obj any) {
			if mca, ok := obj.(*addonv1alpha1.ManagedClusterAddOn); ok {
				a.reconsider(mca.Namespace)
			}
		}),
	)
}

func (a *Controller) on(informer cache.SharedIndexInformer, what string, handle func(obj any)) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, obj any) { handle(obj) }})
	if err != nil {
		return fmt.Errorf("approval: watch %s: %w", what, err)
	}
	a.synced = append(a.synced, registration.HasSynced)
	return nil
}

func undecidedCluster(obj any) ([]string, error) {
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok || decided(csr) || csr.Labels[identity.ClusterNameLabel] == "" {
		return nil, nil
	}
	return []string{csr.Labels[identity.ClusterNameLabel]}, nil
}

// reconsider looks again at what waits for a cluster.
func (a *Controller) reconsider(cluster string) {
	names, err := a.undecided.IndexKeys(byCluster, cluster)
	if err != nil {
		a.Log.WithError(err).Error("undecided signing requests cannot be found") // only without the index that New makes
		return
	}
	for _, name := range names {
		a.approving.Add(name)
	}
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() { a.followSettings(ctx) })
	var errs [2]error
	running.Go(func() { errs[0] = a.accepting.Run(ctx) })
	running.Go(func() { errs[1] = a.approving.Run(ctx) })
	running.Wait()
	return errors.Join(errs[:]...)
}

// followSettings looks again at everything when it may be decided otherwise.
func (a *Controller) followSettings(ctx context.Context) {
	_, changed := a.Settings.Watch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		_, changed = a.Settings.Watch()
		clusters, err := a.clusters.List(labels.Everything())
		if err != nil {
			a.Log.WithError(err).Error("managed clusters cannot be listed")
			continue
		}
		for _, mc := range clusters {
			a.accepting.Add(mc.Name)
			a.reconsider(mc.Name)
		}
	}
}
