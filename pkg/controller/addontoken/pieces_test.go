package addontoken

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"nave/pkg/identity"
)

func TestUsesToken(t *testing.T) {
	//lint:ignore SA1019 deprecated for users, and what is stored
	kube := addonv1alpha1.RegistrationConfig{SignerName: identity.KubeSigner}
	//lint:ignore SA1019 deprecated for users, and what is stored
	custom := addonv1alpha1.RegistrationConfig{SignerName: "example.com/signer"}
	for _, test := range []struct {
		name          string
		driver        string
		registrations []addonv1alpha1.RegistrationConfig
		want          bool
	}{
		{"nothing declared", "", []addonv1alpha1.RegistrationConfig{kube}, false},
		{"certificate", "csr", []addonv1alpha1.RegistrationConfig{kube}, false},
		{"token", "token", []addonv1alpha1.RegistrationConfig{custom, kube}, true},
		{"token that nothing is for", "token", []addonv1alpha1.RegistrationConfig{custom}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, usesToken(&addonv1alpha1.ManagedClusterAddOn{
				Status: addonv1alpha1.ManagedClusterAddOnStatus{KubeClientDriver: test.driver, Registrations: test.registrations},
			}))
		})
	}
}

// TestForeignObjectsAreNotTakenOver: a service account of that name with other rights would lend them to the add-on.
func TestForeignObjectsAreNotTakenOver(t *testing.T) {
	p := pieces{cluster: "c1", addon: "a"}
	for _, test := range []struct {
		name   string
		labels map[string]string
		ok     bool
	}{
		{"made for it", p.account().Labels, true},
		{"no labels", nil, false},
		{"of another add-on", pieces{cluster: "c1", addon: "b"}.account().Labels, false},
		{"half labelled", map[string]string{nameLabel: "a"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := p.checkOwner("ServiceAccount", &metav1.ObjectMeta{Name: "a-agent", Labels: test.labels})
			require.Equal(t, test.ok, err == nil, "%v", err)
		})
	}
}

// TestReady: agents read the UID out of this very message.
func TestReady(t *testing.T) {
	require.Equal(t, "ServiceAccount c1/a-agent (UID: 12-34) is ready", pieces{cluster: "c1", addon: "a"}.ready("12-34"))
	require.Equal(t, "system:serviceaccount:c1:a-agent", identity.AddOnAgent{Cluster: "c1", AddOn: "a"}.ServiceAccount())
}

func TestRoleIsForOneAccountAndOneCluster(t *testing.T) {
	p := pieces{cluster: "c1", addon: "a"}
	rules := p.role().Rules
	require.Len(t, rules, 1)
	require.Equal(t, []string{"a-agent"}, rules[0].ResourceNames)
	require.Equal(t, []string{"serviceaccounts/token"}, rules[0].Resources)
	for _, s := range p.binding().Subjects {
		require.Contains(t, []string{"system:open-cluster-management:c1", "open-cluster-management:c1"}, s.Name)
	}
}
