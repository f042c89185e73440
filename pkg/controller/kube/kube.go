// Package kube runs the controllers that a Kubernetes control plane without pods and nodes needs, from Kubernetes' own
// code (D1): deletion of namespaces, garbage collection by owner reference, service accounts and their tokens, root
// certificates in every namespace, clean-up of signing requests, bootstrap tokens, aggregated cluster roles
// and quotas.
package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/bootstrap"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"

	"nave/pkg/live"
)

const (
	// resync is how often informers hand every object out again; the controllers do not depend on it.
	resync = 12 * time.Hour

	// discoverEvery is how soon a kind that a CRD brings is garbage collected and counted by quotas.
	discoverEvery = 30 * time.Second

	// workers of controllers in which one busy key must not hold the others up.
	workers = 4
)

// Config is what the controllers need.
type Config struct {
	Loopback          *rest.Config // with every right, without a rate limit of its own
	Informers         informers.SharedInformerFactory
	CABundle          *live.Value[[]byte] // PEM of the CAs that sign the hub's own certificate
	ServiceAccountKey string              // file of the key that signs service-account tokens
	Log               logrus.FieldLogger
}

// Controller is all of them.
type Controller struct {
	Config
	client    *kubernetes.Clientset
	metadata  metadata.Interface
	metadatas metadatainformer.SharedInformerFactory
	started   chan struct{} // closed once the informers run
	loops     []func(context.Context)
}

// New prepares the clients; the controllers themselves are made by Run, since Kubernetes' constructors begin to work.
func New(c Config) (*Controller, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Loopback), "kube-controllers"))
	if err != nil {
		return nil, fmt.Errorf("client for Kubernetes' controllers: %w", err)
	}
	meta, err := metadata.NewForConfig(c.Loopback)
	if err != nil {
		return nil, fmt.Errorf("metadata client for Kubernetes' controllers: %w", err)
	}
	return &Controller{
		Config:    c,
		client:    client,
		metadata:  meta,
		metadatas: metadatainformer.NewSharedInformerFactory(meta, resync),
		started:   make(chan struct{}),
	}, nil
}

// Run runs the controllers until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.Background())
	var errs []error
	for _, add := range []func(context.Context) error{
		c.addNamespaces, c.addGarbageCollector, c.addServiceAccounts, c.addCertificates, c.addBootstrapTokens, c.addRoles, c.addQuota,
	} {
		errs = append(errs, add(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.Informers.Start(ctx.Done())
	c.metadatas.Start(ctx.Done())
	close(c.started)
	var running sync.WaitGroup
	for _, loop := range c.loops {
		running.Go(func() { loop(ctx) })
	}
	running.Wait()
	return nil
}

func (c *Controller) add(loop func(context.Context)) { c.loops = append(c.loops, loop) }

func (c *Controller) addNamespaces(ctx context.Context) error {
	n := namespace.NewNamespaceController(ctx, c.client, c.metadata, c.client.Discovery().ServerPreferredNamespacedResources,
		c.Informers.Core().V1().Namespaces(), resync, corev1.FinalizerKubernetes)
	c.add(func(ctx context.Context) { n.Run(ctx, workers) })
	return nil
}

// addGarbageCollector watches the metadata of every kind but events, which nothing owns or is owned by.
func (c *Controller) addGarbageCollector(ctx context.Context) error {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	factory := informerfactory.NewInformerFactory(c.Informers, c.metadatas)
	gc, err := garbagecollector.NewGarbageCollector(ctx, c.client, c.metadata, mapper, garbagecollector.DefaultIgnoredResources(), factory, c.started)
	if err != nil {
		return fmt.Errorf("garbage collector: %w", err)
	}
	c.add(func(ctx context.Context) { gc.Run(ctx, workers, discoverEvery) })
	c.add(func(ctx context.Context) { gc.Sync(ctx, c.client.Discovery(), discoverEvery) })
	return nil
}

func (c *Controller) addServiceAccounts(ctx context.Context) error {
	core := c.Informers.Core().V1()
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), c.client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	c.add(func(ctx context.Context) { accounts.Run(ctx, 1) })

	key, err := keyutil.PrivateKeyFromFile(c.ServiceAccountKey)
	if err != nil {
		return fmt.Errorf("key of service-account tokens: %w", err)
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return fmt.Errorf("service-account tokens: %w", err)
	}
	secrets, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), c.client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: c.CABundle.Get()})
	if err != nil {
		return fmt.Errorf("service-account tokens: %w", err)
	}
	c.add(func(ctx context.Context) { secrets.Run(ctx, 1) })
	return nil
}

func (c *Controller) addCertificates(ctx context.Context) error {
	core, requests := c.Informers.Core().V1(), c.Informers.Certificates().V1().CertificateSigningRequests()
	c.add(func(ctx context.Context) { c.publishRoots(ctx, core) })

	clean := cleaner.NewCSRCleanerController(c.client.CertificatesV1().CertificateSigningRequests(), requests)
	c.add(func(ctx context.Context) { clean.Run(ctx, 1) })
	return nil
}

// publishRoots puts the CAs into every namespace. Kubernetes' publisher knows one text for all its life, so each change has
// a publisher of its own.
func (c *Controller) publishRoots(ctx context.Context, core coreinformers.Interface) {
	for ctx.Err() == nil {
		bundle, changed := c.CABundle.Watch()
		publisher, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), c.client, bundle)
		if err != nil {
			c.Log.WithError(err).Error("root certificates are not published")
			return
		}
		running, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { publisher.Run(running, 1) })
		select {
		case <-ctx.Done():
		case <-changed:
		}
		stop()
		done.Wait()
	}
}

func (c *Controller) addBootstrapTokens(context.Context) error {
	core := c.Informers.Core().V1()
	sign, err := bootstrap.NewSigner(c.client, core.Secrets(), core.ConfigMaps(), bootstrap.DefaultSignerOptions())
	if err != nil {
		return fmt.Errorf("signer of cluster-info: %w", err)
	}
	c.add(sign.Run)
	clean, err := bootstrap.NewTokenCleaner(c.client, core.Secrets(), bootstrap.DefaultTokenCleanerOptions())
	if err != nil {
		return fmt.Errorf("cleaner of bootstrap tokens: %w", err)
	}
	c.add(clean.Run)
	return nil
}

func (c *Controller) addRoles(context.Context) error {
	roles := clusterroleaggregation.NewClusterRoleAggregation(c.Informers.Rbac().V1().ClusterRoles(), c.client.RbacV1())
	c.add(func(ctx context.Context) { roles.Run(ctx, 1) })
	return nil
}

// counted are the resources that a quota can name without count/ in front. Kubernetes' own list has pods, volumes and
// claims in it, whose informers would ask for kinds that a hub does not serve.
func (c *Controller) counted() []quota.Evaluator {
	lister := generic.ListerFuncForResourceFunc(c.Informers.ForResource)
	var all []quota.Evaluator
	for resource, name := range map[string]corev1.ResourceName{
		"configmaps": corev1.ResourceConfigMaps, "secrets": corev1.ResourceSecrets, "resourcequotas": corev1.ResourceQuotas,
	} {
		list := generic.ListResourceUsingListerFunc(lister, corev1.SchemeGroupVersion.WithResource(resource))
		all = append(all, generic.NewObjectCountEvaluator(corev1.Resource(resource), list, name))
	}
	return all
}

func (c *Controller) addQuota(ctx context.Context) error {
	discover := c.client.Discovery().ServerPreferredNamespacedResources
	quotas, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               c.client.CoreV1(),
		ResourceQuotaInformer:     c.Informers.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(resync),
		InformerFactory:           informerfactory.NewInformerFactory(c.Informers, c.metadatas),
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      quotainstall.DefaultIgnoredResources,
		InformersStarted:          c.started,
		Registry:                  generic.NewRegistry(c.counted()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	c.add(func(ctx context.Context) { quotas.Run(ctx, 1) })
	c.add(func(ctx context.Context) { quotas.Sync(ctx, discover, discoverEvery) })
	return nil
}
