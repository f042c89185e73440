// Package clusterstatus reports to the hub how the managed cluster is: joined, available, its version, what its nodes
// offer, and its claims (spec 2.4).
package clusterstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	hubinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	claimlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1alpha1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const (
	// failingPeriod is how often the API server's health is looked at while it is bad, and failingGrace how long it has to
	// be bad before the hub is told.
	failingPeriod = 5 * time.Second
	failingGrace  = 20 * time.Second
	// minPeriod is how often the cluster is looked at at most when nothing happens, whatever the settings say.
	minPeriod = time.Second
	// healthTimeout bounds one look.
	healthTimeout = 5 * time.Second
	// gather is how long events of nodes and claims are collected before one report.
	gather = 100 * time.Millisecond
)

// Config is what the reporter needs.
type Config struct {
	Log      logrus.FieldLogger
	Cluster  string
	Hub      clusterclient.Interface
	Clusters hubinformers.ManagedClusterInformer // of the agent's own cluster alone
	Spoke    *rest.Config
	Settings *live.Value[settings.Agent] // gates ClusterClaim and ClusterProperty, limits, how often to look
	Events   Recorder
	Clock    clock.PassiveClock
}

// Recorder writes events about the agent's cluster on the hub.
type Recorder interface {
	Cluster(kind, reason, message string)
}

// Reporter writes the status of one cluster.
type Reporter struct {
	Config
	loop     *reconcile.Loop
	kube     *kubernetes.Clientset
	clusters clusterlisters.ManagedClusterLister
	nodes    corelisters.NodeLister
	claims   claimlisters.ClusterClaimLister
	about    *properties
	start    []func(stop <-chan struct{})
	synced   []cache.InformerSynced

	// What follows is used by the one worker alone.
	failingSince time.Time // zero while the API server is well
	clockApart   bool      // it has been told that the clock is wrong
	warned       []warning // last told about claims
}

// New prepares the informers of the managed cluster.
func New(c Config) (*Reporter, error) {
	kube, err := kubernetes.NewForConfig(c.Spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	spokeClusters, err := clusterclient.NewForConfig(c.Spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	nodes := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(withoutDetails))
	claims := clusterinformers.NewSharedInformerFactory(spokeClusters, 0)
	r := &Reporter{
		Config:   c,
		kube:     kube,
		clusters: c.Clusters.Lister(),
		nodes:    nodes.Core().V1().Nodes().Lister(),
		claims:   claims.Cluster().V1alpha1().ClusterClaims().Lister(),
		start:    []func(<-chan struct{}){nodes.Start, claims.Start},
	}
	r.loop = reconcile.New("clusterstatus", c.Log, 1, r.reconcile)
	soon := func(any) { r.loop.AddAfter(c.Cluster, gather) }
	if r.about, err = newProperties(c.Spoke, r.propertiesEnabled, func() { soon(nil) }); err != nil {
		return nil, err
	}
	r.synced = append(r.synced, r.about.definition.HasSynced)
	atOnce := func(any) { r.loop.Add(c.Cluster) }
	for informer, add := range map[cache.SharedIndexInformer]func(any){
		c.Clusters.Informer():                                  atOnce,
		nodes.Core().V1().Nodes().Informer():                   soon,
		claims.Cluster().V1alpha1().ClusterClaims().Informer(): soon,
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add})
		if err != nil {
			return nil, fmt.Errorf("cluster status: watch: %w", err)
		}
		r.synced = append(r.synced, registration.HasSynced)
	}
	return r, nil
}

// withoutDetails keeps of a node what is added up. Heartbeats of nodes change their conditions every few minutes; without
// those a node's update looks like the one before.
func withoutDetails(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status:     corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}, nil
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	for _, start := range r.start {
		start(ctx.Done())
	}
	if err := r.about.start(ctx); err != nil {
		return err
	}
	var settings sync.WaitGroup
	settings.Go(func() { r.watchSettings(ctx) })
	defer func() { settings.Wait(); r.about.wait() }()
	if !cache.WaitForCacheSync(ctx.Done(), r.synced...) {
		return nil
	}
	return r.loop.Run(ctx)
}

// watchSettings reports again when the settings change, until ctx ends.
func (r *Reporter) watchSettings(ctx context.Context) {
	for {
		_, changed := r.Settings.Watch()
		select {
		case <-ctx.Done():
			return
		case <-changed:
			r.about.update(ctx)
			r.loop.Add(r.Config.Cluster)
		}
	}
}

func (r *Reporter) propertiesEnabled() bool {
	return r.Settings.Get().Features.Enabled(feature.ClusterProperty, feature.DefaultSpokeRegistrationFeatureGates)
}
