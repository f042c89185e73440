package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/featuregate"
	"open-cluster-management.io/api/feature"
)

func TestEnabled(t *testing.T) {
	defaults := feature.DefaultHubRegistrationFeatureGates
	for _, test := range []struct {
		name     string
		features Features
		gate     featuregate.Feature
		want     bool
	}{
		{"on by default", nil, feature.DefaultClusterSet, true},
		{"off by default", nil, feature.ClusterProfile, false},
		{"switched off", Features{feature.DefaultClusterSet: false}, feature.DefaultClusterSet, false},
		{"switched on", Features{feature.ClusterProfile: true}, feature.ClusterProfile, true},
		{"of another component", nil, feature.ClusterClaim, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, test.features.Enabled(test.gate, defaults))
		})
	}
}

func TestSwitchedOff(t *testing.T) {
	for _, test := range []struct {
		name     string
		features Features
		want     bool
	}{
		{"nobody said anything", nil, false},
		{"switched on", Features{feature.CleanUpCompletedManifestWork: true}, false},
		{"switched off", Features{feature.CleanUpCompletedManifestWork: false}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, test.features.SwitchedOff(feature.CleanUpCompletedManifestWork))
		})
	}
}
