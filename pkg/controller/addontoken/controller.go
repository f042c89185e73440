// Package addontoken makes what an add-on's agent needs to come to the hub with a token instead of a certificate: a service
// account in the cluster's namespace, and the right of the cluster's agent to ask for its tokens (spec 6.9).
package addontoken

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

// workers handle different add-ons side by side.
const workers = 4

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log            logrus.FieldLogger
	Kube           kubernetes.Interface
	Addons         addonclient.Interface
	KubeInformers  informers.SharedInformerFactory
	AddonInformers addoninformers.SharedInformerFactory
	Settings       *live.Value[settings.Hub] // gate AddonManagement
}

// Controller keeps service accounts of add-ons and the roles for them.
type Controller struct {
	Config
	loop     *reconcile.Loop
	addons   addonlisters.ManagedClusterAddOnLister
	accounts corelisters.ServiceAccountLister
	roles    rbaclisters.RoleLister
	bindings rbaclisters.RoleBindingLister
	synced   []cache.InformerSynced
}

// New registers for add-ons, and for what this controller made for them.
func New(c Config) (*Controller, error) {
	addons := c.AddonInformers.Addon().V1alpha1().ManagedClusterAddOns()
	accounts := c.KubeInformers.Core().V1().ServiceAccounts()
	roles, bindings := c.KubeInformers.Rbac().V1().Roles(), c.KubeInformers.Rbac().V1().RoleBindings()
	a := &Controller{Config: c, addons: addons.Lister(), accounts: accounts.Lister(), roles: roles.Lister(), bindings: bindings.Lister()}
	a.loop = reconcile.New("addontoken", c.Log, workers, a.reconcile)
	for informer, name := range map[cache.SharedIndexInformer]func(metav1.Object) string{
		addons.Informer():   metav1.Object.GetName,
		accounts.Informer(): addonOf,
		roles.Informer():    addonOf,
		bindings.Informer(): addonOf,
	} {
		changed := a.enqueue(name)
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: changed, DeleteFunc: changed,
			UpdateFunc: func(before, after any) { changed(before); changed(after) }, // a label may have been taken away
		})
		if err != nil {
			return nil, fmt.Errorf("addontoken: watch: %w", err)
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

func (a *Controller) enqueue(name func(metav1.Object) string) func(obj any) {
	return func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(metav1.Object); ok && name(o) != "" {
			a.loop.Add(o.GetNamespace() + "/" + name(o))
		}
	}
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.watchGate(ctx)
	}()
	defer func() { <-done }()
	return a.loop.Run(ctx)
}

// watchGate looks at all add-ons again when the settings change.
func (a *Controller) watchGate(ctx context.Context) {
	for {
		_, changed := a.Settings.Watch()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		all, err := a.addons.List(labels.Everything())
		if err != nil {
			continue // a lister of a cache has no errors
		}
		for _, mca := range all {
			a.loop.Add(mca.Namespace + "/" + mca.Name)
		}
	}
}

func (a *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	if !a.Settings.Get().Features.Enabled(feature.AddonManagement, feature.DefaultHubAddonManagerFeatureGates) {
		return 0, nil
	}
	cluster, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, nil
	}
	p := pieces{cluster: cluster, addon: name}
	mca, err := a.addons.ManagedClusterAddOns(cluster).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return 0, a.remove(ctx, p)
	case err != nil:
		return 0, err
	case mca.DeletionTimestamp != nil:
		return 0, nil // its agent may need the hub to clean up after itself
	case usesToken(mca):
		return 0, a.provide(ctx, mca, p)
	}
	if err := a.remove(ctx, p); err != nil {
		return 0, err
	}
	return 0, a.report(ctx, mca, nil)
}

// provide makes what is missing and says whether all is there.
func (a *Controller) provide(ctx context.Context, mca *addonv1alpha1.ManagedClusterAddOn, p pieces) error {
	uid, err := a.ensure(ctx, p)
	if err != nil {
		failed := metav1.Condition{Type: conditionReady, Status: metav1.ConditionFalse, Reason: reasonFailed, Message: err.Error()}
		if reportErr := a.report(ctx, mca, &failed); reportErr != nil {
			return reportErr
		}
		return err
	}
	return a.report(ctx, mca, &metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: conditionReady, Message: p.ready(uid)})
}
