package clustermanager

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/operator"
	"nave/pkg/settings"
)

func TestStatusOf(t *testing.T) {
	all := []string{"acceptance", "approval", "availability", "cleanup", "clusterset", "placement", "signing"}
	for _, test := range []struct {
		name    string
		running []string
		found   operator.Findings
		before  []metav1.Condition
		want    map[string]string // status/reason by type
	}{
		{"all is well", all, operator.Findings{}, []metav1.Condition{{Type: operator.Unsupported, Status: metav1.ConditionTrue, Reason: "FieldsWithoutEffect"}, {Type: "Theirs", Status: metav1.ConditionTrue, Reason: "R"}},
			map[string]string{
				"Applied": "True/ClusterManagerApplied", "Progressing": "False/ClusterManagerUpToDate", "HubRegistrationDegraded": "False/RegistrationFunctional",
				"HubPlacementDegraded": "False/PlacementFunctional", "MigrationSucceeded": "True/StorageVersionMigrationSucceed",
				"ValidFeatureGates": "True/FeatureGatesAllValid", "Theirs": "True/R",
			}},
		{"no placement, wrong gates, fields without effect", all[:5], operator.Findings{InvalidGates: []string{"Telepathy"}, Unsupported: []string{"nodePlacement"}}, nil,
			map[string]string{
				"Applied": "True/ClusterManagerApplied", "Progressing": "False/ClusterManagerUpToDate", "HubRegistrationDegraded": "True/UnavailableRegistrationPod",
				"HubPlacementDegraded": "True/UnavailablePlacementPod", "MigrationSucceeded": "True/StorageVersionMigrationSucceed",
				"ValidFeatureGates": "False/InvalidFeatureGatesExisting", "UnsupportedConfiguration": "True/FieldsWithoutEffect",
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: operatorv1.ClusterManagerStatus{Conditions: test.before}}
			status := statusOf(cm, test.running, settings.Hub{}, test.found, nil)
			got := map[string]string{}
			for _, c := range status.Conditions {
				got[c.Type] = string(c.Status) + "/" + c.Reason
			}
			require.Equal(t, test.want, got)
			require.EqualValues(t, 3, status.ObservedGeneration)
			for _, name := range test.found.InvalidGates {
				require.Contains(t, meta.FindStatusCondition(status.Conditions, "ValidFeatureGates").Message, name)
			}
			for _, field := range test.found.Unsupported {
				require.Contains(t, meta.FindStatusCondition(status.Conditions, operator.Unsupported).Message, field)
			}
		})
	}
}

// TestRelatedResources has every name that clusteradm get hub-info looks up; it fails on one that is not there.
func TestRelatedResources(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clustermanagers.operator.open-cluster-management.io"}}
	status := statusOf(&operatorv1.ClusterManager{}, nil, settings.Hub{}, operator.Findings{}, []*apiextensionsv1.CustomResourceDefinition{crd})
	namespaces := map[string]string{}
	for _, related := range status.RelatedResources {
		namespaces[related.Name] = related.Namespace
	}
	require.Equal(t, map[string]string{
		"cluster-manager-registration-controller":             "open-cluster-management-hub",
		"cluster-manager-registration-webhook":                "open-cluster-management-hub",
		"cluster-manager-work-controller":                     "open-cluster-management-hub",
		"cluster-manager-work-webhook":                        "open-cluster-management-hub",
		"cluster-manager-placement-controller":                "open-cluster-management-hub",
		"cluster-manager-addon-manager-controller":            "open-cluster-management-hub",
		"clustermanagers.operator.open-cluster-management.io": "",
	}, namespaces)
}
