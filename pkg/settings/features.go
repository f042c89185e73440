package settings

import "k8s.io/component-base/featuregate"

// Features are feature gates that were switched by somebody; the others are as upstream has them by default.
type Features map[featuregate.Feature]bool

// Enabled tells whether a gate is on. defaults are upstream's for the component that asks, such as
// feature.DefaultHubRegistrationFeatureGates; a gate that they do not have is off.
func (f Features) Enabled(gate featuregate.Feature, defaults map[featuregate.Feature]featuregate.FeatureSpec) bool {
	if on, switched := f[gate]; switched {
		return on
	}
	return defaults[gate].Default
}

// SwitchedOff tells whether somebody has switched a gate off. It is for what upstream has off by default for lack of age, and
// is of no use to anybody who does not ask for it: here it acts unless it must not.
func (f Features) SwitchedOff(gate featuregate.Feature) bool {
	on, switched := f[gate]
	return switched && !on
}
