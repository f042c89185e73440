// Package clusterset keeps the sets default and global, says of every ManagedClusterSet how many clusters are in it, and
// of every binding whether its set exists (spec 1.7).
package clusterset

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	setlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"open-cluster-management.io/api/feature"

	"nave/pkg/live"
	"nave/pkg/membership"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const (
	// keepChanges is how a user takes over the selector of a set that the hub made.
	keepChanges = "cluster.open-cluster-management.io/autoupdate"

	workers = 2

	// gather is how long a set waits for more clusters to change before it counts them, so that a thousand clusters that
	// join at once do not make it count a thousand times.
	gather = 200 * time.Millisecond
)

// builtIn are the sets that every hub has.
func builtIn() map[string]clusterv1beta2.ManagedClusterSelector {
	return map[string]clusterv1beta2.ManagedClusterSelector{
		"default": {SelectorType: clusterv1beta2.ExclusiveClusterSetLabel},
		"global":  {SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
	}
}

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Clusters         clusterclient.Interface
	ClusterInformers clusterinformers.SharedInformerFactory
	Settings         *live.Value[settings.Hub]
	Events           Recorder
}

// Recorder writes an event about a cluster into its namespace.
type Recorder interface {
	Cluster(name, kind, reason, message string)
}

// Controller keeps sets and bindings.
type Controller struct {
	Config
	sets       *reconcile.Loop
	bindings   *reconcile.Loop
	namespaces *reconcile.Loop // keys are clusters

	clusterLister clusterlisters.ManagedClusterLister
	setLister     setlisters.ManagedClusterSetLister
	bindingLister setlisters.ManagedClusterSetBindingLister
	synced        []cache.InformerSynced
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	informers := c.ClusterInformers.Cluster()
	a := &Controller{
		Config:        c,
		clusterLister: informers.V1().ManagedClusters().Lister(),
		setLister:     informers.V1beta2().ManagedClusterSets().Lister(),
		bindingLister: informers.V1beta2().ManagedClusterSetBindings().Lister(),
	}
	a.sets = reconcile.New("clusterset", c.Log, workers, a.reconcileSet)
	a.bindings = reconcile.New("clustersetbinding", c.Log, workers, a.reconcileBinding)
	a.namespaces = reconcile.New("managednamespaces", c.Log, workers, a.reconcileNamespaces)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		informers.V1().ManagedClusters().Informer(): {
			AddFunc: func(obj any) { a.clusterChanged(obj) }, UpdateFunc: a.clusterUpdated, DeleteFunc: a.clusterChanged,
		},
		informers.V1beta2().ManagedClusterSets().Informer(): {
			AddFunc: a.setChanged, UpdateFunc: a.setUpdated, DeleteFunc: a.setChanged,
		},
		informers.V1beta2().ManagedClusterSetBindings().Informer(): {
			AddFunc: a.bindingChanged, UpdateFunc: func(_, obj any) { a.bindingChanged(obj) },
		},
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("cluster sets: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

func (a *Controller) addBuiltIn() {
	for name := range builtIn() {
		a.sets.Add(name)
	}
}

func (a *Controller) clusterUpdated(before, after any) {
	old, mc := before.(*clusterv1.ManagedCluster), after.(*clusterv1.ManagedCluster)
	if !equality.Semantic.DeepEqual(old.Labels, mc.Labels) {
		a.clusterChanged(old)
		a.clusterChanged(mc)
		return
	}
	if !equality.Semantic.DeepEqual(old.Status.ManagedNamespaces, mc.Status.ManagedNamespaces) {
		a.namespaces.Add(mc.Name)
	}
}

// clusterChanged counts again the sets that the cluster is or may be in.
func (a *Controller) clusterChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	mc, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return
	}
	a.namespaces.Add(mc.Name)
	sets, err := a.setLister.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, set := range sets {
		if membership.Contains(set, mc) {
			a.sets.AddAfter(set.Name, gather)
		}
	}
}

func (a *Controller) setChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	set, ok := obj.(*clusterv1beta2.ManagedClusterSet)
	if !ok {
		return
	}
	a.sets.Add(set.Name)
	if len(set.Spec.ManagedNamespaces) > 0 {
		a.addClustersOf(set)
	}
	bindings, err := a.bindingLister.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, binding := range bindings {
		if binding.Spec.ClusterSet == set.Name {
			a.bindingChanged(binding)
		}
	}
}

func (a *Controller) bindingChanged(obj any) {
	if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
		a.bindings.Add(key)
	}
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{a.sets.Run, a.bindings.Run, a.namespaces.Run, a.followSettings} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// followSettings looks at the built-in sets again when the gate may have been switched.
func (a *Controller) followSettings(ctx context.Context) error {
	for {
		_, changed := a.Settings.Watch()
		a.addBuiltIn()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (a *Controller) reconcileSet(ctx context.Context, name string) (time.Duration, error) {
	set, err := a.setLister.Get(name)
	selector, ours := builtIn()[name]
	ours = ours && a.Settings.Get().Features.Enabled(feature.DefaultClusterSet, feature.DefaultHubRegistrationFeatureGates)
	switch {
	case apierrors.IsNotFound(err) && ours:
		return 0, a.create(ctx, name, selector)
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	case set.DeletionTimestamp != nil:
		return 0, nil
	case ours && set.Annotations[keepChanges] != "false" && !equality.Semantic.DeepEqual(set.Spec.ClusterSelector, selector):
		set = set.DeepCopy()
		set.Spec.ClusterSelector = selector
		_, err := a.Clusters.ClusterV1beta2().ManagedClusterSets().Update(ctx, set, metav1.UpdateOptions{})
		return 0, about(err, "managed cluster set", name)
	}
	return 0, a.count(ctx, set)
}

func (a *Controller) create(ctx context.Context, name string, selector clusterv1beta2.ManagedClusterSelector) error {
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: selector}}
	_, err := a.Clusters.ClusterV1beta2().ManagedClusterSets().Create(ctx, set, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return about(err, "managed cluster set", name)
}

func (a *Controller) count(ctx context.Context, set *clusterv1beta2.ManagedClusterSet) error {
	clusters, err := a.clusterLister.List(labels.Everything())
	if err != nil {
		return about(err, "clusters of set", set.Name)
	}
	n := 0
	for _, mc := range clusters {
		if membership.Contains(set, mc) {
			n++
		}
	}
	condition := metav1.Condition{Type: clusterv1beta2.ManagedClusterSetConditionEmpty, Status: metav1.ConditionTrue, Reason: "NoClusterMatched", Message: "No ManagedCluster selected"}
	if n > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "ClustersSelected", fmt.Sprintf("%d ManagedClusters selected", n)
	}
	conditions := slices.Clone(set.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, condition) {
		return nil
	}
	body, err := reconcile.MergePatch(set, map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = a.Clusters.ClusterV1beta2().ManagedClusterSets().Patch(ctx, set.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return about(err, "managed cluster set", set.Name)
}

func (a *Controller) reconcileBinding(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	binding, err := a.bindingLister.ManagedClusterSetBindings(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	condition := metav1.Condition{Type: clusterv1beta2.ClusterSetBindingBoundType, Status: metav1.ConditionTrue, Reason: "ClusterSetBound"}
	if _, err := a.setLister.Get(binding.Spec.ClusterSet); apierrors.IsNotFound(err) {
		condition.Status, condition.Reason = metav1.ConditionFalse, "ClusterSetNotFound"
		condition.Message = fmt.Sprintf("ManagedClusterSet %s does not exist", binding.Spec.ClusterSet)
	}
	conditions := slices.Clone(binding.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, condition) {
		return 0, nil
	}
	body, err := reconcile.MergePatch(binding, map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return 0, err
	}
	_, err = a.Clusters.ClusterV1beta2().ManagedClusterSetBindings(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return 0, about(err, "managed cluster set binding", key)
}

func about(err error, kind, name string) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", kind, name, err)
}
