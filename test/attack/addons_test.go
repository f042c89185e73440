package attack

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"nave/pkg/identity"
)

func addOnSubject(agent identity.AddOnAgent) pkix.Name {
	return pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}
}

// addOn makes an add-on of a cluster, with what its hub side registers for it.
func (p party) addOn(t *testing.T, cluster, name string, registrations ...addonv1beta1.RegistrationConfig) {
	t.Helper()
	_, ctx := start(t)
	addons := p.addons.AddonV1beta1().ManagedClusterAddOns(cluster)
	_, err := addons.Create(ctx, &addonv1beta1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cluster}}, metav1.CreateOptions{})
	require.NoError(t, err)
	body, err := json.Marshal(map[string]any{"status": map[string]any{"registrations": registrations}})
	require.NoError(t, err)
	_, err = addons.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

func addOnLabels(cluster, addon string) map[string]string {
	return map[string]string{identity.ClusterNameLabel: cluster, identity.AddOnNameLabel: addon}
}

// TestForgedAddOnRequest asks, as an honest cluster's agent, for more than its add-on has (S1, S2).
func TestForgedAddOnRequest(t *testing.T) {
	admin, ctx := start(t)
	self, _ := admin.join(ctx, t, "addon")
	admin.join(ctx, t, "addon0")
	kubeClient := addonv1beta1.RegistrationConfig{Type: addonv1beta1.KubeClient, KubeClient: &addonv1beta1.KubeClientConfig{}}
	admin.addOn(t, "addon", "registered", kubeClient)
	admin.addOn(t, "addon0", "registered", kubeClient)
	own := identity.AddOnAgent{Cluster: "addon", AddOn: "registered", Name: "registered-agent"}
	template := func(a identity.AddOnAgent, hosts []string, organizations ...string) *x509.CertificateRequest {
		return &x509.CertificateRequest{Subject: pkix.Name{CommonName: a.User(), Organization: append(a.Groups(), organizations...)}, DNSNames: hosts}
	}
	other := identity.AddOnAgent{Cluster: "addon0", AddOn: "registered", Name: "registered-agent"}
	missing := identity.AddOnAgent{Cluster: "addon", AddOn: "missing", Name: "missing-agent"}
	for _, test := range []struct {
		attack  string
		request request
		refusal string
	}{
		{"third organization", request{template: template(own, nil, identity.ClusterGroup("addon0"))}, "organizations"},
		{"fourth organization beside the harmless third", request{template: template(own, nil, "system:authenticated", identity.ClusterGroup("addon0"))}, "organizations"},
		{"administrators as third organization", request{template: template(own, nil, "system:masters")}, "system:masters"},
		{"prefix look-alike", request{template: template(other, nil)}, "labels name"},
		{"prefix look-alike with its label", request{template: template(other, nil), labels: addOnLabels("addon0", "registered")}, "does not name the cluster"},
		{"add-on that the cluster has not", request{template: template(missing, nil), labels: addOnLabels("addon", "missing")}, "has no ManagedClusterAddOn missing"},
		{"another add-on under the label of one that it has", request{template: template(missing, nil)}, "labels name"},
		{"a klusterlet under the label of an add-on", request{template: named(subject(identity.Agent{Cluster: "addon0", Name: "agent1"}))}, "is no add-on agent's"},
		{"alternative name of the hub", request{template: template(own, []string{"kubernetes.default.svc"})}, "the only subject alternative name"},
		{"server's usage", request{template: template(own, nil), usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}}, `usage "server auth"`},
	} {
		t.Run(test.attack, func(t *testing.T) {
			if test.request.labels == nil {
				test.request.labels = addOnLabels("addon", "registered")
			}
			_, err := self.ask(ctx, t, test.request)
			require.ErrorContains(t, err, test.refusal)
		})
	}
	for _, organizations := range [][]string{nil, {"system:authenticated"}} {
		_, err := self.ask(ctx, t, request{template: template(own, []string{own.Host()}, organizations...), labels: addOnLabels("addon", "registered")})
		require.NoError(t, err, "the honest request")
	}
}

// TestUnconditionalCustomSigner asks a signer of an add-on's own for whatever an agent likes (S3).
func TestUnconditionalCustomSigner(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "custom")
	const signer = "example.com/custom"
	admin.addOn(t, "custom", "signed", addonv1beta1.RegistrationConfig{Type: addonv1beta1.CustomSigner, CustomSigner: &addonv1beta1.CustomSignerConfig{
		SignerName: signer,
		Subject:    addonv1beta1.Subject{BaseSubject: addonv1beta1.BaseSubject{User: "custom-user", Groups: []string{"custom-group"}}, OrganizationUnits: []string{"unit"}},
	}})
	honest := pkix.Name{CommonName: "custom-user", Organization: []string{"custom-group"}, OrganizationalUnit: []string{"unit"}}
	change := func(change func(*pkix.Name)) *x509.CertificateRequest {
		name := honest
		change(&name)
		return named(name)
	}
	for _, test := range []struct {
		attack  string
		request request
		refusal string
	}{
		{"another user", request{template: change(func(n *pkix.Name) { n.CommonName = "root" })}, "is not the one that is registered"},
		{"another group", request{template: change(func(n *pkix.Name) { n.Organization = []string{"custom-group", "admins"} })}, "is not the one that is registered"},
		{"another unit", request{template: change(func(n *pkix.Name) { n.OrganizationalUnit = nil })}, "is not the one that is registered"},
		{"a signer that is not registered", request{template: named(honest), signer: "example.com/other"}, "is not among status.registrations"},
		{"server's usage", request{template: named(honest), usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}}, `usage "server auth"`},
		{"alternative name", request{template: &x509.CertificateRequest{Subject: honest, DNSNames: []string{"bank.example"}}}, "the only subject alternative name"},
	} {
		t.Run(test.attack, func(t *testing.T) {
			if test.request.signer == "" {
				test.request.signer = signer
			}
			test.request.labels = addOnLabels("custom", "signed")
			_, err := self.ask(ctx, t, test.request)
			require.ErrorContains(t, err, test.refusal)
		})
	}
	t.Run("registering a subject of its own choice", func(t *testing.T) {
		addons := self.addons.AddonV1beta1().ManagedClusterAddOns("custom")
		for _, body := range []string{
			`{"status":{"registrations":[{"type":"customSigner","customSigner":{"signerName":"example.com/custom","subject":{"user":"root"}}}]}}`,
			`{"status":{"registrations":[{"type":"customSigner","customSigner":{"signerName":"example.com/other"}}]}}`,
			`{"status":{"registrations":[]}}`,
		} {
			_, err := addons.Patch(ctx, "signed", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status")
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, "may not change status.registrations")
		}
		_, err := addons.Patch(ctx, "signed", types.MergePatchType, []byte(`{"status":{"conditions":[]}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err, "conditions are the agent's to write")
	})
	csr, err := self.ask(ctx, t, request{template: named(honest), signer: signer, labels: addOnLabels("custom", "signed")})
	require.NoError(t, err, "the honest request")
	// A renewal that comes after it is approved by the hub; this one is left to whoever signs it.
	renewal, err := self.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	admin.certificate(ctx, t, renewal.Name)
	kept, err := admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, kept.Status.Conditions, "the hub approves no request to a signer that it does not know")
}
