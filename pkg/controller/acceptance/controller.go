// Package acceptance lets managed clusters in and out: when the hub accepts a cluster it gets a namespace and rights, when
// it is denied or deleted it loses them (spec 1.1, 1.2).
package acceptance

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	worklisters "open-cluster-management.io/api/client/work/listers/work/v1"

	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

// workers handle different clusters side by side; each cluster costs some ten requests once.
const workers = 8

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Kube             kubernetes.Interface
	Clusters         clusterclient.Interface
	KubeInformers    informers.SharedInformerFactory
	ClusterInformers clusterinformers.SharedInformerFactory
	WorkInformers    workinformers.SharedInformerFactory
	Settings         *live.Value[settings.Hub]
	Events           Recorder
}

// Recorder writes an event about a cluster into its namespace.
type Recorder interface {
	Cluster(name, kind, reason, message string)
}

// Controller keeps namespace and rights of every cluster as they should be.
type Controller struct {
	Config
	loop                *reconcile.Loop
	synced              []cache.InformerSynced
	clusters            clusterlisters.ManagedClusterLister
	works               worklisters.ManifestWorkLister
	namespaces          corelisters.NamespaceLister
	clusterRoles        rbaclisters.ClusterRoleLister
	clusterRoleBindings rbaclisters.ClusterRoleBindingLister
	roleBindings        rbaclisters.RoleBindingLister
}

// New registers for the events that matter.
func New(c Config) (*Controller, error) {
	kube, rbac := c.KubeInformers.Core().V1(), c.KubeInformers.Rbac().V1()
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	works := c.WorkInformers.Work().V1().ManifestWorks()
	a := &Controller{
		Config:              c,
		clusters:            clusters.Lister(),
		works:               works.Lister(),
		namespaces:          kube.Namespaces().Lister(),
		clusterRoles:        rbac.ClusterRoles().Lister(),
		clusterRoleBindings: rbac.ClusterRoleBindings().Lister(),
		roleBindings:        rbac.RoleBindings().Lister(),
	}
	a.loop = reconcile.New("acceptance", c.Log, workers, a.reconcile)
	everything := func(key func(metav1.Object) string) cache.ResourceEventHandlerFuncs {
		enqueue := a.enqueue(key)
		return cache.ResourceEventHandlerFuncs{AddFunc: enqueue, DeleteFunc: enqueue, UpdateFunc: func(before, after any) {
			enqueue(before) // a label that is taken off is to be put back
			enqueue(after)
		}}
	}
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{clusters.Informer(), everything(metav1.Object.GetName)},
		{kube.Namespaces().Informer(), everything(labelledCluster)},
		{rbac.ClusterRoles().Informer(), everything(labelledCluster)},
		{rbac.ClusterRoleBindings().Informer(), everything(labelledCluster)},
		{rbac.RoleBindings().Informer(), everything(labelledCluster)},
		// Of works only the last one's end matters: it lets the cluster's rights go.
		{works.Informer(), cache.ResourceEventHandlerFuncs{DeleteFunc: a.enqueue(metav1.Object.GetNamespace)}},
	} {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, fmt.Errorf("acceptance: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

// sharedKey stands for the roles that all clusters share. No cluster can have this name.
const sharedKey = "*"

func labelledCluster(o metav1.Object) string {
	cluster, ok := o.GetLabels()[identity.ClusterNameLabel]
	if ok && cluster == "" {
		return sharedKey
	}
	return cluster
}

func (a *Controller) enqueue(key func(metav1.Object) string) func(any) {
	return func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(metav1.Object); ok && key(o) != "" {
			a.loop.Add(key(o))
		}
	}
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	return a.loop.Run(ctx)
}
