package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
)

// crossings are works on their way: when each was sent, and when the hub said that it is applied.
type crossings struct {
	mu      sync.Mutex
	sent    map[string]time.Time
	arrived map[string]time.Time
	changed chan struct{} // holds one note that arrived has grown
}

// watchCrossings follows the works of the lab's cluster until ctx ends. It is an informer, since the hub ends watches of
// those who are too slow for it, and on two cores that may be anybody.
func watchCrossings(ctx context.Context, client workclient.Interface) (*crossings, error) {
	c := &crossings{sent: map[string]time.Time{}, arrived: map[string]time.Time{}, changed: make(chan struct{}, 1)}
	works := workinformers.NewSharedInformerFactoryWithOptions(client, 0, workinformers.WithNamespace(labCluster))
	informer := works.Work().V1().ManifestWorks().Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.saw, UpdateFunc: func(_, work any) { c.saw(work) }})
	if err != nil {
		return nil, fmt.Errorf("watch works: %w", err)
	}
	works.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil, fmt.Errorf("watch works: %w", ctx.Err())
	}
	return c, nil
}

func (c *crossings) saw(object any) {
	work, ok := object.(*workv1.ManifestWork)
	if !ok || !appliedAt(work, 1) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.arrived[work.Name]; known {
		return
	}
	c.arrived[work.Name] = time.Now()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// send creates a work; its time begins before the request does.
func (c *crossings) send(ctx context.Context, client workclient.Interface, work *workv1.ManifestWork) error {
	c.mu.Lock()
	c.sent[work.Name] = time.Now()
	c.mu.Unlock()
	if _, err := client.WorkV1().ManifestWorks(labCluster).Create(ctx, work, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create work %s: %w", work.Name, err)
	}
	return nil
}

// wait is until n works are applied, or ctx ends.
func (c *crossings) wait(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		got := len(c.arrived)
		c.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d works are applied: %w", got, n, ctx.Err())
		}
	}
}

// took is how long each work was on its way.
func (c *crossings) took() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []time.Duration
	for name, at := range c.arrived {
		all = append(all, at.Sub(c.sent[name]))
	}
	return all
}
