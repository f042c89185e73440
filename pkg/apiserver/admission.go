package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/api/cluster"
	"nave/pkg/api/work"
	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/settings"
)

// pluginName is how the plugin shows in metrics and audit annotations.
const pluginName = "OpenClusterManagement"

// rules is the admission plugin with the rules that upstream has in webhooks, and the ones of join tokens. It runs before
// users' own webhooks and policies (D3).
type rules struct {
	*admission.Handler
	clock      clock.PassiveClock
	log        logrus.FieldLogger
	limits     *agentLimits
	settings   *live.Value[settings.Hub]
	authorizer authorizer.Authorizer

	workLimitBytes int

	kube      kubernetes.Interface
	loopback  *rest.Config
	cluster   *cluster.Rules
	work      *work.Rules
	tokens    *tokenRules
	own       ownKinds
	requests  *requestRules
	informers informers.SharedInformerFactory
}

var _ admission.MutationInterface = &rules{}
var _ admission.ValidationInterface = &rules{}
var _ initializer.WantsAuthorizer = &rules{}
var _ initializer.WantsExternalKubeClientSet = &rules{}
var _ initializer.WantsExternalKubeInformerFactory = &rules{}
var _ admission.InitializationValidator = &rules{}

// CheckWorkLimit tells whether a server can keep works with manifests of so many bytes.
func CheckWorkLimit(bytes int) error { return work.CheckLimit(bytes) }

func (c *Config) registerAdmission(plugins *admission.Plugins) {
	plugins.Register(pluginName, func(io.Reader) (admission.Interface, error) {
		return &rules{
			Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
			clock:   c.Clock, log: c.Log, limits: newAgentLimits(c.Clock), settings: c.Settings, workLimitBytes: c.WorkLimitBytes,
		}, nil
	})
}

// SetAuthorizer implements initializer.WantsAuthorizer.
func (r *rules) SetAuthorizer(a authorizer.Authorizer) { r.authorizer = a }

// SetLoopback hands in the configuration for clients of the server itself.
func (r *rules) SetLoopback(config *rest.Config) { r.loopback = config }

// loopback is the initializer that does it.
type loopback struct{ config *rest.Config }

// Initialize implements admission.PluginInitializer.
func (l loopback) Initialize(plugin admission.Interface) {
	if r, ok := plugin.(*rules); ok {
		r.SetLoopback(l.config)
	}
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (r *rules) SetExternalKubeClientSet(client kubernetes.Interface) { r.kube = client }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (r *rules) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) { r.informers = f }

// ValidateInitialization completes the rules once everything they need has been handed in.
func (r *rules) ValidateInitialization() error {
	if r.authorizer == nil || r.kube == nil || r.loopback == nil || r.informers == nil {
		return errors.New("admission rules have no authorizer, no client or no informers")
	}
	clusters, err := clusterclient.NewForConfig(jsonOnly(r.loopback))
	if err != nil {
		return fmt.Errorf("client for admission rules: %w", err)
	}
	r.cluster = &cluster.Rules{Authorizer: r.authorizer, Clock: r.clock, Namespace: func(ctx context.Context, name string) (*corev1.Namespace, error) {
		return r.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}}
	gate := func(name featuregate.Feature) func() bool {
		return func() bool { return r.settings.Get().Features.Enabled(name, feature.DefaultHubWorkFeatureGates) }
	}
	r.work = &work.Rules{
		Authorizer: r.authorizer, LimitBytes: r.workLimitBytes,
		NilExecutorChecked: gate(feature.NilExecutorValidating), ReplicaSets: func() bool { return !r.settings.Get().Features.SwitchedOff(feature.ManifestWorkReplicaSet) },
	}
	addons, err := addonclient.NewForConfig(jsonOnly(r.loopback))
	if err != nil {
		return fmt.Errorf("client for admission rules: %w", err)
	}
	pending, err := countPending(r.informers.Certificates().V1().CertificateSigningRequests().Informer(), r.clock)
	if err != nil {
		return fmt.Errorf("admission rules: %w", err)
	}
	read := func(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
		return clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	}
	r.tokens = &tokenRules{kube: r.kube, clock: r.clock, clusters: read, replays: newReplays(r.kube, r.clock, r.log)}
	r.requests = &requestRules{clusters: read, pending: pending, addons: func(ctx context.Context, cluster, name string) (*addonv1alpha1.ManagedClusterAddOn, error) {
		return addons.AddonV1alpha1().ManagedClusterAddOns(cluster).Get(ctx, name, metav1.GetOptions{})
	}}
	return nil
}

// Admit fills in what clients may not choose.
func (r *rules) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if csr, ok := a.GetObject().(*certificates.CertificateSigningRequest); ok {
		return markRequester(a, csr)
	}
	mc, ok := a.GetObject().(*clusterv1.ManagedCluster)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	old, err := oldOf[clusterv1.ManagedCluster](a)
	if err != nil {
		return err
	}
	markCluster(a, mc, old)
	if _, agent := identity.AgentOf(a.GetUserInfo().GetName(), a.GetUserInfo().GetGroups()); old == nil || !agent && !byHub(a) {
		cluster.KeepAvailability(mc, old) // an agent that takes taints away is refused instead, see validateAgent
	}
	return r.cluster.MutateCluster(mc, old)
}

// Validate checks what is about to be stored.
func (r *rules) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if csr, ok := a.GetObject().(*certificates.CertificateSigningRequest); ok {
		return r.validateRequest(ctx, a, csr)
	}
	if err := validateAgent(a); err != nil {
		return err
	}
	if err := r.limits.Validate(a); err != nil {
		return err
	}
	if a.GetSubresource() != "" {
		return nil
	}
	if err := r.tokens.Validate(ctx, a); err != nil {
		return err
	}
	if err := validateManager(a); err != nil {
		return err
	}
	switch obj := a.GetObject().(type) {
	case *clusterv1.ManagedCluster:
		old, err := oldOf[clusterv1.ManagedCluster](a)
		if err != nil {
			return err
		}
		return r.cluster.ValidateCluster(ctx, a, obj, old)
	case *clusterv1beta2.ManagedClusterSetBinding:
		return r.cluster.ValidateBinding(ctx, a, obj)
	case *workv1.ManifestWork:
		old, err := oldOf[workv1.ManifestWork](a)
		if err != nil {
			return err
		}
		return r.work.ValidateWork(ctx, a, obj, old)
	case *workv1alpha1.ManifestWorkReplicaSet:
		old, err := oldOf[workv1alpha1.ManifestWorkReplicaSet](a)
		if err != nil {
			return err
		}
		return r.work.ValidateReplicaSet(ctx, a, obj, old)
	case *apiextensions.CustomResourceDefinition:
		return r.own.validate(a, obj)
	}
	return nil
}

func (r *rules) validateRequest(ctx context.Context, a admission.Attributes, csr *certificates.CertificateSigningRequest) error {
	if a.GetOperation() != admission.Create {
		return keepsLabels(a, csr)
	}
	if err := r.requests.Validate(ctx, a, csr); err != nil {
		return err
	}
	if err := r.tokens.Validate(ctx, a); err != nil {
		return err
	}
	return r.requests.Count(a, csr)
}

// oldOf is the object before the change, nil on create.
func oldOf[T any](a admission.Attributes) (*T, error) {
	if a.GetOldObject() == nil {
		return nil, nil
	}
	old, ok := any(a.GetOldObject()).(*T)
	if !ok {
		return nil, fmt.Errorf("object before the change is a %T", a.GetOldObject())
	}
	return old, nil
}
