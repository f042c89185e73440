// Package cleanup empties a managed cluster before it goes: first its add-ons, whose agents may need their works to clean
// up after themselves, then its works, and only then the cluster (spec 1.4).
package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/reconcile"
)

const (
	// finalizer keeps a cluster until its namespace holds no add-ons and works.
	finalizer = "cluster.open-cluster-management.io/resource-cleanup"

	// priorityAnnotation orders what goes first among objects of a kind: the lowest, from 0 to maxPriority.
	priorityAnnotation = "open-cluster-management.io/cleanup-priority"
	maxPriority        = 100

	conditionDeleting = "Deleting"

	workers = 4
)

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Clusters         clusterclient.Interface
	Addons           addonclient.Interface
	Works            workclient.Interface
	ClusterInformers clusterinformers.SharedInformerFactory
	AddonInformers   addoninformers.SharedInformerFactory
	WorkInformers    workinformers.SharedInformerFactory
}

// Controller empties clusters that are being deleted.
type Controller struct {
	Config
	loop     *reconcile.Loop
	clusters clusterlisters.ManagedClusterLister
	addons   addonlisters.ManagedClusterAddOnLister
	works    worklisters.ManifestWorkLister
	synced   []cache.InformerSynced
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	addons := c.AddonInformers.Addon().V1alpha1().ManagedClusterAddOns()
	works := c.WorkInformers.Work().V1().ManifestWorks()
	a := &Controller{Config: c, clusters: clusters.Lister(), addons: addons.Lister(), works: works.Lister()}
	a.loop = reconcile.New("cleanup", c.Log, workers, a.reconcile)
	changed := func(obj any) {
		if mc, ok := obj.(*clusterv1.ManagedCluster); ok {
			a.loop.Add(mc.Name)
		}
	}
	ended := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(metav1.Object); ok {
			a.loop.Add(o.GetNamespace())
		}
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		clusters.Informer(): {AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }},
		addons.Informer():   {DeleteFunc: ended},
		works.Informer():    {DeleteFunc: ended},
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("cleanup: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
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
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	has := slices.Contains(mc.Finalizers, finalizer)
	switch {
	case mc.DeletionTimestamp == nil && !has:
		return 0, a.patch(ctx, mc, map[string]any{"metadata": map[string]any{"finalizers": append(slices.Clone(mc.Finalizers), finalizer)}})
	case mc.DeletionTimestamp == nil || !has:
		return 0, nil
	}
	return 0, a.empty(ctx, mc)
}

// empty deletes what comes first of what is left. The end of each object is an event that calls again.
func (a *Controller) empty(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	for _, kind := range a.kinds(mc.Name) {
		objects, err := kind.list()
		if err != nil {
			return fmt.Errorf("%s of cluster %s: %w", kind.resource, mc.Name, err)
		}
		if len(objects) == 0 {
			continue
		}
		for _, o := range lowest(objects) {
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			if err := kind.remove(ctx, o.GetName()); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s/%s: %w", kind.resource, mc.Name, o.GetName(), err)
			}
		}
		return a.report(ctx, mc, metav1.ConditionFalse, "ResourceRemaining", remaining(kind.resource, objects))
	}
	if err := a.report(ctx, mc, metav1.ConditionTrue, "NoResource", "No cleaned resource in cluster ns."); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(mc.Finalizers), func(f string) bool { return f == finalizer })
	return a.patch(ctx, mc, map[string]any{"metadata": map[string]any{"finalizers": left}})
}

// kind is one of the kinds whose objects have to go, in the order in which they go.
type kind struct {
	resource string
	list     func() ([]metav1.Object, error)
	remove   func(ctx context.Context, name string) error
}

func (a *Controller) kinds(cluster string) []kind {
	return []kind{
		{
			resource: "managedclusteraddons",
			list: func() ([]metav1.Object, error) {
				items, err := a.addons.ManagedClusterAddOns(cluster).List(labels.Everything())
				return objects(items), err
			},
			remove: func(ctx context.Context, name string) error {
				return a.Addons.AddonV1alpha1().ManagedClusterAddOns(cluster).Delete(ctx, name, metav1.DeleteOptions{})
			},
		},
		{
			resource: "manifestworks",
			list: func() ([]metav1.Object, error) {
				items, err := a.works.ManifestWorks(cluster).List(labels.Everything())
				return objects(items), err
			},
			remove: func(ctx context.Context, name string) error {
				return a.Works.WorkV1().ManifestWorks(cluster).Delete(ctx, name, metav1.DeleteOptions{})
			},
		},
	}
}

func objects[T metav1.Object](items []T) []metav1.Object {
	var all []metav1.Object
	for _, item := range items {
		all = append(all, item)
	}
	return all
}

// lowest are the objects with the lowest priority that is left.
func lowest(all []metav1.Object) []metav1.Object {
	first := maxPriority
	for _, o := range all {
		first = min(first, priority(o))
	}
	return slices.DeleteFunc(slices.Clone(all), func(o metav1.Object) bool { return priority(o) != first })
}

// priority of an object whose annotation is absent or no number in range is 0.
func priority(o metav1.Object) int {
	p, err := strconv.Atoi(o.GetAnnotations()[priorityAnnotation])
	if err != nil || p < 0 || p > maxPriority {
		return 0
	}
	return p
}

// remaining is upstream's message, spelling included, which tools look for (spec 10.4).
func remaining(resource string, all []metav1.Object) string {
	pending := 0
	for _, o := range all {
		if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 {
			pending++
		}
	}
	return fmt.Sprintf("The resource %s is remaning, the remaining count is %d, the finalizer pending count is %d", resource, len(all), pending)
}

func (a *Controller) report(ctx context.Context, mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) error {
	conditions := slices.Clone(mc.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, metav1.Condition{Type: conditionDeleting, Status: status, Reason: reason, Message: message}) {
		return nil
	}
	return a.patch(ctx, mc, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
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
