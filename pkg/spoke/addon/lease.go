package addon

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

// Leases tells the hub which add-ons live, by the leases that their agents renew on the managed cluster. It acts when a
// lease changes, and when one that did not would have run out.
type Leases struct {
	Config
	loop    *reconcile.Loop
	cluster clusterlisters.ManagedClusterLister
	leases  *leases
	synced  []cache.InformerSynced
}

// NewLeases registers for the add-ons and for the cluster they run on.
func NewLeases(c Config) (*Leases, error) {
	l := &Leases{Config: c, cluster: c.Clusters.Lister()}
	l.loop = reconcile.New("addonlease", c.Log, workers, l.reconcile)
	l.leases = &leases{kube: c.Spoke, changed: l.loop.Add, followed: map[string]*followed{}}
	addons, err := c.onAddOns(l.loop.Add)
	if err != nil {
		return nil, err
	}
	all := func() { c.each(l.loop.Add) }
	own, err := c.Clusters.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { all() },
		UpdateFunc: func(before, after any) {
			if available(before) != available(after) {
				all()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch cluster %s: %w", c.Agent.Cluster, err)
	}
	l.synced = []cache.InformerSynced{addons, own.HasSynced}
	return l, nil
}

func available(obj any) bool {
	mc, ok := obj.(*clusterv1.ManagedCluster)
	return ok && meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}

// Run works until ctx ends.
func (l *Leases) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), l.synced...) {
		return nil
	}
	l.leases.running.Go(func() { l.onSettings(ctx, func() { l.each(l.loop.Add) }) })
	err := l.loop.Run(ctx)
	l.leases.running.Wait()
	return err
}

func (l *Leases) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mca, err := l.lister().Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err != nil || !l.enabled() || mca.Status.HealthCheck.Mode == addonv1beta1.HealthCheckModeCustomized {
		l.leases.forget(name)
		return 0, nil
	}
	mc, err := l.cluster.Get(l.Agent.Cluster)
	if err != nil || !available(mc) {
		// The hub has said that nothing is known of the cluster's add-ons. Two who write one condition would take turns.
		return 0, nil
	}
	if host := hostedOn(mca); host != "" {
		l.leases.forget(name)
		return 0, l.report(ctx, mca, availableCondition(metav1.ConditionUnknown, addonv1beta1.AddonAvailableReasonLeaseLeaseNotFound, hostedMessage(host)))
	}
	lease, known := l.leases.get(ctx, name, installNamespace(mca))
	if !known {
		return 0, nil
	}
	condition, again := health(mca, lease, l.Clock.Now())
	return again, l.report(ctx, mca, condition)
}

// report writes the condition where it differs.
func (l *Leases) report(ctx context.Context, mca *addonv1beta1.ManagedClusterAddOn, condition metav1.Condition) error {
	next := mca.DeepCopy()
	if !meta.SetStatusCondition(&next.Status.Conditions, condition) {
		return nil
	}
	if err := l.patchStatus(ctx, mca, map[string]any{"conditions": next.Status.Conditions}); err != nil {
		return err
	}
	l.Log.WithFields(logrus.Fields{log.FieldObject: "add-on " + mca.Name, log.FieldReason: condition.Reason}).Infof("add-on is available: %s", condition.Status)
	return nil
}
