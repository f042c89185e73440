// Package apiserver is the hub's Kubernetes-compatible API server: Kubernetes' own generic control plane as a library,
// with Open Cluster Management's kinds installed beside the built-in ones.
//
//	aggregator (APIServices, discovery, OpenAPI)
//	  └─ control plane (namespaces, secrets, RBAC, CSRs, leases, … and pkg/api's kinds)
//	       └─ custom resources (whatever CRDs users and add-ons bring)
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	authenticators "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/utils/clock"

	"nave/pkg/api"
	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/settings"
)

const (
	serverName = "nave"

	// clusterViewHook is how the view of clusters shows among what /readyz waits for.
	clusterViewHook = "nave-managed-clusters"

	// readyPoll is how often a starting server is asked whether it is ready; it is local and cheap.
	readyPoll = 20 * time.Millisecond

	// groupPriority places our groups in discovery behind Kubernetes' own and before CRDs.
	groupPriority = 16000

	// startLimit is how long a server may take to become ready before it is given up.
	startLimit = time.Minute

	// shutdownTimeout is how long requests in flight have to finish.
	shutdownTimeout = 10 * time.Second
)

// Config is what the server is made of. Files are written by the hub before.
type Config struct {
	Listener              net.Listener
	Endpoint              string // of etcd
	AdvertiseHost         string // host name or address in URLs that the server tells about itself
	ServerCertFile        string // key, certificate and chain in one PEM file
	ClientCAFile          string
	ServiceAccountKeyFile string
	EncryptionFile        string        // encryption of secrets at rest
	AuditFile             string        // the audit log, see auditor; none if empty
	CABundle              func() []byte // PEM of the CAs that may have signed ServerCertFile; it is asked at each request
	SystemNamespaces      []string
	Clock                 clock.PassiveClock
	Log                   logrus.FieldLogger
	Settings              *live.Value[settings.Hub] // feature gates; upstream's defaults if nil
	WorkLimitBytes        int                       // of the manifests of one work; upstream's default if 0
	Placements            Explainer                 // explains placements; nobody does if nil
}

// Server is the API server. It implements lifecycle.Component and lifecycle.Failer.
type Server struct {
	config    Config
	generic   *genericapiserver.Config
	informers informers.SharedInformerFactory
	prepared  prepared
	stop      context.CancelFunc
	done      chan struct{}
	failed    chan error

	background sync.WaitGroup // what runs beside the server, until it stops
}

type prepared interface {
	Run(ctx context.Context) error
}

// New builds the server; nothing is served yet.
func New(ctx context.Context, c Config) (*Server, error) {
	if c.Settings == nil {
		c.Settings = live.New(settings.Hub{})
	}
	s := &Server{config: c, failed: make(chan error, 1), done: make(chan struct{})}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	completed, err := o.Complete(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("API server options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("API server options: %w", errors.Join(errs...))
	}
	ours, err := api.New()
	if err != nil {
		return nil, fmt.Errorf("kinds of Open Cluster Management: %w", err)
	}
	chain, err := s.chain(completed, ours)
	if err != nil {
		return nil, err
	}
	chain.GenericAPIServer.ShutdownTimeout = shutdownTimeout
	chain.GenericAPIServer.Handler.NonGoRestfulMux.Handle(CACertsPath, caCerts(c.CABundle))
	if c.Placements.Handler != nil {
		chain.GenericAPIServer.Handler.NonGoRestfulMux.UnlistedHandlePrefix(c.Placements.Path+"/", c.Placements.Handler)
	}
	ready, err := chain.PrepareRun()
	if err != nil {
		return nil, fmt.Errorf("prepare API server: %w", err)
	}
	s.prepared = ready
	return s, nil
}

// chain builds the three servers, from the innermost to the one that listens.
func (s *Server) chain(completed options.CompletedOptions, ours *api.API) (*aggregator.APIAggregator, error) {
	configs, err := s.configs(completed, ours)
	if err != nil {
		return nil, err
	}
	generic := configs.controlPlane.Generic
	notFound := notfoundhandler.New(generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	crds, err := configs.extensions.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("server of custom resources: %w", err)
	}
	native, err := s.native(configs, completed, ours, crds.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	enabled := configs.extensions.GenericConfig.MergedResourceConfig.ResourceEnabled(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	server, err := controlplaneapiserver.CreateAggregatorServer(configs.aggregator.Complete(), native.GenericAPIServer,
		crds.Informers.Apiextensions().V1().CustomResourceDefinitions(), enabled, priorities(ours))
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	return server, nil
}

type chainConfigs struct {
	controlPlane *controlplaneapiserver.Config
	extensions   *apiextensionsapiserver.Config
	aggregator   *aggregator.Config
}

func (s *Server) configs(completed options.CompletedOptions, ours *api.API) (*chainConfigs, error) {
	generic, factory, storage, err := controlplaneapiserver.BuildGenericConfig(
		completed,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme, ours.Scheme},
		controlplane.DefaultGenericAPIResourceConfigSource(),
		ours.OpenAPI(generatedopenapi.GetOpenAPIDefinitions),
		nil,
	)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	s.generic, s.informers = generic, factory
	generic.MergedResourceConfig.EnableVersions(ours.GroupVersions()...)
	if err := s.identify(generic, ours); err != nil {
		return nil, err
	}
	resolver := webhook.NewDefaultServiceResolver()
	kube, initializers, err := controlplaneapiserver.CreateConfig(completed, generic, factory, nil, storage, resolver, []admission.PluginInitializer{loopback{generic.LoopbackClientConfig}, ownKinds{ours.GroupNames()}})
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	authInfo := webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ProxyTransport, generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(*generic, factory, initializers, completed, 1, resolver, authInfo)
	if err != nil {
		return nil, fmt.Errorf("server of custom resources: %w", err)
	}
	aggregation, err := controlplaneapiserver.CreateAggregatorConfig(*generic, completed, factory, resolver, kube.ProxyTransport, kube.PeerProxy, initializers)
	if err != nil {
		return nil, fmt.Errorf("aggregator: %w", err)
	}
	// Every APIService of a hub is local: there are no pods that could serve one.
	aggregation.ExtraConfig.DisableRemoteAvailableConditionController = true
	return &chainConfigs{controlPlane: kube, extensions: extensions, aggregator: aggregation}, nil
}

// identify adds join tokens and the standing of clusters to what authenticates, the limits of agents to what authorizes, and
// the gate of our kinds.
func (s *Server) identify(generic *genericapiserver.Config, ours *api.API) error {
	client, err := kubernetes.NewForConfig(generic.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("client of the API server itself: %w", err)
	}
	view, err := newClusterView(generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	if err := generic.AddPostStartHook(clusterViewHook, s.follow(view)); err != nil {
		return fmt.Errorf("view of managed clusters: %w", err)
	}
	guard := newGuard(generic.LoopbackClientConfig.BearerToken, s.config.Clock)
	tokens := &joinTokens{secrets: client.CoreV1(), clock: s.config.Clock, guard: guard, replays: newReplays(client, s.config.Clock, s.config.Log)}
	agents := &agents{next: authenticators.New(tokens, generic.Authentication.Authenticator), clusters: view, running: newRunning(s.config.Log), guard: guard}
	if err := view.onCutOff(agents.running.cut); err != nil {
		return err
	}
	generic.Authentication.Authenticator = agents
	lines := authorizer.AuthorizerFunc(identity.Authorizer{Standing: view.standing}.Authorize)
	if err := s.audit(generic, auditPolicy{agents: lines}); err != nil {
		return err
	}
	generic.Authorization.Authorizer, err = union.New(
		union.NamedAuthorizer{AuthorizerName: "cluster", Authorizer: lines},
		union.NamedAuthorizer{AuthorizerName: "placements", Authorizer: authorizer.AuthorizerFunc(s.config.Placements.authorize)},
		union.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: generic.Authorization.Authorizer},
	)
	if err != nil {
		return fmt.Errorf("authorizers: %w", err)
	}
	// It dates the tracking of a kind of tokens that no hub ever had, and complains until there is a kube-system.
	generic.DisabledPostStartHooks.Insert("start-legacy-token-tracking-controller")
	narrowed, reasons := narrowing{kube: client}, explaining{secrets: client.CoreV1(), clock: s.config.Clock}
	generic.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		refuse := refusing(c)
		chain := reasons.Handler(genericapiserver.DefaultBuildHandlerChain(narrowed.Handler(ours.Gate(handler)), c), refuse)
		return guard.Check(tokens.Check(agents.Check(chain, c.Authentication.APIAudiences, refuse), refuse), refuse)
	}
	return nil
}

// audit adds the audit log, if there is to be one.
func (s *Server) audit(generic *genericapiserver.Config, policy auditPolicy) error {
	auditor, err := newAuditor(s.config.AuditFile, s.config.Clock)
	if err != nil || auditor == nil {
		return err
	}
	generic.AuditBackend, generic.AuditPolicyRuleEvaluator = auditor, policy
	return nil
}

// follow makes the server ready only once the view has been read, and keeps it up to date until the server stops.
func (s *Server) follow(view *clusterView) genericapiserver.PostStartHookFunc {
	return func(hook genericapiserver.PostStartHookContext) error {
		s.background.Go(func() { view.informer.RunWithContext(hook) })
		cache.WaitForCacheSync(hook.Done(), view.ready)
		return nil // an error here would end the process
	}
}

// native is the server of all that is not a CRD.
func (s *Server) native(configs *chainConfigs, completed options.CompletedOptions, ours *api.API, next genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	config := configs.controlPlane.Complete()
	native, err := config.New(serverName, next)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	client, err := kubernetes.NewForConfig(config.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("client of the API server itself: %w", err)
	}
	providers, err := config.GenericStorageProviders(client.Discovery())
	if err != nil {
		return nil, fmt.Errorf("kinds of Kubernetes: %w", err)
	}
	if err := native.InstallAPIs(providers...); err != nil {
		return nil, fmt.Errorf("kinds of Kubernetes: %w", err)
	}
	compression, err := api.NewCompression()
	if err != nil {
		return nil, err
	}
	factory := ours.StorageFactory(s.storageConfig(completed), serverstorage.NewResourceConfig())
	groups, err := ours.Groups(completed.Etcd.CreateRESTOptionsGetter(factory, compression))
	if err != nil {
		return nil, fmt.Errorf("kinds of Open Cluster Management: %w", err)
	}
	if err := native.GenericAPIServer.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("kinds of Open Cluster Management: %w", err)
	}
	return native, nil
}

func priorities(ours *api.API) map[runtimeschema.GroupVersion]controlplaneapiserver.APIServicePriority {
	all := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	for i, gv := range ours.GroupVersions() {
		// Versions of a group come best first; the higher number wins.
		all[gv] = controlplaneapiserver.APIServicePriority{Group: groupPriority, Version: int32(100 - i)}
	}
	return all
}

// Loopback is the client configuration of the hub's own parts, with every right. It speaks JSON, which our kinds need;
// clients of Kubernetes' own kinds choose protobuf by themselves.
func (s *Server) Loopback() *rest.Config { return jsonOnly(s.generic.LoopbackClientConfig) }

func jsonOnly(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, ""
	return c
}

// Informers are those of the server itself, for the controllers to share. The server starts them.
func (s *Server) Informers() informers.SharedInformerFactory { return s.informers }

// Start serves and returns when /readyz says ok. A server that is told to stop before it is ready becomes ready first:
// Kubernetes' start-up hooks end the whole process if they are interrupted.
func (s *Server) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() {
		defer close(s.done)
		defer s.background.Wait()
		if err := s.prepared.Run(running); err != nil && running.Err() == nil {
			s.failed <- fmt.Errorf("API server on %s: %w", s.config.Listener.Addr(), err)
		}
	}()
	client, err := kubernetes.NewForConfig(s.generic.LoopbackClientConfig)
	if err != nil {
		stop()
		return fmt.Errorf("client of the API server itself: %w", err)
	}
	polling, cancel := context.WithTimeout(running, startLimit)
	defer cancel()
	err = wait.PollUntilContextCancel(polling, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-s.failed:
			return false, err
		default:
		}
		var code int
		client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
		return code == http.StatusOK, nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		<-s.done
		return fmt.Errorf("API server on %s does not become ready: %w", s.config.Listener.Addr(), err)
	}
	return nil
}

// Stop refuses new requests, lets those in flight finish, and ends.
func (s *Server) Stop(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("API server on %s does not stop: %w", s.config.Listener.Addr(), ctx.Err())
	}
}

// Failed delivers the error with which the server ended by itself.
func (s *Server) Failed() <-chan error { return s.failed }
