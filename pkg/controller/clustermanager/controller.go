// Package clustermanager keeps the hub's ClusterManager, through which upstream's tools see the hub and through which its
// settings can be changed while it runs (spec 7.1). What the object sets wins over the hub's flags; what it leaves out is as
// the flags say.
package clustermanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	operatortyped "open-cluster-management.io/api/client/operator/clientset/versioned/typed/operator/v1"
	operatorinformers "open-cluster-management.io/api/client/operator/informers/externalversions"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/manifests"
	"nave/pkg/live"
	"nave/pkg/log"
	"nave/pkg/operator"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

// Name is what the one ClusterManager of a hub is called, as upstream's tools expect.
const Name = "cluster-manager"

// Config is what the controller needs.
type Config struct {
	Log      logrus.FieldLogger
	Hub      *rest.Config
	Settings *live.Value[settings.Hub] // holds what the flags say, and gets what the object says
	Running  []string                  // names of the hub's controllers
}

// Controller keeps the ClusterManager.
type Controller struct {
	Config
	flags       settings.Hub
	definitions []*apiextensionsv1.CustomResourceDefinition
	extensions  apiextensions.Interface
	managers    operatortyped.ClusterManagerInterface
	informers   operatorinformers.SharedInformerFactory
	informer    cache.SharedIndexInformer
	loop        *reconcile.Loop
	unsupported []string // that were logged
}

// New makes the clients; the kind need not be served yet.
func New(c Config) (*Controller, error) {
	a := &Controller{Config: c, flags: c.Settings.Get()}
	var errs [3]error
	a.definitions, errs[0] = operator.Definitions(manifests.HubCRDs, "hub/*.yaml")
	a.extensions, errs[1] = apiextensions.NewForConfig(c.Hub)
	client, err := operatorclient.NewForConfig(c.Hub)
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("cluster manager: %w", err)
	}
	a.managers = client.OperatorV1().ClusterManagers()
	a.informers = operatorinformers.NewSharedInformerFactoryWithOptions(client, 0, operatorinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
	}))
	a.informer = a.informers.Operator().V1().ClusterManagers().Informer()
	a.loop = reconcile.New("clustermanager", c.Log, 1, a.reconcile)
	changed := func(any) { a.loop.Add(Name) }
	_, err = a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }, DeleteFunc: changed})
	if err != nil {
		return nil, fmt.Errorf("cluster manager: watch: %w", err)
	}
	return a, nil
}

// Ensure serves the kind and puts in force what the object says, so that no controller decides anything by flags that the
// object overrides. A hub that starts for the first time makes the object.
func (a *Controller) Ensure(ctx context.Context) error {
	for _, crd := range a.definitions {
		if err := operator.Install(ctx, a.extensions, crd); err != nil {
			return err
		}
	}
	cm, err := a.managers.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		cm, err = a.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("cluster manager %s: %w", Name, err)
	}
	return a.follow(ctx, cm)
}

// Run follows the object until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	a.informers.Start(ctx.Done())
	defer a.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return nil
	}
	a.loop.Add(Name)
	return a.loop.Run(ctx)
}

func (a *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	obj, there, err := a.informer.GetStore().GetByKey(name)
	if err != nil {
		return 0, err
	}
	if !there {
		_, err := a.create(ctx)
		return 0, err
	}
	return 0, a.follow(ctx, obj.(*operatorv1.ClusterManager))
}

// create makes the object as it is when nobody has set anything. It holds no copy of the flags, which it would then override
// at the next start.
func (a *Controller) create(ctx context.Context) (*operatorv1.ClusterManager, error) {
	cm, err := a.managers.Create(ctx, &operatorv1.ClusterManager{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec:       operatorv1.ClusterManagerSpec{DeployOption: operatorv1.ClusterManagerDeployOption{Mode: operatorv1.InstallModeDefault}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create cluster manager %s: %w", Name, err)
	}
	return cm, nil
}

// follow puts the spec in force and says so.
func (a *Controller) follow(ctx context.Context, cm *operatorv1.ClusterManager) error {
	s, found := read(a.flags, cm.Spec)
	a.Settings.Update(func(settings.Hub) settings.Hub { return s })
	a.tell(found)
	status := statusOf(cm, a.Running, s, found, a.definitions)
	if equality.Semantic.DeepEqual(status, cm.Status) {
		return nil
	}
	patch, err := reconcile.MergePatch(cm, map[string]any{"status": map[string]any{
		"observedGeneration": status.ObservedGeneration, "conditions": status.Conditions,
		"relatedResources": status.RelatedResources, "generations": status.Generations,
	}})
	if err != nil {
		return err
	}
	if _, err := a.managers.Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of cluster manager %s: %w", cm.Name, err)
	}
	return nil
}

// tell logs what has no effect, once for each change of it.
func (a *Controller) tell(found operator.Findings) {
	all := append(append([]string{}, found.InvalidGates...), found.Unsupported...)
	if equality.Semantic.DeepEqual(all, a.unsupported) {
		return
	}
	a.unsupported = all
	if len(all) > 0 {
		a.Log.WithField(log.FieldObject, "ClusterManager "+Name).WithField(log.FieldReason, all).Warn("the object sets what has no effect here; see its conditions")
	}
}
