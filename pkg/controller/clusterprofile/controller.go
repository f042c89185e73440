// Package clusterprofile shows the hub's clusters in the inventory of SIG Multicluster: a ClusterProfile of each cluster in
// every namespace that a set of it is bound to (spec 1.10). It does so while the gate ClusterProfile is on, and takes its
// profiles away when the gate is off.
package clusterprofile

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	"open-cluster-management.io/api/feature"

	"nave/manifests"
	"nave/pkg/live"
	"nave/pkg/operator"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

// pause is how long the controller waits after it had to give up, such as when the definition was taken away from it.
const pause = 2 * time.Second

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Extensions       apiextensions.Interface
	Dynamic          dynamic.Interface
	ClusterInformers clusterinformers.SharedInformerFactory
	Settings         *live.Value[settings.Hub] // gate ClusterProfile
}

// Controller keeps profiles while its gate is on.
type Controller struct {
	Config
	definitions              []*apiextensionsv1.CustomResourceDefinition
	profiles                 dynamic.NamespaceableResourceInterface
	clusters, sets, bindings cache.SharedIndexInformer
}

// New makes the controller; nothing is served or watched for it before the gate is on.
func New(c Config) (*Controller, error) {
	definitions, err := operator.Definitions(manifests.InventoryCRDs, "inventory/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("cluster profiles: %w", err)
	}
	informers := c.ClusterInformers.Cluster()
	return &Controller{
		Config:      c,
		definitions: definitions,
		profiles:    c.Dynamic.Resource(version1().WithResource("clusterprofiles")),
		clusters:    informers.V1().ManagedClusters().Informer(),
		sets:        informers.V1beta2().ManagedClusterSets().Informer(),
		bindings:    informers.V1beta2().ManagedClusterSetBindings().Informer(),
	}, nil
}

// Run follows the gate until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		now, changed := a.Settings.Watch()
		a.until(ctx, changed, now.Features.Enabled(feature.ClusterProfile, feature.DefaultHubRegistrationFeatureGates))
	}
	return nil
}

// until keeps profiles, or takes them away, until the gate is switched. What goes wrong is tried again after a pause.
func (a *Controller) until(ctx context.Context, changed <-chan struct{}, on bool) {
	work := a.clear
	if on {
		work = a.keep
	}
	session, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for session.Err() == nil {
			err := work(session)
			if err == nil || session.Err() != nil {
				return
			}
			a.Log.WithError(err).Warn("cluster profiles are not up to date; trying again")
			select {
			case <-session.Done():
			case <-time.After(reconcile.Jitter(pause)):
			}
		}
	}()
	defer func() {
		end()
		<-done
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		var now settings.Hub
		now, changed = a.Settings.Watch()
		if now.Features.Enabled(feature.ClusterProfile, feature.DefaultHubRegistrationFeatureGates) != on {
			return
		}
	}
}

// keep serves the kind and keeps profiles until ctx ends, or the kind is served no longer.
func (a *Controller) keep(ctx context.Context) error {
	for _, crd := range a.definitions {
		if err := operator.Install(ctx, a.Extensions, crd); err != nil {
			return err
		}
	}
	k, err := a.newKeeper()
	if err != nil {
		return err
	}
	return k.run(ctx)
}
