package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"

	"nave/pkg/settings"
)

// featureGates turns NAME=true pairs into settings. Known are the gates of the components that run in this process.
func featureGates(given map[string]bool, known ...map[featuregate.Feature]featuregate.FeatureSpec) (settings.Features, error) {
	features := settings.Features{}
	names := map[string]bool{}
	for _, component := range known {
		for name := range component {
			names[string(name)] = true
		}
	}
	for name, on := range given {
		if !names[name] {
			return nil, usageError{fmt.Errorf("there is no feature gate %q here; there are %s", name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))}
		}
		features[featuregate.Feature(name)] = on
	}
	return features, nil
}

// boolMap is the value of a flag of NAME=true pairs.
type boolMap map[string]bool

// String implements pflag.Value.
func (m boolMap) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, m[name]))
	}
	return strings.Join(pairs, ",")
}

// Set implements pflag.Value.
func (m boolMap) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		on := strings.EqualFold(value, "true")
		if !ok || name == "" || !on && !strings.EqualFold(value, "false") {
			return fmt.Errorf("%q is not of the form NAME=true or NAME=false", pair)
		}
		m[name] = on
	}
	return nil
}

// Type implements pflag.Value.
func (m boolMap) Type() string { return "NAME=BOOL,…" }
