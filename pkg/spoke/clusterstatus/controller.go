// Package clusterstatus reports to the hub how the managed cluster is: joined, available, its version, what its nodes
// offer, and its claims (spec 2.4).
package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	hubinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	claimlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	// healthPeriod is how often the API server's health is looked at when nothing else happens.
	healthPeriod = time.Minute
	// failingPeriod is how often while it is bad, and failingGrace how long it has to be before the hub is told.
	failingPeriod = 5 * time.Second
	failingGrace  = 20 * time.Second
	// healthTimeout bounds one look.
	healthTimeout = 5 * time.Second
	// gather is how long events of nodes and claims are collected before one report.
	gather = 100 * time.Millisecond
)

// Config is what the reporter needs.
type Config struct {
	Log      logrus.FieldLogger
	Cluster  string
	Hub      clusterclient.Interface
	Clusters hubinformers.ManagedClusterInformer // of the agent's own cluster alone
	Spoke    *rest.Config
	Clock    clock.PassiveClock
}

// Reporter writes the status of one cluster.
type Reporter struct {
	Config
	loop     *reconcile.Loop
	kube     *kubernetes.Clientset
	clusters clusterlisters.ManagedClusterLister
	nodes    corelisters.NodeLister
	claims   claimlisters.ClusterClaimLister
	start    []func(stop <-chan struct{})
	synced   []cache.InformerSynced

	failingSince time.Time // zero while the API server is well
}

// New prepares the informers of the managed cluster.
func New(c Config) (*Reporter, error) {
	kube, err := kubernetes.NewForConfig(c.Spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	spokeClusters, err := clusterclient.NewForConfig(c.Spoke)
	if err != nil {
		return nil, fmt.Errorf("client of the managed cluster: %w", err)
	}
	nodes := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(withoutDetails))
	claims := clusterinformers.NewSharedInformerFactory(spokeClusters, 0)
	r := &Reporter{
		Config:   c,
		kube:     kube,
		clusters: c.Clusters.Lister(),
		nodes:    nodes.Core().V1().Nodes().Lister(),
		claims:   claims.Cluster().V1alpha1().ClusterClaims().Lister(),
		start:    []func(<-chan struct{}){nodes.Start, claims.Start},
	}
	r.loop = reconcile.New("clusterstatus", c.Log, 1, r.reconcile)
	soon := func(any) { r.loop.AddAfter(c.Cluster, gather) }
	atOnce := func(any) { r.loop.Add(c.Cluster) }
	for informer, add := range map[cache.SharedIndexInformer]func(any){
		c.Clusters.Informer():                                  atOnce,
		nodes.Core().V1().Nodes().Informer():                   soon,
		claims.Cluster().V1alpha1().ClusterClaims().Informer(): soon,
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add})
		if err != nil {
			return nil, fmt.Errorf("cluster status: watch: %w", err)
		}
		r.synced = append(r.synced, registration.HasSynced)
	}
	return r, nil
}

// withoutDetails keeps of a node what is added up. Heartbeats of nodes change their conditions every few minutes; without
// those a node's update looks like the one before.
func withoutDetails(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status:     corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}, nil
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	for _, start := range r.start {
		start(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), r.synced...) {
		return nil
	}
	return r.loop.Run(ctx)
}

func (r *Reporter) reconcile(ctx context.Context, name string) (time.Duration, error) {
	mc, err := r.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil // its return is an event
	}
	if err != nil {
		return 0, err
	}
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
		return 0, nil // its acceptance is an event
	}
	seen, again, err := r.observe(ctx)
	if err != nil || again > 0 {
		return again, err
	}
	if clockApart(mc) {
		return healthPeriod, errors.New("the hub finds that this cluster's clock is wrong; set it, then the status is reported again")
	}
	again = healthPeriod
	if seen.health != http.StatusOK {
		again = failingPeriod
	}
	return reconcile.Jitter(again), r.report(ctx, mc, next(mc, seen))
}

// observe looks at the cluster. While its API server has been ill for a moment only, it asks to be called again instead.
func (r *Reporter) observe(ctx context.Context) (observed, time.Duration, error) {
	var o observed
	o.health, o.detail = r.health(ctx)
	if o.health != http.StatusOK {
		if r.failingSince.IsZero() {
			r.failingSince = r.Clock.Now()
		}
		if r.Clock.Since(r.failingSince) < failingGrace {
			return o, failingPeriod, nil
		}
		return o, 0, nil
	}
	r.failingSince = time.Time{}
	version, err := r.kube.Discovery().ServerVersion()
	if err != nil {
		return o, 0, fmt.Errorf("version of the managed cluster: %w", err)
	}
	o.version = version.GitVersion
	var errs [2]error
	o.nodes, errs[0] = r.nodes.List(labels.Everything())
	o.claims, errs[1] = r.claims.List(labels.Everything())
	return o, 0, errors.Join(errs[:]...)
}

// health asks the API server how it is, in the two ways that API servers have.
func (r *Reporter) health(ctx context.Context) (code int, detail string) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	for _, path := range []string{"/livez", "/healthz"} {
		result := r.kube.RESTClient().Get().AbsPath(path).Do(ctx)
		result.StatusCode(&code)
		body, err := result.Raw()
		detail = string(body)
		if err != nil {
			detail = err.Error()
		}
		if code != http.StatusNotFound && code != http.StatusForbidden {
			break
		}
	}
	return code, detail
}

// report writes the status where it differs, in one patch.
func (r *Reporter) report(ctx context.Context, mc *clusterv1.ManagedCluster, status clusterv1.ManagedClusterStatus) error {
	if equality.Semantic.DeepEqual(status, mc.Status) {
		return nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"status": map[string]any{
		"conditions":    status.Conditions,
		"version":       status.Version,
		"capacity":      status.Capacity,
		"allocatable":   withRemovals(mc.Status.Allocatable, status.Allocatable),
		"clusterClaims": status.ClusterClaims,
	}})
	if err != nil {
		return err
	}
	if _, err := r.Hub.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of managed cluster %s: %w", mc.Name, err)
	}
	r.logChange(mc, status)
	return nil
}

// withRemovals is the list as a merge patch needs it: what is no longer there has to be null, or it stays.
func withRemovals(before, after clusterv1.ResourceList) map[string]any {
	patch := map[string]any{}
	for name := range before {
		patch[string(name)] = nil
	}
	for name, quantity := range after {
		patch[string(name)] = quantity
	}
	return patch
}

func (r *Reporter) logChange(mc *clusterv1.ManagedCluster, status clusterv1.ManagedClusterStatus) {
	before := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	after := meta.FindStatusCondition(status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if after != nil && (before == nil || before.Status != after.Status) {
		r.Log.WithFields(logrus.Fields{log.FieldCluster: mc.Name, log.FieldReason: after.Reason}).Infof("cluster is available: %s", after.Status)
	}
}
