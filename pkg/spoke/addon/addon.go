// Package addon is what an agent does for the add-ons on its cluster: it gives each the identities with which the add-on's
// own agent comes to the hub, and tells the hub whether that agent lives (spec 2.6).
package addon

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions/addon/v1beta1"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1beta1"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions/cluster/v1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/reconcile"
	"nave/pkg/settings"
)

const (
	// defaultNamespace is where an add-on's agent lives if nothing says otherwise.
	defaultNamespace = "open-cluster-management-agent-addon"

	// workers handle different add-ons side by side.
	workers = 4
)

// Config is what the loops for add-ons need. Whoever makes the informers starts them.
type Config struct {
	Log      logrus.FieldLogger
	Agent    identity.Agent       // whose add-ons
	Entry    string               // what the hub is called in kubeconfigs
	Endpoint clientcmdapi.Cluster // of the hub, as the agent itself reaches it
	Hub      kubernetes.Interface
	AddOns   addonclient.Interface
	Informer addoninformers.ManagedClusterAddOnInformer // of the cluster's namespace alone
	Clusters clusterinformers.ManagedClusterInformer    // of the agent's own cluster alone
	Spoke    kubernetes.Interface                       // the managed cluster
	KeyDir   string                                     // keeps keys of certificates that are asked for
	Settings *live.Value[settings.Agent]                // gate AddonManagement, tokens
	Clock    clock.PassiveClock
}

func (c Config) lister() addonlisters.ManagedClusterAddOnNamespaceLister {
	return c.Informer.Lister().ManagedClusterAddOns(c.Agent.Cluster)
}

func (c Config) enabled() bool {
	return c.Settings.Get().Features.Enabled(feature.AddonManagement, feature.DefaultSpokeRegistrationFeatureGates)
}

// onAddOns calls changed with the name of every add-on that is new, changed or gone, and returns what tells that the first
// ones have been.
func (c Config) onAddOns(changed func(name string)) (cache.InformerSynced, error) {
	named := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if mca, ok := obj.(*addonv1beta1.ManagedClusterAddOn); ok {
			changed(mca.Name)
		}
	}
	registration, err := c.Informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: named, UpdateFunc: func(_, obj any) { named(obj) }, DeleteFunc: named,
	})
	if err != nil {
		return nil, fmt.Errorf("watch add-ons of cluster %s: %w", c.Agent.Cluster, err)
	}
	return registration.HasSynced, nil
}

// each calls do with the name of every add-on that there is.
func (c Config) each(do func(name string)) {
	all, err := c.lister().List(labels.Everything())
	if err != nil {
		return // a lister of a cache has no errors
	}
	for _, mca := range all {
		do(mca.Name)
	}
}

// onSettings calls changed whenever the settings change, until ctx ends.
func (c Config) onSettings(ctx context.Context, changed func()) {
	for {
		_, signal := c.Settings.Watch()
		select {
		case <-ctx.Done():
			return
		case <-signal:
			changed()
		}
	}
}

// patchStatus writes parts of an add-on's status.
func (c Config) patchStatus(ctx context.Context, mca *addonv1beta1.ManagedClusterAddOn, parts map[string]any) error {
	body, err := reconcile.MergePatch(mca, map[string]any{"status": parts})
	if err != nil {
		return err
	}
	if _, err := c.AddOns.AddonV1beta1().ManagedClusterAddOns(mca.Namespace).Patch(ctx, mca.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of add-on %s/%s: %w", mca.Namespace, mca.Name, err)
	}
	return nil
}

// installNamespace is where on the managed cluster the add-on's agent lives.
func installNamespace(mca *addonv1beta1.ManagedClusterAddOn) string {
	if mca.Status.Namespace != "" {
		return mca.Status.Namespace
	}
	if ns := mca.Annotations[addonv1beta1.InstallNamespaceAnnotation]; ns != "" {
		return ns
	}
	return defaultNamespace
}

// hostedOn is the other cluster on which the add-on's agent runs for this one; empty if it runs on the cluster itself. Such
// an add-on needs an agent that reaches that cluster, which this agent does not.
func hostedOn(mca *addonv1beta1.ManagedClusterAddOn) string {
	host := mca.Annotations[addonv1beta1.HostingClusterNameAnnotationKey]
	if host == mca.Namespace {
		return ""
	}
	return host
}

func hostedMessage(host string) string {
	return fmt.Sprintf("The add-on is to run on cluster %s, which the agent of this cluster does not reach; remove annotation %s to run it on this cluster.",
		host, addonv1beta1.HostingClusterNameAnnotationKey)
}
