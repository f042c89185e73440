package clustermanager

import (
	"fmt"
	"slices"

	"k8s.io/component-base/featuregate"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/operator"
	"nave/pkg/settings"
)

// images is where the definition's own defaults say that images come from; such a value was set by nobody.
const images = "quay.io/open-cluster-management/"

// heeded are the feature gates that something in the hub follows.
func heeded() []featuregate.Feature {
	return []featuregate.Feature{
		feature.DefaultClusterSet, feature.ResourceCleanup, feature.ManagedClusterAutoApproval, feature.ClusterProfile, feature.AddonManagement,
		feature.NilExecutorValidating, feature.CleanUpCompletedManifestWork, feature.ManifestWorkReplicaSet,
	}
}

// read is what a spec comes to: flags are the default, and what the spec sets wins.
func read(flags settings.Hub, spec operatorv1.ClusterManagerSpec) (settings.Hub, operator.Findings) {
	var found operator.Findings
	s := flags
	registration := spec.RegistrationConfiguration
	if registration == nil {
		registration = &operatorv1.RegistrationHubConfiguration{}
	}
	work := spec.WorkConfiguration
	if work == nil {
		work = &operatorv1.WorkConfiguration{}
	}
	components := []operator.Component{
		{Field: "registrationConfiguration", Gates: registration.FeatureGates, Known: feature.DefaultHubRegistrationFeatureGates, Heeded: heeded()},
		{Field: "workConfiguration", Gates: work.FeatureGates, Known: feature.DefaultHubWorkFeatureGates, Heeded: heeded()},
	}
	if c := spec.AddOnManagerConfiguration; c != nil {
		components = append(components, operator.Component{
			Field: "addOnManagerConfiguration", Gates: c.FeatureGates, Known: feature.DefaultHubAddonManagerFeatureGates, Heeded: heeded()})
	}
	if c := spec.PlacementConfiguration; c != nil {
		components = append(components, operator.Component{
			Field: "placementConfiguration", Gates: c.FeatureGates, Known: feature.DefaultHubPlacementFeatureGates, Heeded: heeded()})
	}
	s.Features = found.Switch(flags.Features, components...)
	if users := approved(registration); len(users) > 0 {
		s.AutoApprovedUsers = users
	}
	withoutMeaning(&found, spec, registration, work)
	return s, found
}

// approved are the users of both fields that may name them; upstream's older one counts beside the driver's.
func approved(registration *operatorv1.RegistrationHubConfiguration) []string {
	users := slices.Clone(registration.AutoApproveUsers)
	for _, driver := range registration.RegistrationDrivers {
		if driver.AuthType == operatorv1.CSRAuthType && driver.CSR != nil {
			users = append(users, driver.CSR.AutoApprovedIdentities...)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// withoutMeaning notes what is set and has no meaning in one process.
func withoutMeaning(found *operator.Findings, spec operatorv1.ClusterManagerSpec, registration *operatorv1.RegistrationHubConfiguration, work *operatorv1.WorkConfiguration) {
	for _, image := range []struct{ field, value, standard string }{
		{"registrationImagePullSpec", spec.RegistrationImagePullSpec, "registration"},
		{"workImagePullSpec", spec.WorkImagePullSpec, "work"},
		{"placementImagePullSpec", spec.PlacementImagePullSpec, "placement"},
		{"addOnManagerImagePullSpec", spec.AddOnManagerImagePullSpec, "addon-manager"},
	} {
		found.Add(image.field, image.value != "" && image.value != images+image.standard)
	}
	found.Add("nodePlacement", len(spec.NodePlacement.NodeSelector)+len(spec.NodePlacement.Tolerations) > 0)
	found.Add("deployOption.mode", spec.DeployOption.Mode != "" && spec.DeployOption.Mode != operatorv1.InstallModeDefault)
	found.Add("deployOption.default", spec.DeployOption.Default != nil)
	found.Add("deployOption.hosted", spec.DeployOption.Hosted != nil)
	for _, driver := range registration.RegistrationDrivers {
		found.Add(fmt.Sprintf("registrationConfiguration.registrationDrivers[%s]", driver.AuthType), driver.AuthType != operatorv1.CSRAuthType)
	}
	found.Add("registrationConfiguration.importerConfiguration", registration.ImporterConfiguration != nil)
	found.Add("workConfiguration.workDriver", work.WorkDriver != "" && work.WorkDriver != operatorv1.WorkDriverTypeKube)
	found.Add("serverConfiguration", spec.ServerConfiguration != nil)
	found.Add("resourceRequirement", spec.ResourceRequirement != nil && spec.ResourceRequirement.Type != operatorv1.ResourceQosClassDefault)
}
