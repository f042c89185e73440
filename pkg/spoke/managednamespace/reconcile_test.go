package managednamespace

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestLabelOf(t *testing.T) {
	one, two := labelOf("https://one:7443"), labelOf("https://two:7443")
	require.NotEqual(t, one, two)
	for _, label := range []string{one, two} {
		require.Empty(t, validation.IsQualifiedName(label))
		require.Len(t, label, len(labelPrefix)+63)
	}
}

func TestWithConditions(t *testing.T) {
	named := func(name, set string, conditions ...metav1.Condition) clusterv1.ClusterSetManagedNamespaceConfig {
		return clusterv1.ClusterSetManagedNamespaceConfig{
			ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: name}, ClusterSet: set, Conditions: conditions,
		}
	}
	applied := metav1.Condition{Type: conditionAvailable, Status: metav1.ConditionTrue, Reason: reasonApplied, Message: "Namespace successfully applied and managed"}
	other := metav1.Condition{Type: "Other", Status: metav1.ConditionTrue}
	for _, test := range []struct {
		name    string
		before  clusterv1.ClusterSetManagedNamespaceConfig
		results map[string]error
		reasons []string
		same    bool
	}{
		{"new", named("n", "s"), map[string]error{"n": nil}, []string{reasonApplied}, false},
		{"known", named("n", "s", applied), map[string]error{"n": nil}, []string{reasonApplied}, true},
		{"no longer", named("n", "s", applied), map[string]error{"n": errors.New("bad")}, []string{reasonFailed}, false},
		{"conditions of others stay", named("n", "s", other), map[string]error{"n": nil}, []string{"", reasonApplied}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := []clusterv1.ClusterSetManagedNamespaceConfig{test.before}
			after := withConditions(before, test.results)
			require.Len(t, after, 1)
			var reasons []string
			for _, c := range after[0].Conditions {
				reasons = append(reasons, c.Reason)
			}
			require.Equal(t, test.reasons, reasons)
			if test.same {
				require.Equal(t, before, after)
			}
		})
	}
	require.Nil(t, withConditions(nil, nil), "what nobody wants changes nothing")
}
