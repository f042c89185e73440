// Package simulator plays the nodes of a cluster: it keeps node objects ready and gives every pod the life that a scheduler
// and a kubelet would give it, without running anything. Pods are bound in turn, become ready at once, complete after a
// moment if they are of the kind that completes, and go when they are deleted.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"nave/pkg/reconcile"
)

const (
	// podWorkers is how many pods change at once. Each change is a request or two, and one machine serves them all.
	podWorkers = 8

	// maxNodes is bounded by the addresses: each node owns a /16 below 10.128.0.0/9, next to the service range.
	maxNodes = 100

	defaultCompletion = time.Second

	byIP = "ip" // index of pods by their address
)

// Config says what to play.
type Config struct {
	Log     logrus.FieldLogger
	Client  kubernetes.Interface // with rights over nodes, leases and pods, and without a narrow rate limit
	Cluster string               // precedes the number in the nodes' names
	Nodes   int                  // 1 to 100
	Clock   clock.WithTicker
	// Completion is how long a pod runs that is meant to end: one whose restart policy is not Always. If 0, a second:
	// long enough to be seen and short enough not to be waited for.
	Completion time.Duration
}

// Simulator plays the nodes of one cluster.
type Simulator struct {
	Config
	factory   informers.SharedInformerFactory
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	addresses cache.Indexer
	podLoop   *reconcile.Loop
	nodeLoop  *reconcile.Loop

	turn struct { // what the workers take from in turn
		sync.Mutex
		node    int
		address map[string]int // by node
	}
}

// New prepares a simulator.
func New(c Config) (*Simulator, error) {
	if c.Nodes < 1 || c.Nodes > maxNodes {
		return nil, fmt.Errorf("simulate %d nodes: only 1 to %d are possible", c.Nodes, maxNodes)
	}
	if c.Completion == 0 {
		c.Completion = defaultCompletion
	}
	s := &Simulator{Config: c, factory: informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(trim))}
	s.turn.address = map[string]int{}
	s.podLoop = reconcile.New("pods", c.Log, podWorkers, s.reconcilePod)
	s.nodeLoop = reconcile.New("nodes", c.Log, 1, s.reconcileNode)
	pods, nodes := s.factory.Core().V1().Pods(), s.factory.Core().V1().Nodes()
	s.pods, s.nodes, s.addresses = pods.Lister(), nodes.Lister(), pods.Informer().GetIndexer()
	if err := pods.Informer().AddIndexers(cache.Indexers{byIP: podIP}); err != nil {
		return nil, fmt.Errorf("simulate nodes: %w", err)
	}
	_, err := pods.Informer().AddEventHandler(keys(s.podLoop.Add))
	_, nodeErr := nodes.Informer().AddEventHandler(keys(func(string) { s.retryUnbound() }))
	if err := errors.Join(err, nodeErr); err != nil {
		return nil, fmt.Errorf("simulate nodes: %w", err)
	}
	return s, nil
}

// Run plays until ctx ends.
func (s *Simulator) Run(ctx context.Context) error {
	s.factory.Start(ctx.Done())
	defer s.factory.Shutdown()
	for kind, ok := range s.factory.WaitForCacheSync(ctx.Done()) {
		if !ok && ctx.Err() == nil {
			return fmt.Errorf("simulate nodes: no cache of %s", kind)
		}
	}
	for i := range s.Nodes {
		s.nodeLoop.Add(nodeName(s.Cluster, i))
	}
	var loops sync.WaitGroup
	loops.Go(func() { _ = s.nodeLoop.Run(ctx) }) // a loop returns an error only if it could not start
	loops.Go(func() { _ = s.podLoop.Run(ctx) })
	loops.Wait()
	return nil
}

// retryUnbound looks again at pods for which there was no node.
func (s *Simulator) retryUnbound() {
	pods, err := s.pods.List(labels.Everything())
	if err != nil {
		s.Log.WithError(err).Error("list pods in the cache")
		return
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			s.podLoop.Add(p.Namespace + "/" + p.Name)
		}
	}
}

// trim drops what nobody here reads and what takes the most room.
func trim(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func podIP(obj any) ([]string, error) {
	if p, ok := obj.(*corev1.Pod); ok && p.Status.PodIP != "" {
		return []string{p.Status.PodIP}, nil
	}
	return nil, nil
}

// keys calls add with the key of every object that appears or changes; what is gone needs nothing.
func keys(add func(string)) cache.ResourceEventHandler {
	handle := func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			add(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, obj any) { handle(obj) }}
}
