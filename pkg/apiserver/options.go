package apiserver

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubject "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
)

const (
	// tokenIssuer names the hub in service-account tokens. It is not an address, so tokens outlive a change of it.
	tokenIssuer = "https://kubernetes.default.svc"

	// maxStreamsPerConnection is what kube-apiserver recommends against HTTP/2 floods.
	maxStreamsPerConnection = 100

	// endWatches is how long a stopping server takes to end its clients' watches. Without it they hold the server up until
	// shutdownTimeout, since agents never end a watch by themselves.
	endWatches = 2 * time.Second
)

// admissionPlugins are those of Kubernetes' that make sense without pods and nodes, in no order; ours comes with them.
func admissionPlugins() sets.Set[string] {
	return sets.New(
		lifecycle.PluginName,
		serviceaccount.PluginName,
		certapproval.PluginName,
		certsigning.PluginName,
		certsubject.PluginName,
		mutatingpolicy.PluginName,
		mutatingwebhook.PluginName,
		resourcequota.PluginName,
		validatingpolicy.PluginName,
		validatingwebhook.PluginName,
		pluginName,
	)
}

// options turns the Config into those of Kubernetes' generic control plane.
func (c *Config) options() (*options.Options, error) {
	// The lease in which API servers tell each other about themselves is a write every ten seconds for nobody: our hubs
	// elect a leader among themselves, and proxy nothing to each other.
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.APIServerIdentity):                   false,
		string(features.UnknownVersionInteroperabilityProxy): false,
	}); err != nil {
		return nil, fmt.Errorf("feature gates: %w", err)
	}
	o := options.NewOptions()
	o.Metrics = nil // hidden metrics stay hidden; without options for them it has nothing to complain about
	if err := c.serve(o); err != nil {
		return nil, err
	}
	o.Etcd.StorageConfig.Transport.ServerList = []string{c.Endpoint}
	o.Etcd.EncryptionProviderConfigFilepath = c.EncryptionFile
	o.Features.EnableProfiling = false
	o.GenericServerRunOptions.ExternalHost = c.AdvertiseHost
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = endWatches
	o.SystemNamespaces = append(o.SystemNamespaces, c.SystemNamespaces...)

	o.Authentication.ClientCert.ClientCA = c.ClientCAFile
	o.Authentication.BootstrapToken.Enable = true
	o.Authentication.ServiceAccounts.KeyFiles = []string{c.ServiceAccountKeyFile}
	o.Authentication.ServiceAccounts.Issuers = []string{tokenIssuer}
	o.Authentication.ServiceAccounts.OptionalTokenGetter = serviceAccountGetter
	o.ServiceAccountSigningKeyFile = c.ServiceAccountKeyFile
	o.Authorization.Modes = []string{"RBAC"}

	plugins := admissionPlugins()
	generic := o.Admission.GenericAdmission
	c.registerAdmission(generic.Plugins)
	before := slices.Index(generic.RecommendedPluginOrder, mutatingpolicy.PluginName)
	if before < 0 {
		return nil, fmt.Errorf("admission order: Kubernetes knows no plugin %s", mutatingpolicy.PluginName)
	}
	generic.RecommendedPluginOrder = slices.Insert(slices.Clone(generic.RecommendedPluginOrder), before, pluginName)
	generic.DefaultOffPlugins = sets.New(kubeoptions.AllOrderedPlugins...).Difference(plugins)
	return o, nil
}

func (c *Config) serve(o *options.Options) error {
	host, port, err := net.SplitHostPort(c.Listener.Addr().String())
	if err != nil {
		return fmt.Errorf("listen address %s: %w", c.Listener.Addr(), err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("listen address %s: port: %w", c.Listener.Addr(), err)
	}
	s := o.SecureServing
	s.Listener, s.BindAddress, s.BindPort = c.Listener, net.ParseIP(host), number
	s.ServerCert.CertKey.CertFile, s.ServerCert.CertKey.KeyFile = c.ServerCertFile, c.ServerCertFile
	s.MinTLSVersion = "VersionTLS12"
	s.CipherSuites = cipherSuites()
	s.HTTP2MaxStreamsPerConnection = maxStreamsPerConnection
	return nil
}

// cipherSuites are those of TLS 1.2 with a key exchange of its own for each connection and authenticated encryption. TLS 1.3
// has no others.
func cipherSuites() []string {
	return []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	}
}
