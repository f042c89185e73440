package workspec

import (
	"testing"

	"github.com/stretchr/testify/require"
	workv1 "open-cluster-management.io/api/work/v1"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, value string
		want           bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"*", "abc", true},
		{"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abc", true}, {"a*d", "abc", false}, {"*b*", "abc", true}, {"a", "aa", false},
	} {
		require.Equal(t, test.want, matches(test.pattern, test.value), "%q %q", test.pattern, test.value)
	}
}

// TestStrategyFor: the first entry that matches and has a strategy counts.
func TestStrategyFor(t *testing.T) {
	entry := func(group, resource, namespace, name string, kind workv1.UpdateStrategyType) workv1.ManifestConfigOption {
		c := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Group: group, Resource: resource, Namespace: namespace, Name: name}}
		if kind != "" {
			c.UpdateStrategy = &workv1.UpdateStrategy{Type: kind}
		}
		return c
	}
	work := &workv1.ManifestWork{}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{
		entry("", "configmaps", "*", "*", ""),
		entry("", "configmaps", "kube-*", "a*c", workv1.UpdateStrategyTypeReadOnly),
		entry("*", "*", "*", "abc", workv1.UpdateStrategyTypeCreateOnly),
	}
	for _, test := range []struct {
		id   workv1.ResourceIdentifier
		want workv1.UpdateStrategyType
	}{
		{workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "kube-system", Name: "abc"}, workv1.UpdateStrategyTypeReadOnly},
		{workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "abc"}, workv1.UpdateStrategyTypeCreateOnly},
		{workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "default", Name: "abc"}, workv1.UpdateStrategyTypeCreateOnly},
		{workv1.ResourceIdentifier{Resource: "namespaces", Name: "abc"}, workv1.UpdateStrategyTypeCreateOnly},
		{workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "ab"}, workv1.UpdateStrategyTypeUpdate},
	} {
		require.Equal(t, test.want, StrategyOf(ConfigFor(work, test.id)).Type, "%v", test.id)
	}
}
