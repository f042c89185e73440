// Package replicaset brings the content of ManifestWorkReplicaSets to the clusters that their placements select: a work for
// each, in the order and at the pace of the rollout strategy (spec 3.2 and 3.3). When a cluster gets new content is decided by
// pkg/rollout, and what a work's conditions say of its success by pkg/replicas; this package knows the works, and writes.
//
// What is not selected any more is taken away whatever its state (spec 10.2, C1). But a placement that is missing, or whose
// decisions are not all there to be read, takes nothing away from anybody (C15).
package replicaset

import (
	"context"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	managedlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/replicas"
	"nave/pkg/settings"
)

// workers handle different sets side by side.
const workers = 4

// Config is what the controller needs. The hub starts the informers; of works they keep at least what Keep says.
type Config struct {
	Log              logrus.FieldLogger
	Works            workclient.Interface
	WorkInformers    workinformers.SharedInformerFactory
	ClusterInformers clusterinformers.SharedInformerFactory
	Settings         *live.Value[settings.Hub]
	Clock            clock.PassiveClock
}

// Controller rolls out all sets.
type Controller struct {
	Config
	loop       *reconcile.Loop
	enqueue    func(value string)
	clusters   managedlisters.ManagedClusterLister
	placements clusterlisters.PlacementLister
	decisions  cache.Indexer
	synced     []cache.InformerSynced

	mu     sync.Mutex        // of all below
	states map[string]*state // by the value of replicas.SetLabel
}

// placementIndex is an index of PlacementDecisions: namespace/name of their placement.
const placementIndex = "placement"

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	works, clusters, managed := c.WorkInformers.Work(), c.ClusterInformers.Cluster().V1beta1(), c.ClusterInformers.Cluster().V1().ManagedClusters()
	a := &Controller{
		Config:     c,
		clusters:   managed.Lister(),
		placements: clusters.Placements().Lister(),
		decisions:  clusters.PlacementDecisions().Informer().GetIndexer(),
		states:     map[string]*state{},
		synced:     []cache.InformerSynced{managed.Informer().HasSynced},
	}
	a.loop = reconcile.NewPaced("replicaset", c.Log, workers, pace, a.reconcile)
	a.enqueue = a.loop.Add
	if err := clusters.PlacementDecisions().Informer().AddIndexers(cache.Indexers{placementIndex: placementKey}); err != nil {
		return nil, fmt.Errorf("replica sets: index of decisions: %w", err)
	}
	for _, watch := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{works.V1alpha1().ManifestWorkReplicaSets().Informer(), reconcile.Handler(a.setChanged)},
		{works.V1().ManifestWorks().Informer(), reconcile.Handler(a.workChanged)},
		{clusters.Placements().Informer(), reconcile.Handler(a.placementChanged)},
		{clusters.PlacementDecisions().Informer(), reconcile.Handler(a.decisionChanged)},
	} {
		registration, err := watch.informer.AddEventHandler(watch.handler)
		if err != nil {
			return nil, fmt.Errorf("replica sets: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

// placementKey is the value in the index.
func placementKey(obj any) ([]string, error) {
	d, ok := obj.(*clusterv1beta1.PlacementDecision)
	if !ok || d.Labels[clusterv1beta1.PlacementLabel] == "" {
		return nil, nil
	}
	return []string{d.Namespace + "/" + d.Labels[clusterv1beta1.PlacementLabel]}, nil
}

// Run works until ctx ends. It begins when everything is known: what is not known yet would be created twice, or removed.
func (c *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.loop.Run(ctx) })
	group.Go(func() error { return c.followGate(ctx) })
	return group.Wait()
}

// followGate looks at all sets again when settings change.
func (c *Controller) followGate(ctx context.Context) error {
	for {
		_, changed := c.Settings.Watch()
		c.mu.Lock()
		for value := range c.states {
			c.enqueue(value)
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (c *Controller) switchedOff() bool {
	return c.Settings.Get().Features.SwitchedOff(feature.ManifestWorkReplicaSet)
}

func (c *Controller) setChanged(before, after *workv1alpha1.ManifestWorkReplicaSet) {
	set := after
	if after == nil {
		set = before
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	value := replicas.SetValue(set.Namespace, set.Name)
	s := c.state(value)
	if after != nil {
		if s.take(after) {
			c.enqueue(value)
		}
		return
	}
	if s.object != nil && s.object.UID == before.UID {
		s.object = nil
	}
	c.drop(value, s)
}

func (c *Controller) workChanged(before, after *workv1.ManifestWork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != nil && (after == nil || before.Labels[replicas.SetLabel] != after.Labels[replicas.SetLabel]) {
		c.forget(before, after)
	}
	if after != nil {
		if value := after.Labels[replicas.SetLabel]; value != "" && c.state(value).see(after) {
			c.enqueue(value)
		}
	}
}

// forget takes notice that a work is gone, or is of this set no more.
func (c *Controller) forget(work, latest *workv1.ManifestWork) {
	value := work.Labels[replicas.SetLabel]
	s := c.states[value]
	if s == nil {
		return
	}
	gone := latest == nil
	if gone {
		latest = work
	}
	if s.unsee(latest, gone) {
		c.enqueue(value)
	}
	c.drop(value, s)
}

func (c *Controller) placementChanged(before, after *clusterv1beta1.Placement) {
	if after == nil {
		after = before
	}
	c.selectionChanged(after.Namespace, after.Name)
}

func (c *Controller) decisionChanged(before, after *clusterv1beta1.PlacementDecision) {
	for _, d := range []*clusterv1beta1.PlacementDecision{before, after} {
		if d != nil {
			c.selectionChanged(d.Namespace, d.Labels[clusterv1beta1.PlacementLabel])
		}
	}
}

// selectionChanged looks again at the sets that go by a placement.
func (c *Controller) selectionChanged(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for value, s := range c.states {
		if s.object == nil || s.object.Namespace != namespace {
			continue
		}
		for _, ref := range s.object.Spec.PlacementRefs {
			if ref.Name == name {
				c.enqueue(value)
				break
			}
		}
	}
}

func (c *Controller) state(value string) *state {
	s := c.states[value]
	if s == nil {
		s = &state{works: map[string]*record{}}
		c.states[value] = s
	}
	return s
}

// drop forgets a set once neither it nor works of it are there.
func (c *Controller) drop(value string, s *state) {
	if s.object == nil && len(s.works) == 0 {
		delete(c.states, value)
	}
}
