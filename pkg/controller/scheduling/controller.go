// Package scheduling keeps the decisions of placements in line with what they ask for (spec section 5). What a placement
// selects is decided by pkg/placement; this package knows the clusters, tells which placements a change can matter to, and
// writes as little as it can.
//
// A placement that is misconfigured keeps the decisions that it had: upstream empties them, and takes everything off the
// clusters that was placed with it (spec 10.2, C14). A set or a binding that is taken away does withdraw its clusters, since
// a binding is the permission to use them.
package scheduling

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	setlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
	"nave/pkg/reconcile"
)

// workers wait for the API server side by side; evaluations themselves come one after the other.
const workers = 4

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Kube             kubernetes.Interface // asked who may see what
	Clusters         clusterclient.Interface
	ClusterInformers clusterinformers.SharedInformerFactory
	Clock            clock.PassiveClock
	Events           Recorder
}

// Recorder writes an event about a placement.
type Recorder interface {
	Placement(p *clusterv1beta1.Placement, kind, reason, message string)
}

// Controller decides for all placements.
type Controller struct {
	Config
	loop     *reconcile.Loop
	enqueue  func(key string)
	compiler *placement.Compiler
	sets     setlisters.ManagedClusterSetLister
	bindings cache.Indexer
	synced   []cache.InformerSynced

	mu      sync.Mutex // of all below
	fleet   fleet
	targets map[string]*target    // by namespace/name
	scratch []placement.Candidate // of the evaluation that runs
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	informers := c.ClusterInformers.Cluster()
	a := &Controller{
		Config:   c,
		sets:     informers.V1beta2().ManagedClusterSets().Lister(),
		bindings: informers.V1beta2().ManagedClusterSetBindings().Informer().GetIndexer(),
		fleet:    fleet{byName: map[string]*member{}},
		targets:  map[string]*target{},
	}
	scores := informers.V1alpha1().AddOnPlacementScores().Lister()
	var err error
	a.compiler, err = placement.NewCompiler(func(cluster, name string) *clusterv1alpha1.AddOnPlacementScore {
		score, err := scores.AddOnPlacementScores(cluster).Get(name)
		if err != nil {
			return nil // a cache does not fail otherwise
		}
		return score
	})
	if err != nil {
		return nil, fmt.Errorf("placements: %w", err)
	}
	a.loop = reconcile.NewPaced("placement", c.Log, workers, pace, a.reconcile)
	a.enqueue = a.loop.Add
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		informers.V1().ManagedClusters().Informer():                reconcile.Handler(a.clusterChanged),
		informers.V1beta2().ManagedClusterSets().Informer():        reconcile.Handler(a.setChanged),
		informers.V1beta2().ManagedClusterSetBindings().Informer(): reconcile.Handler(a.bindingChanged),
		informers.V1beta1().Placements().Informer():                reconcile.Handler(a.placementChanged),
		informers.V1beta1().PlacementDecisions().Informer():        reconcile.Handler(a.decisionChanged),
		informers.V1alpha1().AddOnPlacementScores().Informer():     reconcile.Handler(a.scoreChanged),
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("placements: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

// isSynced tells whether everything is known.
func (c *Controller) isSynced() bool {
	return !slices.ContainsFunc(c.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Run works until ctx ends. It begins when everything is known: with some of the clusters it would drop the others.
func (c *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil
	}
	return c.loop.Run(ctx)
}
