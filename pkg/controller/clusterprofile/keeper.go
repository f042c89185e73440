package clusterprofile

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	setlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1beta2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"

	"nave/pkg/membership"
	"nave/pkg/reconcile"
)

// workers handle different profiles side by side.
const workers = 4

// errNotServed ends a keeper whose kind somebody took away, so that it is installed anew.
var errNotServed = errors.New("the kind ClusterProfile is not served any more")

// keeper is the controller while the gate is on: from an event to the profiles that it may concern. Keys are those of
// profiles, namespace/cluster.
type keeper struct {
	*Controller
	loop     *reconcile.Loop
	existing cache.SharedIndexInformer

	clusterLister clusterlisters.ManagedClusterLister
	setLister     setlisters.ManagedClusterSetLister
	bindingLister setlisters.ManagedClusterSetBindingLister
}

func (a *Controller) newKeeper() (*keeper, error) {
	k := &keeper{
		Controller: a,
		existing: dynamicinformer.NewFilteredDynamicInformer(a.Dynamic, version1().WithResource("clusterprofiles"), metav1.NamespaceAll, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer(),
		clusterLister: clusterlisters.NewManagedClusterLister(a.clusters.GetIndexer()),
		setLister:     setlisters.NewManagedClusterSetLister(a.sets.GetIndexer()),
		bindingLister: setlisters.NewManagedClusterSetBindingLister(a.bindings.GetIndexer()),
	}
	if err := k.existing.SetTransform(withoutManagedFields); err != nil {
		return nil, fmt.Errorf("cluster profiles: %w", err)
	}
	k.loop = reconcile.New("clusterprofile", a.Log, workers, k.reconcile)
	return k, nil
}

// withoutManagedFields keeps what nobody here reads out of the cache.
func withoutManagedFields(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return obj, nil
}

// run works until ctx ends or the kind is served no longer.
func (k *keeper) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	gone := make(chan struct{}, 1)
	err := k.existing.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		select {
		case gone <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("watch cluster profiles: %w", err)
	}
	synced, forget, err := k.listen()
	defer forget()
	if err != nil {
		return err
	}
	group.Go(func() error {
		k.existing.RunWithContext(ctx)
		return nil
	})
	group.Go(func() error {
		select {
		case <-gone:
			return errNotServed
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return nil
		}
		return k.loop.Run(ctx)
	})
	return group.Wait()
}

// listen registers for the events that matter. The informers of clusters, sets and bindings outlive the keeper: forget ends
// what it gets from them.
func (k *keeper) listen() (synced []cache.InformerSynced, forget func(), err error) {
	var undo []func()
	forget = func() {
		for _, f := range undo {
			f()
		}
	}
	for _, source := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{k.existing, cache.ResourceEventHandlerFuncs{AddFunc: k.profileChanged, UpdateFunc: func(_, obj any) { k.profileChanged(obj) }, DeleteFunc: k.profileChanged}},
		{k.clusters, cache.ResourceEventHandlerFuncs{AddFunc: k.clusterChanged, UpdateFunc: k.clusterUpdated, DeleteFunc: k.clusterChanged}},
		{k.sets, cache.ResourceEventHandlerFuncs{AddFunc: k.setChanged, UpdateFunc: k.setUpdated, DeleteFunc: k.setChanged}},
		{k.bindings, cache.ResourceEventHandlerFuncs{AddFunc: k.bindingChanged, UpdateFunc: k.bindingUpdated, DeleteFunc: k.bindingChanged}},
	} {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, forget, fmt.Errorf("cluster profiles: watch: %w", err)
		}
		undo = append(undo, func() { _ = source.informer.RemoveEventHandler(registration) }) // fails only for a strange handle
		synced = append(synced, registration.HasSynced)
	}
	return synced, forget, nil
}

func (k *keeper) profileChanged(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		k.loop.Add(key)
	}
}

func (k *keeper) clusterUpdated(before, after any) {
	if !looksSame(before.(*clusterv1.ManagedCluster), after.(*clusterv1.ManagedCluster)) {
		k.clusterChanged(after)
	}
}

// clusterChanged looks at the cluster's profile in every namespace that has a binding; others have none.
func (k *keeper) clusterChanged(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	bindings, err := k.bindingLister.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, binding := range bindings {
		k.loop.Add(binding.Namespace + "/" + name)
	}
}

func (k *keeper) setUpdated(before, after any) {
	if !equality.Semantic.DeepEqual(before.(*clusterv1beta2.ManagedClusterSet).Spec, after.(*clusterv1beta2.ManagedClusterSet).Spec) {
		k.setChanged(after)
	}
}

func (k *keeper) setChanged(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	bindings, err := k.bindingLister.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, binding := range bindings {
		if binding.Spec.ClusterSet == name {
			k.addNamespace(binding)
		}
	}
}

func (k *keeper) bindingUpdated(before, after any) {
	b1, b2 := before.(*clusterv1beta2.ManagedClusterSetBinding), after.(*clusterv1beta2.ManagedClusterSetBinding)
	if bound(b1) != bound(b2) || b1.Spec != b2.Spec {
		k.addNamespace(b2)
	}
}

func (k *keeper) bindingChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if binding, ok := obj.(*clusterv1beta2.ManagedClusterSetBinding); ok {
		k.addNamespace(binding)
	}
}

// addNamespace looks at the profiles that are in the namespace of a binding, and at those that its set asks for.
func (k *keeper) addNamespace(binding *clusterv1beta2.ManagedClusterSetBinding) {
	keys, err := k.existing.GetIndexer().IndexKeys(cache.NamespaceIndex, binding.Namespace)
	if err != nil {
		return // the index is there
	}
	for _, key := range keys {
		k.loop.Add(key)
	}
	set, err := k.setLister.Get(binding.Spec.ClusterSet)
	if err != nil {
		return // there is none
	}
	clusters, err := k.clusterLister.List(labels.Everything())
	if err != nil {
		return // a cache does not fail
	}
	for _, mc := range clusters {
		if membership.Contains(set, mc) {
			k.loop.Add(binding.Namespace + "/" + mc.Name)
		}
	}
}
