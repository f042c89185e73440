package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
)

// clusterView is what the API server itself knows of the managed clusters, to judge their agents' requests by: which there
// are, in which life, and whether the hub accepts them. It is a cache that follows the store within milliseconds.
type clusterView struct {
	client   clusterclient.Interface
	informer cache.SharedIndexInformer
}

func newClusterView(loopback *rest.Config) (*clusterView, error) {
	client, err := clusterclient.NewForConfig(jsonOnly(loopback))
	if err != nil {
		return nil, fmt.Errorf("client for managed clusters: %w", err)
	}
	factory := clusterinformers.NewSharedInformerFactoryWithOptions(client, 0, clusterinformers.WithTransform(onlyStanding))
	return &clusterView{client: client, informer: factory.Cluster().V1().ManagedClusters().Informer()}, nil
}

// onlyStanding drops all of a cluster that says nothing about its standing, which is nearly everything.
func onlyStanding(obj any) (any, error) {
	mc, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return obj, nil
	}
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: mc.Name, UID: mc.UID, ResourceVersion: mc.ResourceVersion},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: mc.Spec.HubAcceptsClient},
	}, nil
}

// ready tells whether the clusters have been read for the first time; before that nothing is known of any.
func (v *clusterView) ready() bool { return v.informer.HasSynced() }

func (v *clusterView) cluster(name string) (*clusterv1.ManagedCluster, bool) {
	obj, found, err := v.informer.GetStore().GetByKey(name)
	if err != nil || !found {
		return nil, false
	}
	mc, ok := obj.(*clusterv1.ManagedCluster)
	return mc, ok
}

// standing is how a cluster stands with the hub.
func (v *clusterView) standing(name string) identity.Standing {
	mc, found := v.cluster(name)
	switch {
	case !found:
		return identity.Unregistered
	case !mc.Spec.HubAcceptsClient:
		return identity.NotAccepted
	}
	return identity.Accepted
}

// lives tells whether the cluster with this name exists and is the one with this uid. A "no" is never the cache's alone:
// an agent drops its identity on it.
func (v *clusterView) lives(ctx context.Context, name string, uid types.UID) (exists, same bool, err error) {
	if mc, found := v.cluster(name); found && mc.UID == uid {
		return true, true, nil
	}
	mc, err := v.client.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read managed cluster %s: %w", name, err)
	}
	return true, mc.UID == uid, nil
}

// onCutOff calls cut with the name of every cluster whose agents lose their access: it was rejected, or is gone.
func (v *clusterView) onCutOff(cut func(cluster string)) error {
	_, err := v.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			before, ok1 := was.(*clusterv1.ManagedCluster)
			after, ok2 := is.(*clusterv1.ManagedCluster)
			if ok1 && ok2 && (before.UID != after.UID || (before.Spec.HubAcceptsClient && !after.Spec.HubAcceptsClient)) {
				cut(after.Name)
			}
		},
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				cut(name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch managed clusters: %w", err)
	}
	return nil
}
