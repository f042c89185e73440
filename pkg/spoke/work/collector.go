package work

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
)

const (
	// collectorLease is held by the controller manager that has the garbage collector, where several could be the one.
	collectorLease = "kube-controller-manager"
	// collectorTrace is what a controller manager puts into each namespace, and an API server alone does not.
	collectorTrace = "kube-root-ca.crt"

	// collectorSilent is after how long without a sign of life the holder of the lease counts as gone.
	collectorSilent = time.Minute
	// collectorEvery is how often it is looked for.
	collectorEvery = 30 * time.Second
	// collectorPatience is how long an object may wait for the garbage collector before it is deleted without it.
	collectorPatience = 2 * time.Minute
)

// collector knows whether the cluster has a garbage collector. Without one, an object that is deleted in the foreground stays
// for ever: an API server alone is a cluster that a work may be sent to.
type collector struct {
	client dynamic.Interface
	clock  clock.PassiveClock

	mu    sync.Mutex
	asked time.Time
	there bool
}

// present tells whether somebody collects garbage. Where that may not be read, nobody does as far as anyone can tell.
func (c *collector) present(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); c.asked.IsZero() || now.Sub(c.asked) >= collectorEvery {
		c.asked, c.there = now, c.look(ctx)
	}
	return c.there
}

func (c *collector) look(ctx context.Context) bool {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	lease, err := c.client.Resource(leases).Namespace(metav1.NamespaceSystem).Get(ctx, collectorLease, metav1.GetOptions{})
	if err == nil {
		return c.alive(lease)
	}
	if !apierrors.IsNotFound(err) {
		return false
	}
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	_, err = c.client.Resource(maps).Namespace(metav1.NamespaceSystem).Get(ctx, collectorTrace, metav1.GetOptions{})
	return err == nil
}

func (c *collector) alive(raw *unstructured.Unstructured) bool {
	var lease coordinationv1.Lease
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &lease); err != nil || lease.Spec.RenewTime == nil {
		return false
	}
	return c.clock.Since(lease.Spec.RenewTime.Time) < collectorSilent
}
