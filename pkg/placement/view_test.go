package placement

import (
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestView(t *testing.T) {
	mc := read[clusterv1.ManagedCluster](t, harbor)
	whole, err := newView([][]string{{}}).of(mc)
	require.NoError(t, err)
	require.Contains(t, whole, "spec")
	for _, test := range []struct {
		name  string
		paths [][]string
		want  map[string][]string // fields by section
	}{
		{"nothing but the name", nil, map[string][]string{"metadata": {"name"}}},
		{"a label", [][]string{{"metadata", "labels", "zone"}}, map[string][]string{"metadata": {"name", "labels"}}},
		{"fields of two sections", [][]string{{"metadata", "annotations"}, {"status", "version", "kubernetes"}},
			map[string][]string{"metadata": {"name", "annotations"}, "status": {"version"}}},
		{"one that is empty", [][]string{{"status", "capacity"}}, map[string][]string{"metadata": {"name"}, "status": {}}},
		{"one that nobody knows", [][]string{{"status", "nonsense"}}, map[string][]string{"metadata": {"name"}, "status": {}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen, err := newView(test.paths).of(mc)
			require.NoError(t, err)
			require.Len(t, seen, len(test.want))
			for section, fields := range test.want {
				require.Len(t, seen[section], len(fields), section)
				for _, field := range fields {
					require.Equal(t, whole[section].(map[string]any)[field], seen[section].(map[string]any)[field])
				}
			}
		})
	}
	for name, paths := range map[string][][]string{"all of it": {{"spec"}, {}}, "what is no section": {{"kind"}}, "nonsense": {{"nonsense"}, {"spec"}}} {
		seen, err := newView(paths).of(mc)
		require.NoError(t, err)
		require.Equal(t, whole, seen, name)
	}
	all, err := newView([][]string{{"spec"}, {"spec", "taints"}, {"status"}}).of(mc)
	require.NoError(t, err)
	require.Equal(t, whole["spec"], all["spec"])
	require.Equal(t, whole["status"], all["status"])
}
