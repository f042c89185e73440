package klusterlet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"nave/pkg/agentstate"
	"nave/pkg/operator"
	"nave/pkg/settings"
)

func TestHubConnection(t *testing.T) {
	until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name    string
		state   agentstate.State
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{"just started", agentstate.State{}, metav1.ConditionTrue, "BootstrapSecretFunctional,HubKubeConfigSecretMissing", "no identity"},
		{"waits for acceptance", agentstate.State{HubConnection: &agentstate.Fault{Reason: agentstate.NoIdentity, Message: "waits"}},
			metav1.ConditionTrue, "BootstrapSecretFunctional,HubKubeConfigSecretMissing", "waits"},
		{"nothing to join with", agentstate.State{Bootstrap: &agentstate.Fault{Reason: agentstate.BootstrapMissing, Message: "no token"}},
			metav1.ConditionTrue, "BootstrapSecretMissing,HubKubeConfigSecretMissing", "no token"},
		{"joined", agentstate.State{Hub: "https://h", Cluster: "c1", CertificateUntil: until}, metav1.ConditionFalse, "HubConnectionFunctional", "https://h"},
		{"joined, the bootstrap credential is used up", agentstate.State{CertificateUntil: until, Bootstrap: &agentstate.Fault{Reason: agentstate.BootstrapUnauthorized}},
			metav1.ConditionFalse, "HubConnectionFunctional", ""},
		{"the hub is away", agentstate.State{CertificateUntil: until, HubConnection: &agentstate.Fault{Reason: agentstate.HubError, Message: "connection refused"}},
			metav1.ConditionTrue, "BootstrapSecretFunctional,HubKubeConfigError", "connection refused"},
		{"a fault that has no reason", agentstate.State{CertificateUntil: until, HubConnection: &agentstate.Fault{Message: "m"}, Bootstrap: &agentstate.Fault{Message: "b"}},
			metav1.ConditionTrue, "BootstrapSecretError,HubKubeConfigError", "b; m"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := hubConnection(test.state)
			require.Equal(t, test.status, c.Status)
			require.Equal(t, test.reason, c.Reason)
			require.Contains(t, c.Message, test.message)
		})
	}
}

func TestStatusOf(t *testing.T) {
	k := &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	k.Status.Conditions = []metav1.Condition{{Type: "ReadyToApply", Status: metav1.ConditionTrue, Reason: "KlusterletPrepared"}}
	k.Status.Generations = []operatorv1.GenerationStatus{{Resource: "deployments", Name: "klusterlet-agent"}}
	k.Status = statusOf(k, agentstate.State{CertificateUntil: time.Now()}, settings.Agent{}, operator.Findings{Unsupported: []string{"namespace"}}, []string{"d"})
	require.EqualValues(t, 2, k.Status.ObservedGeneration)
	require.Empty(t, k.Status.Generations, "there are no deployments")
	require.Equal(t, map[string]string{
		"Applied": "True/KlusterletApplied", "Available": "True/KlusterletAvailable", "HubConnectionDegraded": "False/HubConnectionFunctional",
		"RegistrationDesiredDegraded": "False/DeploymentsFunctional", "WorkDesiredDegraded": "False/DeploymentsFunctional",
		"ValidFeatureGates": "True/FeatureGatesAllValid", "UnsupportedConfiguration": "True/FieldsWithoutEffect",
	}, summary(k.Status.Conditions))
	after := stopped(k)
	require.Equal(t, "False/NoAvailablePods", summary(after)["Available"])
	require.NotNil(t, meta.FindStatusCondition(after, operator.Unsupported), "the rest stays")
}

func summary(conditions []metav1.Condition) map[string]string {
	all := map[string]string{}
	for _, c := range conditions {
		all[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return all
}
