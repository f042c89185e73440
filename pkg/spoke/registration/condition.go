package registration

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	hubinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/reconcile"
)

const (
	// conditionRotated, on the ManagedCluster, says how the last renewal went, in upstream's words (spec 2.3).
	conditionRotated = "ClusterCertificateRotated"
	reasonRotated    = "ClientCertificateUpdated"
	reasonNotRotated = "ClientCertificateUpdateFailed"

	conditionClockSynced = "ManagedClusterConditionClockSynced"
)

// Rotation is how the last renewal went.
type Rotation struct {
	From, Until time.Time // of the certificate that is in use
	Err         error     // why there is no newer one
}

// condition is the rotation as the hub is told of it.
func (r Rotation) condition() metav1.Condition {
	if r.Err != nil {
		return metav1.Condition{Type: conditionRotated, Status: metav1.ConditionFalse, Reason: reasonNotRotated, Message: fmt.Sprintf("Failed to rotated client certificate %v", r.Err)}
	}
	return metav1.Condition{Type: conditionRotated, Status: metav1.ConditionTrue, Reason: reasonRotated, Message: fmt.Sprintf("client certificate rotated starting from %v to %v", r.From.UTC(), r.Until.UTC())}
}

// Reporter tells the hub about rotations.
type Reporter struct {
	cluster string
	hub     clusterclient.Interface
	lister  clusterlisters.ManagedClusterLister
	synced  cache.InformerSynced
	loop    *reconcile.Loop

	mu   sync.Mutex
	last *Rotation
}

// NewReporter watches the cluster's own object.
func NewReporter(logger logrus.FieldLogger, cluster string, hub clusterclient.Interface, own hubinformers.ManagedClusterInformer) (*Reporter, error) {
	r := &Reporter{cluster: cluster, hub: hub, lister: own.Lister()}
	r.loop = reconcile.New("rotation", logger, 1, r.reconcile)
	add := func(any) { r.loop.Add(cluster) }
	handler, err := own.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }})
	if err != nil {
		return nil, fmt.Errorf("watch cluster %s: %w", cluster, err)
	}
	r.synced = handler.HasSynced
	return r, nil
}

// Set takes note of a rotation.
func (r *Reporter) Set(rotation Rotation) {
	r.mu.Lock()
	r.last = &rotation
	r.mu.Unlock()
	r.loop.Add(r.cluster)
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.synced) {
		return nil
	}
	return r.loop.Run(ctx)
}

func (r *Reporter) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := r.lister.Get(name)
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if err != nil || last == nil {
		return 0, nil // either comes with an event
	}
	conditions, due := withRotation(mc, *last)
	if !due {
		return 0, nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return 0, err
	}
	if _, err := r.hub.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return 0, fmt.Errorf("status of managed cluster %s: %w", name, err)
	}
	return 0, nil
}

// withRotation is the cluster's conditions with the rotation among them, and whether the hub is to be told. It is not while
// the hub does not accept the cluster, nor while their clocks are apart, when the agent's times mean nothing.
func withRotation(mc *clusterv1.ManagedCluster, r Rotation) ([]metav1.Condition, bool) {
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) ||
		meta.IsStatusConditionFalse(mc.Status.Conditions, conditionClockSynced) {
		return nil, false
	}
	conditions := mc.DeepCopy().Status.Conditions
	return conditions, meta.SetStatusCondition(&conditions, r.condition())
}
