package klusterlet

import (
	"fmt"
	"net/url"
	"time"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/operator"
	"nave/pkg/settings"
)

// Rates that the definition's own defaults put into every spec; such a value was set by nobody. This agent has no rate: its
// loops bound what they do at a time.
const (
	standardQPS   = 50
	standardBurst = 100
)

// Bounds of lifetimes, as upstream's flags have them (spec 2.1).
const (
	minCertificateSeconds = 3600
	minTokenSeconds       = 600
)

// heeded are the feature gates that something in the agent follows.
func heeded() []featuregate.Feature {
	return []featuregate.Feature{
		feature.AddonManagement, feature.ClusterClaim, feature.ClusterProperty,
		feature.RawFeedbackJsonString, feature.ExecutorValidatingCaches, // answers about executors are always kept, and never outlive a change of rights
	}
}

// read is what a spec comes to for the agent of a cluster: flags are the default, and what the spec sets wins.
func read(flags settings.Agent, cluster string, spec operatorv1.KlusterletSpec) (settings.Agent, operator.Findings) {
	var found operator.Findings
	s := flags
	registration := spec.RegistrationConfiguration
	if registration == nil {
		registration = &operatorv1.RegistrationConfiguration{}
	}
	work := spec.WorkConfiguration
	if work == nil {
		work = &operatorv1.WorkAgentConfiguration{}
	}
	s.Features = found.Switch(flags.Features,
		operator.Component{Field: "registrationConfiguration", Gates: registration.FeatureGates, Known: feature.DefaultSpokeRegistrationFeatureGates, Heeded: heeded()},
		operator.Component{Field: "workConfiguration", Gates: work.FeatureGates, Known: feature.DefaultSpokeWorkFeatureGates, Heeded: heeded()},
	)
	readAddresses(&s, &found, spec.ExternalServerURLs)
	readRegistration(&s, &found, registration)
	readAddOns(&s, &found, registration.AddOnKubeClientRegistrationDriver)
	if grace := work.AppliedManifestWorkEvictionGracePeriod; grace != nil {
		s.EvictionGrace = grace.Duration
	}
	switch interval := work.StatusSyncInterval; {
	case interval != nil && interval.Duration > 0:
		s.StatusSyncInterval = interval.Duration
	case interval != nil:
		found.Add("workConfiguration.statusSyncInterval (it is not more than 0)", true)
	}
	withoutMeaning(&found, cluster, spec)
	registrationWithoutMeaning(&found, registration)
	workWithoutMeaning(&found, work)
	return s, found
}

func readAddresses(s *settings.Agent, found *operator.Findings, addresses []operatorv1.ServerURL) {
	var all []settings.ServerURL
	for n, address := range addresses {
		if u, err := url.Parse(address.URL); err != nil || u.Scheme != "https" || u.Hostname() == "" {
			found.Add(fmt.Sprintf("externalServerURLs[%d] (it is no https URL)", n), true)
			continue
		}
		all = append(all, settings.ServerURL{URL: address.URL, CA: address.CABundle})
	}
	if len(all) > 0 {
		s.ExternalServerURLs = all
	}
}

func readRegistration(s *settings.Agent, found *operator.Findings, registration *operatorv1.RegistrationConfiguration) {
	switch seconds := registration.ClientCertExpirationSeconds; {
	case seconds >= minCertificateSeconds:
		s.CertificateLifetime = time.Duration(seconds) * time.Second
	case seconds != 0:
		found.Add(fmt.Sprintf("registrationConfiguration.clientCertExpirationSeconds (it is less than %d)", minCertificateSeconds), true)
	}
	if len(registration.ClusterAnnotations) > 0 {
		s.ClusterAnnotations = registration.ClusterAnnotations
	}
	if invalid := metav1validation.ValidateLabels(registration.ClusterLabels, field.NewPath("registrationConfiguration.clusterLabels")); len(invalid) > 0 {
		found.Add(invalid[0].Error(), true)
	} else if len(registration.ClusterLabels) > 0 {
		s.ClusterLabels = registration.ClusterLabels
	}
	if c := registration.ClusterClaimConfiguration; c != nil {
		s.MaxCustomClaims = int(c.MaxCustomClusterClaims)
		if len(c.ReservedClusterClaimSuffixes) > 0 {
			s.ReservedClaimSuffixes = c.ReservedClusterClaimSuffixes
		}
	}
	if secrets := registration.BootstrapKubeConfigs.LocalSecrets; secrets != nil && secrets.HubConnectionTimeoutSeconds > 0 {
		s.HubTimeout = time.Duration(secrets.HubConnectionTimeoutSeconds) * time.Second
	}
}

func readAddOns(s *settings.Agent, found *operator.Findings, driver *operatorv1.AddOnRegistrationDriver) {
	if driver == nil || driver.AuthType == "" {
		return
	}
	s.AddOnTokens = driver.AuthType == "token"
	if driver.Token == nil {
		return
	}
	switch seconds := driver.Token.ExpirationSeconds; {
	case seconds >= minTokenSeconds:
		s.AddOnTokenLifetime = time.Duration(seconds) * time.Second
	case seconds != 0:
		found.Add(fmt.Sprintf("registrationConfiguration.addOnKubeClientRegistrationDriver.token.expirationSeconds (it is less than %d)", minTokenSeconds), true)
	}
}

// withoutMeaning notes what is set and has no meaning in one process that was told at its start which cluster it is.
func withoutMeaning(found *operator.Findings, cluster string, spec operatorv1.KlusterletSpec) {
	mode := spec.DeployOption.Mode
	found.Add(fmt.Sprintf("clusterName (the agent runs as %s; start it with --cluster-name %s to change that)", cluster, spec.ClusterName),
		spec.ClusterName != "" && spec.ClusterName != cluster)
	found.Add("namespace", spec.Namespace != "" && spec.Namespace != Namespace)
	found.Add("registrationImagePullSpec", spec.RegistrationImagePullSpec != "")
	found.Add("workImagePullSpec", spec.WorkImagePullSpec != "")
	found.Add("imagePullSpec", spec.ImagePullSpec != "")
	found.Add("nodePlacement", len(spec.NodePlacement.NodeSelector)+len(spec.NodePlacement.Tolerations) > 0)
	found.Add("deployOption.mode", mode == operatorv1.InstallModeHosted || mode == operatorv1.InstallModeSingletonHosted)
	found.Add("hubApiServerHostAlias", spec.HubApiServerHostAlias != nil)
	found.Add("resourceRequirement", spec.ResourceRequirement != nil && spec.ResourceRequirement.Type != operatorv1.ResourceQosClassDefault)
	found.Add("priorityClassName", spec.PriorityClassName != "")
}

func registrationWithoutMeaning(found *operator.Findings, registration *operatorv1.RegistrationConfiguration) {
	driver := registration.RegistrationDriver.AuthType
	found.Add("registrationConfiguration.registrationDriver["+driver+"]", driver != "" && driver != operatorv1.CSRAuthType)
	found.Add("registrationConfiguration.kubeAPIQPS", other(registration.KubeAPIQPS, standardQPS))
	found.Add("registrationConfiguration.kubeAPIBurst", other(registration.KubeAPIBurst, standardBurst))
	found.Add("registrationConfiguration.bootstrapKubeConfigs.localSecretsConfig.kubeConfigSecrets (give the agent their files with --bootstrap-kubeconfig)",
		registration.BootstrapKubeConfigs.Type == operatorv1.LocalSecrets)
}

func workWithoutMeaning(found *operator.Findings, work *operatorv1.WorkAgentConfiguration) {
	found.Add("workConfiguration.kubeAPIQPS", other(work.KubeAPIQPS, standardQPS))
	found.Add("workConfiguration.kubeAPIBurst", other(work.KubeAPIBurst, standardBurst))
	found.Add("workConfiguration.hubKubeAPIQPS", other(work.HubKubeAPIQPS, standardQPS))
	found.Add("workConfiguration.hubKubeAPIBurst", other(work.HubKubeAPIBurst, standardBurst))
}

// other tells whether somebody chose a rate.
func other(value, standard int32) bool { return value != 0 && value != standard }
