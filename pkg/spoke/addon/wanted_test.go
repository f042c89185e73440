package addon

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"nave/pkg/identity"
)

const account = "system:serviceaccount:c1:a-agent"

func addOn(registrations ...addonv1beta1.RegistrationConfig) *addonv1beta1.ManagedClusterAddOn {
	return &addonv1beta1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "c1"},
		Status:     addonv1beta1.ManagedClusterAddOnStatus{Registrations: registrations},
	}
}

func kube(driver, user string, groups ...string) addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{Type: addonv1beta1.KubeClient, KubeClient: &addonv1beta1.KubeClientConfig{
		Driver: driver, Subject: addonv1beta1.KubeClientSubject{BaseSubject: addonv1beta1.BaseSubject{User: user, Groups: groups}},
	}}
}

func custom(signer, user string, units ...string) addonv1beta1.RegistrationConfig {
	return addonv1beta1.RegistrationConfig{Type: addonv1beta1.CustomSigner, CustomSigner: &addonv1beta1.CustomSignerConfig{
		SignerName: signer, Subject: addonv1beta1.Subject{BaseSubject: addonv1beta1.BaseSubject{User: user}, OrganizationUnits: units},
	}}
}

func TestDeclared(t *testing.T) {
	for _, test := range []struct {
		name          string
		driver        string
		before, after addonv1beta1.RegistrationConfig
	}{
		{"certificate, first time", "csr", kube("", "u", "g"), kube("csr", "u", "g")},
		{"certificate, declared", "csr", kube("csr", "u", "g"), kube("csr", "u", "g")},
		{"token, first time", "token", kube("", "u", "g"), kube("token", account)},
		{"token, subject written over", "token", kube("token", "u", "g"), kube("token", account)},
		{"back to a certificate", "csr", kube("token", account), kube("csr", "")},
		{"no configuration", "csr", addonv1beta1.RegistrationConfig{Type: addonv1beta1.KubeClient}, kube("csr", "")},
		{"a signer of its own has no driver", "token", custom("s/t", "u"), custom("s/t", "u")},
	} {
		t.Run(test.name, func(t *testing.T) {
			mca := addOn(test.before)
			after, changed := declared(mca, test.driver)
			require.Equal(t, []addonv1beta1.RegistrationConfig{test.after}, after)
			_, again := declared(addOn(after...), test.driver)
			require.False(t, again, "once is enough")
			require.Equal(t, test.before, mca.Status.Registrations[0], "what the cache has is left alone")
			require.Equal(t, changed, !equalRegistration(test.before, test.after))
		})
	}
}

func equalRegistration(a, b addonv1beta1.RegistrationConfig) bool {
	return (a.KubeClient == nil) == (b.KubeClient == nil) && (a.KubeClient == nil ||
		a.KubeClient.Driver == b.KubeClient.Driver && a.KubeClient.Subject.User == b.KubeClient.Subject.User)
}

func TestWantedOf(t *testing.T) {
	byDefault := identity.Subject{User: "system:open-cluster-management:cluster:c1:addon:a:agent:a", Groups: []string{"system:open-cluster-management:cluster:c1:addon:a"}}
	for _, test := range []struct {
		name string
		mca  *addonv1beta1.ManagedClusterAddOn
		want []wanted
	}{
		{"nothing registered", addOn(), nil},
		{"default subject", addOn(kube("csr", "")), []wanted{
			{"a", defaultNamespace, "a-hub-kubeconfig", "csr", identity.KubeSigner, byDefault},
		}},
		{"subject and signer of its own", addOn(kube("token", account), custom("example.test/lantern", "u", "unit")), []wanted{
			{"a", defaultNamespace, "a-hub-kubeconfig", "token", identity.KubeSigner, identity.Subject{User: account}},
			{"a", defaultNamespace, "a-example.test-lantern-client-cert", "csr", "example.test/lantern", identity.Subject{User: "u", Units: []string{"unit"}}},
		}},
		{"twice the same signer", addOn(custom("s/t", "first"), custom("s/t", "second")), []wanted{
			{"a", defaultNamespace, "a-s-t-client-cert", "csr", "s/t", identity.Subject{User: "first"}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, wantedOf(test.mca))
		})
	}
}

func TestInstallNamespace(t *testing.T) {
	annotated := map[string]string{addonv1beta1.InstallNamespaceAnnotation: "annotated"}
	for _, test := range []struct {
		name, status string
		annotations  map[string]string
		want         string
	}{
		{"nothing said", "", nil, "open-cluster-management-agent-addon"},
		{"annotation", "", annotated, "annotated"},
		{"status", "status", annotated, "status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mca := addOn()
			mca.Annotations, mca.Status.Namespace = test.annotations, test.status
			require.Equal(t, test.want, installNamespace(mca))
		})
	}
}

func TestHostedOn(t *testing.T) {
	for _, test := range []struct{ annotation, want string }{{"", ""}, {"c1", ""}, {"c2", "c2"}} {
		mca := addOn()
		mca.Annotations = map[string]string{addonv1beta1.HostingClusterNameAnnotationKey: test.annotation}
		require.Equal(t, test.want, hostedOn(mca))
	}
}
