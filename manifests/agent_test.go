package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestRolesOfAgents: each shipped ClusterRole is gathered into the agent's own, or is it, and says nothing that nobody reads.
// None but the one for everything grants wildcards.
func TestRolesOfAgents(t *testing.T) {
	const label = "open-cluster-management.io/aggregate-to-work"
	files, err := filepath.Glob("agent/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var kind metav1.PartialObjectMetadata
			require.NoError(t, yaml.Unmarshal(document, &kind))
			if kind.Kind != "ClusterRole" {
				continue
			}
			t.Run(kind.Name, func(t *testing.T) {
				var role rbacv1.ClusterRole
				require.NoError(t, yaml.UnmarshalStrict(document, &role))
				if role.AggregationRule != nil {
					require.Equal(t, []metav1.LabelSelector{{MatchLabels: map[string]string{label: "true"}}}, role.AggregationRule.ClusterRoleSelectors)
					return
				}
				require.Equal(t, "true", role.Labels[label])
				for _, rule := range role.Rules {
					require.NotContains(t, rule.Verbs, "*")
					if role.Name != "nave-agent-everything" {
						require.NotContains(t, append(rule.APIGroups, rule.Resources...), "*")
					}
				}
			})
		}
	}
}
