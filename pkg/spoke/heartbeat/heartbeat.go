// Package heartbeat tells the hub that the agent lives, by renewing the cluster's lease there (spec 2.4).
package heartbeat

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"nave/pkg/agentstate"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	leaseName = "managed-cluster-lease"

	// defaultInterval stands for a lease duration of 0.
	defaultInterval = 60 * time.Second

	// retry is how soon a renewal that failed is tried again; five in a row may fail before the hub notices.
	retry = 5 * time.Second
)

// Config is what the heartbeat needs.
type Config struct {
	Log      logrus.FieldLogger
	Cluster  string
	Hub      kubernetes.Interface
	Clusters clusterinformers.ManagedClusterInformer // of the agent's own cluster alone
	State    *live.Value[agentstate.State]
	Clock    clock.WithTicker
}

// Heartbeat renews the lease of one cluster.
type Heartbeat struct {
	Config
	loop    *reconcile.Loop
	lister  clusterlisters.ManagedClusterLister
	synced  cache.InformerSynced
	failing bool // the last renewal failed; told once
}

// New registers for changes of the cluster, which take effect at once.
func New(c Config) (*Heartbeat, error) {
	h := &Heartbeat{Config: c, lister: c.Clusters.Lister()}
	h.loop = reconcile.New("heartbeat", c.Log, 1, h.reconcile)
	registration, err := c.Clusters.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { h.loop.Add(c.Cluster) },
		UpdateFunc: func(before, after any) {
			if interval(before.(*clusterv1.ManagedCluster)) != interval(after.(*clusterv1.ManagedCluster)) {
				h.loop.Add(c.Cluster)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("heartbeat: watch cluster %s: %w", c.Cluster, err)
	}
	h.synced = registration.HasSynced
	return h, nil
}

// Run beats until ctx ends.
func (h *Heartbeat) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), h.synced) {
		return nil
	}
	return h.loop.Run(ctx)
}

// interval is how often the lease is renewed; 0 is never, for a cluster that is not accepted.
func interval(mc *clusterv1.ManagedCluster) time.Duration {
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
		return 0
	}
	if seconds := mc.Spec.LeaseDurationSeconds; seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultInterval
}

func (h *Heartbeat) reconcile(ctx context.Context, cluster string) (time.Duration, error) {
	mc, err := h.lister.Get(cluster)
	if err != nil {
		return 0, nil // gone; its return is an event
	}
	every := interval(mc)
	if every == 0 {
		return 0, nil
	}
	if err := h.renew(ctx); err != nil {
		if !h.failing {
			h.Log.WithField(log.FieldCluster, cluster).WithError(err).Warn("heartbeat does not reach the hub")
		}
		h.failing = true
		h.report(func(s *agentstate.State) {
			s.LastError = agentstate.Fault{Part: "heartbeat", Message: err.Error(), At: h.Clock.Now()}
		})
		return min(retry, every), nil
	}
	if h.failing {
		h.Log.WithField(log.FieldCluster, cluster).Info("heartbeat reaches the hub again")
	}
	h.failing = false
	h.report(func(s *agentstate.State) { s.LastHeartbeat = h.Clock.Now() })
	return reconcile.Jitter(every), nil
}

func (h *Heartbeat) report(change func(*agentstate.State)) {
	h.State.Update(func(s agentstate.State) agentstate.State { change(&s); return s })
}

func (h *Heartbeat) renew(ctx context.Context) error {
	leases := h.Hub.CoordinationV1().Leases(h.Cluster)
	lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("lease of cluster %s: %w", h.Cluster, err)
	}
	now := metav1.NewMicroTime(h.Clock.Now())
	lease.Spec.RenewTime = &now
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("lease of cluster %s: %w", h.Cluster, err)
	}
	return nil
}
