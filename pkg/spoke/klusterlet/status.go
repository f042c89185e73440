package klusterlet

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/agentstate"
	"nave/pkg/operator"
	"nave/pkg/settings"
	"nave/pkg/version"
)

// bootstrapWorks is the first half of HubConnectionDegraded's reason while nothing is wrong with it (spec 7.2).
const bootstrapWorks = "BootstrapSecretFunctional"

// statusOf is what a Klusterlet is to say once its spec is in force, while the agent stands where state says.
func statusOf(k *operatorv1.Klusterlet, state agentstate.State, s settings.Agent, found operator.Findings, definitions []string) operatorv1.KlusterletStatus {
	want := []metav1.Condition{
		{Type: operatorv1.ConditionKlusterletApplied, Status: metav1.ConditionTrue, Reason: operatorv1.ReasonKlusterletApplied,
			Message: "Everything runs in the agent's own process, nave " + version.Current().Version},
		{Type: operatorv1.ConditionKlusterletAvailable, Status: metav1.ConditionTrue, Reason: operatorv1.ReasonKlusterletAvailable, Message: "The agent runs"},
		hubConnection(state),
		functional(operatorv1.ConditionRegistrationDesiredDegraded, "Registration", state),
		functional(operatorv1.ConditionWorkDesiredDegraded, "Work", state),
	}
	want = append(want, found.Conditions(s.Features)...)
	status := *k.Status.DeepCopy()
	status.ObservedGeneration = k.Generation
	status.Conditions = operator.WithConditions(status.Conditions, want, k.Generation)
	meta.RemoveStatusCondition(&status.Conditions, operatorv1.ConditionReadyToApply) // left by a hosted klusterlet
	status.Generations = nil                                                         // of deployments, which there are none of
	status.RelatedResources = []operatorv1.RelatedResourceMeta{
		{Version: "v1", Resource: "namespaces", Name: Namespace},
		{Version: "v1", Resource: "secrets", Namespace: Namespace, Name: hubSecret},
	}
	for _, name := range definitions {
		status.RelatedResources = append(status.RelatedResources, operator.Definition(name))
	}
	for _, name := range []string{"agent", "registration-agent", "work-agent"} {
		status.RelatedResources = append(status.RelatedResources, operator.Deployment(Namespace, Name+"-"+name))
	}
	return status
}

// joined tells whether the agent has an identity on a hub.
func joined(state agentstate.State) bool { return !state.CertificateUntil.IsZero() }

// hubConnection is degraded while the hub cannot be used. How the bootstrap credential does counts only then: with an
// identity that works, nobody needs it.
func hubConnection(state agentstate.State) metav1.Condition {
	c := metav1.Condition{Type: operatorv1.ConditionHubConnectionDegraded}
	fault := state.HubConnection
	if fault == nil && !joined(state) {
		fault = &agentstate.Fault{Reason: agentstate.NoIdentity, Message: "the agent has no identity on a hub yet"}
	}
	if fault == nil {
		c.Status, c.Reason = metav1.ConditionFalse, operatorv1.ReasonHubConnectionFunctional
		c.Message = fmt.Sprintf("The agent uses hub %s as cluster %s", state.Hub, state.Cluster)
		return c
	}
	bootstrap, message := bootstrapWorks, fault.Message
	if state.Bootstrap != nil {
		bootstrap, message = reason(state.Bootstrap, agentstate.BootstrapError), state.Bootstrap.Message+"; "+message
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, bootstrap+","+reason(fault, agentstate.HubError), message
	return c
}

func reason(f *agentstate.Fault, otherwise string) string {
	if f.Reason == "" {
		return otherwise
	}
	return f.Reason
}

// functional says of a part that upstream runs as a deployment of its own that it runs: the process ends when one fails.
func functional(condition, name string, state agentstate.State) metav1.Condition {
	message := name + " runs in the agent's process"
	if !joined(state) {
		message += " and waits for the hub to let the cluster in"
	}
	return metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: operatorv1.ReasonKlusterletDeploymentsFunctional, Message: message}
}

// stopped are the conditions of an agent that does not run any more.
func stopped(k *operatorv1.Klusterlet) []metav1.Condition {
	conditions := slices.Clone(k.Status.Conditions)
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: operatorv1.ConditionKlusterletAvailable, Status: metav1.ConditionFalse, Reason: operatorv1.ReasonKlusterletNoAvailablePods,
		Message: "The agent was stopped", ObservedGeneration: k.Generation,
	})
	return conditions
}
