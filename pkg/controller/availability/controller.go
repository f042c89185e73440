// Package availability watches the heartbeats of managed clusters. A cluster whose heartbeats stop becomes Unknown and gets
// a taint; its add-ons become Unknown with it (spec 1.3). Each cluster has its own timer, so the cost of one cluster does
// not depend on how many there are.
package availability

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	leaseName = "managed-cluster-lease"

	// workers handle different clusters side by side; a thousand heartbeats a minute are some twenty keys a second.
	workers = 8
)

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Kube             kubernetes.Interface
	Clusters         clusterclient.Interface
	Addons           addonclient.Interface
	KubeInformers    informers.SharedInformerFactory
	ClusterInformers clusterinformers.SharedInformerFactory
	AddonInformers   addoninformers.SharedInformerFactory
	Clock            clock.PassiveClock
	Events           Recorder
}

// Recorder writes an event about a cluster into its namespace.
type Recorder interface {
	Cluster(name, kind, reason, message string)
}

// Controller keeps conditions and taints of every cluster true to its heartbeats.
type Controller struct {
	Config
	loop     *reconcile.Loop
	clusters clusterlisters.ManagedClusterLister
	leases   coordinationlisters.LeaseLister
	addons   addonlisters.ManagedClusterAddOnLister
	synced   []cache.InformerSynced

	// seen is, by cluster, the last renewal that was compared with the hub's clock, so that each is compared once, when
	// it comes in.
	mu   sync.Mutex
	seen map[string]time.Time
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	leases := c.KubeInformers.Coordination().V1().Leases()
	addons := c.AddonInformers.Addon().V1alpha1().ManagedClusterAddOns()
	a := &Controller{Config: c, clusters: clusters.Lister(), leases: leases.Lister(), addons: addons.Lister(), seen: map[string]time.Time{}}
	a.loop = reconcile.New("availability", c.Log, workers, a.reconcile)
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		key      func(metav1.Object) string
	}{
		{clusters.Informer(), metav1.Object.GetName},
		{leases.Informer(), clusterOfLease},
	} {
		enqueue := func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(metav1.Object); ok && w.key(o) != "" {
				a.loop.Add(w.key(o))
			}
		}
		registration, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
		})
		if err != nil {
			return nil, fmt.Errorf("availability: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	a.synced = append(a.synced, addons.Informer().HasSynced)
	return a, nil
}

func clusterOfLease(o metav1.Object) string {
	if o.GetName() != leaseName {
		return ""
	}
	return o.GetNamespace()
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	return a.loop.Run(ctx)
}

func (a *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := a.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		a.forget(name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) == nil {
		return 0, a.report(ctx, mc, false, nil) // nothing is known of it, so nothing may be placed on it
	}
	lease, err := a.leases.Leases(name).Get(leaseName)
	switch {
	case apierrors.IsNotFound(err) && mc.DeletionTimestamp != nil:
		return 0, a.report(ctx, mc, true, nil)
	case apierrors.IsNotFound(err):
		return 0, a.createLease(ctx, mc)
	case err != nil:
		return 0, err
	}
	stopped, recheck := silent(mc, lease, a.Clock.Now())
	return recheck, a.report(ctx, mc, stopped, a.compareClocks(mc, lease))
}

// createLease makes the lease that the agent renews; agents may not create one. Its event calls again.
func (a *Controller) createLease(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	now := metav1.NewMicroTime(a.Clock.Now())
	holder := leaseName
	_, err := a.Kube.CoordinationV1().Leases(mc.Name).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: mc.Name, Labels: map[string]string{identity.ClusterNameLabel: mc.Name}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("lease of cluster %s: %w", mc.Name, err)
	}
	return nil
}

// compareClocks returns a condition for a renewal that has just come in, and nil for one that was compared before: its
// age would be taken for a difference of clocks.
func (a *Controller) compareClocks(mc *clusterv1.ManagedCluster, lease *coordinationv1.Lease) *metav1.Condition {
	if lease.Spec.RenewTime == nil {
		return nil
	}
	renewed := lease.Spec.RenewTime.Time
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.seen[mc.Name]
	a.seen[mc.Name] = renewed
	if !known || before.Equal(renewed) {
		return nil
	}
	return clockCondition(mc, renewed, a.Clock.Now())
}

func (a *Controller) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seen, name)
}

// report writes conditions, taints and add-ons where they differ.
func (a *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, stopped bool, clock *metav1.Condition) error {
	wanted := conditions(mc, stopped, clock)
	if !equality.Semantic.DeepEqual(wanted, mc.Status.Conditions) {
		// What follows from it waits for the event of this write.
		return a.writeConditions(ctx, mc, wanted)
	}
	if mc.DeletionTimestamp != nil {
		return nil
	}
	if taints := taints(mc, wanted); !sameTaints(taints, mc.Spec.Taints) {
		return a.patch(ctx, mc, map[string]any{"spec": map[string]any{"taints": taints}})
	}
	if meta.IsStatusConditionPresentAndEqual(wanted, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown) {
		return a.spreadUnknown(ctx, mc.Name, *meta.FindStatusCondition(wanted, clusterv1.ManagedClusterConditionAvailable))
	}
	return nil
}

func (a *Controller) writeConditions(ctx context.Context, mc *clusterv1.ManagedCluster, wanted []metav1.Condition) error {
	if err := a.patch(ctx, mc, map[string]any{"status": map[string]any{"conditions": wanted}}, "status"); err != nil {
		return err
	}
	unknown := func(all []metav1.Condition) bool {
		return meta.IsStatusConditionPresentAndEqual(all, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)
	}
	if unknown(wanted) && !unknown(mc.Status.Conditions) {
		a.Log.WithField(log.FieldCluster, mc.Name).Warn("cluster is unknown: its heartbeats stopped")
		a.Events.Cluster(mc.Name, corev1.EventTypeWarning, "AvailableUnknown",
			fmt.Sprintf("The managed cluster (%s) cannot connect to the hub cluster.", mc.Name))
	}
	return nil
}

// spreadUnknown tells the cluster's add-ons that nothing is known of them either.
func (a *Controller) spreadUnknown(ctx context.Context, name string, reason metav1.Condition) error {
	addons, err := a.addons.ManagedClusterAddOns(name).List(labels.Everything())
	if err != nil {
		return fmt.Errorf("add-ons of cluster %s: %w", name, err)
	}
	for _, addon := range addons {
		wanted := slices.Clone(addon.Status.Conditions)
		changed := meta.SetStatusCondition(&wanted, metav1.Condition{
			Type: addonv1alpha1.ManagedClusterAddOnConditionAvailable, Status: metav1.ConditionUnknown, Reason: reason.Reason, Message: reason.Message,
		})
		if !changed {
			continue
		}
		body, err := reconcile.MergePatch(addon, map[string]any{"status": map[string]any{"conditions": wanted}})
		if err != nil {
			return err
		}
		_, err = a.Addons.AddonV1alpha1().ManagedClusterAddOns(name).Patch(ctx, addon.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("add-on %s of cluster %s: %w", addon.Name, name, err)
		}
	}
	return nil
}

func (a *Controller) patch(ctx context.Context, mc *clusterv1.ManagedCluster, change map[string]any, subresources ...string) error {
	body, err := reconcile.MergePatch(mc, change)
	if err != nil {
		return err
	}
	_, err = a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("managed cluster %s: %w", mc.Name, err)
	}
	return nil
}
