package clustermanager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	"sigs.k8s.io/yaml"

	"nave/pkg/operator"
	"nave/pkg/settings"
)

func TestRead(t *testing.T) {
	flags := settings.Hub{
		Features:          settings.Features{feature.DefaultClusterSet: false},
		AutoApprovedUsers: []string{"by-flag"},
		Labels:            map[string]string{"l": "v"},
	}
	with := func(change func(*settings.Hub)) settings.Hub {
		s := flags
		change(&s)
		return s
	}
	for _, test := range []struct {
		name, spec string
		want       settings.Hub
		found      operator.Findings
	}{
		{"nothing set", `{}`, flags, operator.Findings{}},
		{"as the definition's defaults have it", `{registrationImagePullSpec: quay.io/open-cluster-management/registration,
			deployOption: {mode: Default}, workConfiguration: {workDriver: kube}, resourceRequirement: {type: Default}}`, flags, operator.Findings{}},
		{"gates of every component", `{registrationConfiguration: {featureGates: [{feature: DefaultClusterSet, mode: Enable}, {feature: ResourceCleanup}]},
			addOnManagerConfiguration: {featureGates: [{feature: AddonManagement, mode: Disable}]}}`,
			with(func(s *settings.Hub) {
				s.Features = settings.Features{feature.DefaultClusterSet: true, feature.ResourceCleanup: false, feature.AddonManagement: false}
			}), operator.Findings{}},
		{"a gate that nobody knows, and one of another component", `{registrationConfiguration: {featureGates: [{feature: Telepathy, mode: Enable}, {feature: AddonManagement}]}}`,
			flags, operator.Findings{InvalidGates: []string{"Telepathy of registrationConfiguration", "AddonManagement of registrationConfiguration"}}},
		{"a gate that nothing follows", `{registrationConfiguration: {featureGates: [{feature: ClusterImporter, mode: Enable}]}}`,
			with(func(s *settings.Hub) {
				s.Features = settings.Features{feature.DefaultClusterSet: false, feature.ClusterImporter: true}
			}), operator.Findings{Unsupported: []string{"registrationConfiguration.featureGates[ClusterImporter]"}}},
		{"and off as it is anyway", `{workConfiguration: {featureGates: [{feature: CloudEventsDrivers, mode: Disable}]}}`,
			with(func(s *settings.Hub) {
				s.Features = settings.Features{feature.DefaultClusterSet: false, feature.CloudEventsDrivers: false}
			}), operator.Findings{}},
		{"users in both fields", `{registrationConfiguration: {autoApproveUsers: [b, a], registrationDrivers: [{authType: csr, csr: {autoApprovedIdentities: [a, c]}}]}}`,
			with(func(s *settings.Hub) { s.AutoApprovedUsers = []string{"a", "b", "c"} }), operator.Findings{}},
		{"what has no meaning in one process", `{workImagePullSpec: example.com/work, nodePlacement: {nodeSelector: {a: b}}, deployOption: {mode: Hosted, hosted: {}},
			registrationConfiguration: {registrationDrivers: [{authType: awsirsa, awsirsa: {autoApprovedIdentities: [x]}}], importerConfiguration: {}},
			workConfiguration: {workDriver: mqtt}, serverConfiguration: {}, resourceRequirement: {type: BestEffort}}`, flags,
			operator.Findings{Unsupported: []string{"workImagePullSpec", "nodePlacement", "deployOption.mode", "deployOption.hosted",
				"registrationConfiguration.registrationDrivers[awsirsa]", "registrationConfiguration.importerConfiguration",
				"workConfiguration.workDriver", "serverConfiguration", "resourceRequirement"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var spec operatorv1.ClusterManagerSpec
			require.NoError(t, yaml.UnmarshalStrict([]byte(test.spec), &spec))
			got, found := read(flags, spec)
			require.Equal(t, test.want, got)
			require.Equal(t, test.found, found)
		})
	}
}
