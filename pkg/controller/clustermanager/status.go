package clustermanager

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/operator"
	"nave/pkg/settings"
	"nave/pkg/version"
)

// namespace is where upstream has the hub's deployments.
const namespace = "open-cluster-management-hub"

// part is what upstream runs as a deployment of its own and this hub as controllers. It works while all of them run: the hub
// ends when one of them fails.
type part struct {
	condition, working, broken string
	name                       string
	controllers                []string
}

func parts() []part {
	return []part{
		{
			condition: operatorv1.ConditionHubRegistrationDegraded, working: operatorv1.ReasonRegistrationFunctional, broken: operatorv1.ReasonUnavailableRegistrationPod,
			name: "Registration", controllers: []string{"acceptance", "approval", "availability", "cleanup", "clusterset", "signing"},
		},
		{
			condition: operatorv1.ConditionHubPlacementDegraded, working: operatorv1.ReasonPlacementFunctional, broken: operatorv1.ReasonUnavailablePlacementPod,
			name: "Placement", controllers: []string{"placement"},
		},
	}
}

// degraded tells whether a part works, by the controllers that run.
func (p part) degraded(running []string) metav1.Condition {
	var missing []string
	for _, name := range p.controllers {
		if !slices.Contains(running, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return metav1.Condition{
			Type: p.condition, Status: metav1.ConditionTrue, Reason: p.broken,
			Message: fmt.Sprintf("%s does not run in this version of the hub: it has no controller %s", p.name, strings.Join(missing, ", ")),
		}
	}
	return metav1.Condition{Type: p.condition, Status: metav1.ConditionFalse, Reason: p.working, Message: p.name + " is running in the hub"}
}

// statusOf is what a ClusterManager is to say once its spec is in force.
func statusOf(cm *operatorv1.ClusterManager, running []string, s settings.Hub, found operator.Findings, definitions []*apiextensionsv1.CustomResourceDefinition) operatorv1.ClusterManagerStatus {
	want := []metav1.Condition{
		{Type: operatorv1.ConditionClusterManagerApplied, Status: metav1.ConditionTrue, Reason: operatorv1.ReasonClusterManagerApplied,
			Message: "Everything runs in the hub's own process, nave " + version.Current().Version},
		{Type: operatorv1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: operatorv1.ReasonUpToDate, Message: "The spec is in force"},
		{Type: operatorv1.ConditionMigrationSucceeded, Status: metav1.ConditionTrue, Reason: operatorv1.ReasonStorageVersionMigrationSucceed,
			Message: "Every kind has been stored in one version only, there is nothing to migrate"},
	}
	for _, p := range parts() {
		want = append(want, p.degraded(running))
	}
	want = append(want, found.Conditions(s.Features)...)
	status := *cm.Status.DeepCopy()
	status.ObservedGeneration = cm.Generation
	status.Conditions = operator.WithConditions(status.Conditions, want, cm.Generation)
	status.Generations = nil // of deployments, which there are none of
	status.RelatedResources = nil
	for _, crd := range definitions {
		status.RelatedResources = append(status.RelatedResources, operator.Definition(crd.Name))
	}
	for _, name := range []string{"addon-manager-controller", "placement-controller", "registration-controller", "registration-webhook", "work-controller", "work-webhook"} {
		status.RelatedResources = append(status.RelatedResources, operator.Deployment(namespace, Name+"-"+name))
	}
	return status
}
