package klusterlet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	"sigs.k8s.io/yaml"

	"nave/pkg/operator"
	"nave/pkg/settings"
)

func TestRead(t *testing.T) {
	flags := settings.DefaultAgent()
	flags.Features = settings.Features{feature.ClusterClaim: false}
	flags.ClusterLabels = map[string]string{"by": "flag"}
	flags.ExternalServerURLs = []settings.ServerURL{{URL: "https://flag"}}
	with := func(change func(*settings.Agent)) settings.Agent {
		s := flags
		change(&s)
		return s
	}
	for _, test := range []struct {
		name, spec string
		want       settings.Agent
		found      operator.Findings
	}{
		{"nothing set", `{}`, flags, operator.Findings{}},
		{"as this agent and the definition's defaults have it", `{clusterName: c1, namespace: open-cluster-management-agent, deployOption: {mode: Singleton},
			registrationConfiguration: {kubeAPIQPS: 50, kubeAPIBurst: 100, registrationDriver: {authType: csr}, bootstrapKubeConfigs: {type: None}},
			workConfiguration: {kubeAPIQPS: 50, kubeAPIBurst: 100, hubKubeAPIQPS: 50, hubKubeAPIBurst: 100}, resourceRequirement: {type: Default}}`, flags, operator.Findings{}},
		{"registration", `{externalServerURLs: [{url: "https://object", caBundle: Y2E=}],
			registrationConfiguration: {clientCertExpirationSeconds: 7200, clusterLabels: {by: object}, clusterAnnotations: {agent.open-cluster-management.io/a: b},
			clusterClaimConfiguration: {maxCustomClusterClaims: 5, reservedClusterClaimSuffixes: [x.io]},
			addOnKubeClientRegistrationDriver: {authType: token, token: {expirationSeconds: 900}},
			featureGates: [{feature: ClusterClaim, mode: Enable}, {feature: AddonManagement, mode: Disable}]}}`,
			with(func(s *settings.Agent) {
				s.ExternalServerURLs = []settings.ServerURL{{URL: "https://object", CA: []byte("ca")}}
				s.CertificateLifetime = 2 * time.Hour
				s.ClusterLabels = map[string]string{"by": "object"}
				s.ClusterAnnotations = map[string]string{"agent.open-cluster-management.io/a": "b"}
				s.MaxCustomClaims, s.ReservedClaimSuffixes = 5, []string{"x.io"}
				s.AddOnTokens, s.AddOnTokenLifetime = true, 15*time.Minute
				s.Features = settings.Features{feature.ClusterClaim: true, feature.AddonManagement: false}
			}), operator.Findings{}},
		{"work", `{workConfiguration: {appliedManifestWorkEvictionGracePeriod: 10m, statusSyncInterval: 5s}}`,
			with(func(s *settings.Agent) { s.EvictionGrace, s.StatusSyncInterval = 10*time.Minute, 5*time.Second }), operator.Findings{}},
		{"work, an interval that is none", `{workConfiguration: {statusSyncInterval: 0s}}`, flags,
			operator.Findings{Unsupported: []string{"workConfiguration.statusSyncInterval (it is not more than 0)"}}},
		{"several hubs", `{registrationConfiguration: {bootstrapKubeConfigs: {type: LocalSecrets, localSecretsConfig: {hubConnectionTimeoutSeconds: 300, kubeConfigSecrets: [{name: a}, {name: b}]}}}}`,
			with(func(s *settings.Agent) { s.HubTimeout = 5 * time.Minute }),
			operator.Findings{Unsupported: []string{"registrationConfiguration.bootstrapKubeConfigs.localSecretsConfig.kubeConfigSecrets (give the agent their files with --bootstrap-kubeconfig)"}}},
		{"values that cannot be", `{externalServerURLs: [{url: "http://plain"}], registrationConfiguration: {clientCertExpirationSeconds: 60, clusterLabels: {"a b": c},
			addOnKubeClientRegistrationDriver: {authType: csr, token: {expirationSeconds: 1}}, featureGates: [{feature: Telepathy, mode: Enable}]}}`,
			flags, operator.Findings{InvalidGates: []string{"Telepathy of registrationConfiguration"}, Unsupported: []string{
				"externalServerURLs[0] (it is no https URL)", "registrationConfiguration.clientCertExpirationSeconds (it is less than 3600)",
				`registrationConfiguration.clusterLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
				"registrationConfiguration.addOnKubeClientRegistrationDriver.token.expirationSeconds (it is less than 600)"}}},
		{"what has no meaning in one process", `{clusterName: c2, namespace: open-cluster-management-other, imagePullSpec: i, registrationImagePullSpec: i, workImagePullSpec: i,
			nodePlacement: {tolerations: [{}]}, deployOption: {mode: SingletonHosted}, hubApiServerHostAlias: {ip: 192.0.2.1, hostname: h},
			resourceRequirement: {type: BestEffort}, priorityClassName: p, registrationConfiguration: {kubeAPIQPS: 1, registrationDriver: {authType: awsirsa}, featureGates: [{feature: V1beta1CSRAPICompatibility, mode: Enable}]},
			workConfiguration: {hubKubeAPIBurst: 1, featureGates: [{feature: RawFeedbackJsonString, mode: Enable}]}}`,
			with(func(s *settings.Agent) {
				s.Features = settings.Features{feature.ClusterClaim: false, feature.RawFeedbackJsonString: true, feature.V1beta1CSRAPICompatibility: true}
			}),
			operator.Findings{Unsupported: []string{"registrationConfiguration.featureGates[V1beta1CSRAPICompatibility]",
				"clusterName (the agent runs as c1; start it with --cluster-name c2 to change that)", "namespace",
				"registrationImagePullSpec", "workImagePullSpec", "imagePullSpec", "nodePlacement", "deployOption.mode", "hubApiServerHostAlias",
				"resourceRequirement", "priorityClassName", "registrationConfiguration.registrationDriver[awsirsa]", "registrationConfiguration.kubeAPIQPS",
				"workConfiguration.hubKubeAPIBurst"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var spec operatorv1.KlusterletSpec
			require.NoError(t, yaml.UnmarshalStrict([]byte(test.spec), &spec))
			got, found := read(flags, "c1", spec)
			require.Equal(t, test.want, got)
			require.Equal(t, test.found, found)
		})
	}
}
