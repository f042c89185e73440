// Package work applies ManifestWorks to a managed cluster: it watches the hub for what is wanted and the cluster for what
// is there, and brings the two together at once when either changes (spec 4, design D7).
package work

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
	"nave/pkg/spoke/work/conditions"
	"nave/pkg/spoke/work/executor"
)

// workers apply different works at the same time.
const workers = 16

// Config is what the agent needs.
type Config struct {
	Log        logrus.FieldLogger
	Cluster    string // the managed cluster's name, and namespace on the hub
	HubServer  string // URL of the hub, for the names of AppliedManifestWorks
	Hub, Spoke *rest.Config
	Clusters   clusterinformers.ManagedClusterInformer // of the agent's own ManagedCluster; somebody else starts it
	AgentID    string                                  // of this installation; AppliedManifestWorks of others are left alone
	Settings   *live.Value[settings.Agent]
	Clock      clock.WithTicker
}

// Agent applies the works of one cluster.
type Agent struct {
	Config
	hubHash       string
	hubWorks      workv1client.ManifestWorkInterface
	appliedClient workv1client.AppliedManifestWorkInterface
	spoke         dynamic.Interface
	metadata      metadata.Interface
	mapper        *kinds
	watcher       *watcher
	collector     *collector
	rules         *conditions.Evaluator
	executor      *executor.Checker
	clusters      clusterlisters.ManagedClusterLister
	works         worklisters.ManifestWorkNamespaceLister
	applied       cache.Indexer // of AppliedManifestWorks
	loop          *reconcile.Loop
	pace          *pace
	start         []func(stop <-chan struct{})
	synced        []cache.InformerSynced

	inventories sync.Map // of AppliedManifestWorks, by uid
	newest      sync.Map // works as the hub last answered, by name, until the watch has brought them
	ended       sync.Map // names of works that were seen to be deleted on the hub
	unserved    sync.Map // names of works that wait for kinds that the cluster does not serve
}

// New prepares clients and informers.
func New(c Config) (*Agent, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	hub, err := workclient.NewForConfig(c.Hub)
	if err != nil {
		return nil, fmt.Errorf("client of the hub: %w", err)
	}
	spoke, err := newSpokeClients(c.Spoke)
	if err != nil {
		return nil, err
	}
	check, err := executor.New(executor.Config{Log: c.Log, Spoke: c.Spoke, Clock: c.Clock})
	if err != nil {
		return nil, fmt.Errorf("check of executors: %w", err)
	}
	registerMetrics()
	works := workinformers.NewSharedInformerFactoryWithOptions(hub, 0, workinformers.WithNamespace(c.Cluster), workinformers.WithTransform(withoutManagedFields))
	applied := workinformers.NewSharedInformerFactoryWithOptions(spoke.works, 0, workinformers.WithTransform(withoutManagedFields))
	a := &Agent{
		Config:        c,
		hubHash:       HubHash(c.HubServer),
		hubWorks:      hub.WorkV1().ManifestWorks(c.Cluster),
		appliedClient: spoke.works.WorkV1().AppliedManifestWorks(),
		spoke:         spoke.dynamic,
		metadata:      spoke.metadata,
		mapper:        newKinds(spoke.discovery, c.Clock),
		collector:     &collector{client: spoke.dynamic, clock: c.Clock},
		rules:         conditions.New(),
		executor:      check,
		clusters:      c.Clusters.Lister(),
		works:         works.Work().V1().ManifestWorks().Lister().ManifestWorks(c.Cluster),
		pace:          newPace(c.Clock),
		start:         []func(<-chan struct{}){works.Start, applied.Start},
		synced:        []cache.InformerSynced{c.Clusters.Informer().HasSynced},
	}
	a.watcher = newWatcher(spoke.metadata, c.Clock, a.changed, a.kindsChanged)
	a.loop = reconcile.New("work", c.Log, workers, a.reconcile)
	return a, a.listen(works.Work().V1().ManifestWorks().Informer(), applied.Work().V1().AppliedManifestWorks().Informer())
}

type spokeClients struct {
	works     *workclient.Clientset
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
}

func newSpokeClients(config *rest.Config) (*spokeClients, error) {
	var s spokeClients
	var errs [4]error
	s.works, errs[0] = workclient.NewForConfig(config)
	s.dynamic, errs[1] = dynamic.NewForConfig(config)
	s.metadata, errs[2] = metadata.NewForConfig(config)
	s.discovery, errs[3] = discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("clients of the managed cluster: %w", err)
	}
	return &s, nil
}

func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// Run applies works until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	a.watcher.start(ctx)
	for _, start := range a.start {
		start(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() { a.followSettings(ctx) })
	running.Go(func() { _ = a.executor.Run(ctx, a.permissionsChanged) }) // it ends with ctx
	err := a.loop.Run(ctx)
	running.Wait()
	return err
}

// permissionsChanged looks again at works that are applied with an executor's rights.
func (a *Agent) permissionsChanged() {
	all, err := a.works.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, work := range all {
		if work.Spec.Executor != nil {
			a.loop.Add(work.Name)
		}
	}
}

// followSettings looks again at what waits to be evicted when it may have to wait otherwise, and at everything when other
// things are to be reported.
func (a *Agent) followSettings(ctx context.Context) {
	before, changed := a.Settings.Watch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		var now settings.Agent
		now, changed = a.Settings.Watch()
		for _, obj := range a.applied.List() {
			amw := obj.(*workv1.AppliedManifestWork)
			if reportsOtherwise(before, now) || amw.Status.EvictionStartTime != nil {
				a.loop.Add(amw.Spec.ManifestWorkName)
			}
		}
		before = now
	}
}
