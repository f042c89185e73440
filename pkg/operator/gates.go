// Package operator is what the hub's ClusterManager and an agent's Klusterlet have in common: how feature gates are read out
// of a spec, which conditions tell of what was found in it, and how the definitions of the kinds get onto a cluster (spec 7).
package operator

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/component-base/featuregate"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/settings"
)

// Component is a part of upstream's for which an operator object may switch feature gates.
type Component struct {
	Field  string // of the object's spec
	Gates  []operatorv1.FeatureGate
	Known  map[featuregate.Feature]featuregate.FeatureSpec // upstream's, with their defaults
	Heeded []featuregate.Feature                           // those that something here follows
}

// Findings are what is wrong with a spec: gates that nobody knows, and fields that are set and mean nothing here.
type Findings struct {
	InvalidGates, Unsupported []string
}

// Add notes a field that means nothing here, if it is set.
func (f *Findings) Add(field string, set bool) {
	if set {
		f.Unsupported = append(f.Unsupported, field)
	}
}

// Switch overlays base with the gates of the components. A gate that is not known is left out, and one that nothing here
// follows is told unless it asks for what is the case anyway.
func (f *Findings) Switch(base settings.Features, components ...Component) settings.Features {
	features := maps.Clone(base)
	if features == nil {
		features = settings.Features{}
	}
	for _, c := range components {
		for _, gate := range c.Gates {
			name, on := featuregate.Feature(gate.Feature), gate.Mode == operatorv1.FeatureGateModeTypeEnable
			spec, known := c.Known[name]
			if !known {
				f.InvalidGates = append(f.InvalidGates, fmt.Sprintf("%s of %s", gate.Feature, c.Field))
				continue
			}
			f.Add(fmt.Sprintf("%s.featureGates[%s]", c.Field, name), on != spec.Default && !slices.Contains(c.Heeded, name))
			features[name] = on
		}
	}
	return features
}
