package attack

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"nave/pkg/identity"
)

// subject is the honest subject of an agent, to be changed by an attack.
func subject(agent identity.Agent) pkix.Name {
	return pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}
}

func named(name pkix.Name) *x509.CertificateRequest { return &x509.CertificateRequest{Subject: name} }

func label(cluster string) map[string]string {
	return map[string]string{identity.ClusterNameLabel: cluster}
}

// TestForgedRenewal is CVE-2026-4740 in all its shapes: an agent with a good certificate asks for one that is not its own.
func TestForgedRenewal(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "forger")
	admin.accepted(ctx, t, "forged")
	admin.accepted(ctx, t, "forger0")
	victim := identity.Agent{Cluster: "forged", Name: "agent1"}
	lookalike := identity.Agent{Cluster: "forger0", Name: "agent1"}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	authority, err := asn1.Marshal(struct{ CA bool }{true})
	require.NoError(t, err)
	with := func(change func(*pkix.Name)) *x509.CertificateRequest {
		name := subject(agent)
		change(&name)
		return named(name)
	}
	seconds := int32(599)
	for _, test := range []struct {
		attack  string
		request request
		refusal string
	}{
		{"renewal for another cluster", request{agent: victim}, "does not name the cluster"},
		{"renewal for another cluster under the own label", request{agent: victim, labels: label("forger")}, "does not name the cluster"},
		{"renewal for another agent name", request{agent: identity.Agent{Cluster: "forger", Name: "agent2"}}, "may only renew its own certificate"},
		{"forged label on the own request", request{agent: agent, labels: label("forged")}, "does not name the cluster"},
		{"no label", request{agent: agent, labels: map[string]string{}}, "does not name the cluster"},
		{"prefix look-alike", request{agent: lookalike, labels: label("forger")}, "does not name the cluster"},
		{"prefix look-alike with its label", request{agent: lookalike}, "does not name the cluster"},
		{"extra organization", request{agent: agent, template: with(func(n *pkix.Name) { n.Organization = append(n.Organization, victim.Groups()[0]) })}, "organizations"},
		{"another organization", request{agent: agent, template: with(func(n *pkix.Name) { n.Organization = victim.Groups() })}, "organizations"},
		{"organization of all clusters only", request{agent: agent, template: with(func(n *pkix.Name) { n.Organization = n.Organization[1:] })}, "organizations"},
		{"the hub's administrators", request{agent: agent, template: with(func(n *pkix.Name) { n.Organization = []string{"system:masters"} })}, "system:masters"},
		{"no organization", request{agent: agent, template: with(func(n *pkix.Name) { n.Organization = nil })}, "organizations"},
		{"organizational unit", request{agent: agent, template: with(func(n *pkix.Name) { n.OrganizationalUnit = []string{"x"} })}, "organizational units"},
		{"the hub's administrator", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = "nave-admin" })}, "is no agent's"},
		{"a controller of the hub", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = "system:kube-controller-manager" })}, "is no agent's"},
		{"second common name", request{agent: agent, template: with(func(n *pkix.Name) {
			n.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: victim.User()}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: agent.User()}}
		})}, "common names"},
		{"uid of another life", request{agent: agent, template: with(func(n *pkix.Name) {
			n.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "forged"}}
		})}, "attribute 1.3.6.1.4.1.57683.2"},
		{"capitals", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = "system:open-cluster-management:Forged:agent1" })}, "is no agent's"},
		{"capitals in the prefix", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = "System:Open-Cluster-Management:forged:agent1" })}, "is no agent's"},
		{"cyrillic letters that look alike", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = "system:open-cluster-management:f\u043erged:agent1" })}, "is no agent's"},
		{"invisible letters", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = agent.User() + "\u200b" })}, "is no agent's"},
		{"a zero byte", request{agent: agent, template: with(func(n *pkix.Name) { n.CommonName = agent.User() + "\x00" })}, "is no agent's"},
		{"cyrillic organization", request{agent: agent, template: with(func(n *pkix.Name) {
			n.Organization = []string{strings.Replace(agent.Groups()[0], "forger", "f\u043erger", 1)}
		})}, "organizations"},
		{"an add-on's agent without the label", request{agent: agent, template: named(pkix.Name{CommonName: identity.AddOnAgent{Cluster: "forger", AddOn: "a", Name: "a"}.User()})}, "is no agent's"},
		{"extra DNS name", request{agent: agent, template: &x509.CertificateRequest{Subject: subject(agent), DNSNames: []string{"kubernetes.default.svc"}}}, "alternative names"},
		{"extra address", request{agent: agent, template: &x509.CertificateRequest{Subject: subject(agent), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}}, "alternative names"},
		{"extra mail address", request{agent: agent, template: &x509.CertificateRequest{Subject: subject(agent), EmailAddresses: []string{"a@b.c"}}}, "alternative names"},
		{"CA:true", request{agent: agent, template: &x509.CertificateRequest{Subject: subject(agent), ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: authority}}}}, "extension 2.5.29.19"},
		{"server's usage", request{agent: agent, usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth}}, `usage "server auth"`},
		{"signing usage", request{agent: agent, usages: []certificatesv1.KeyUsage{certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth}}, `usage "cert sign"`},
		{"kubelet's signer", request{agent: agent, signer: certificatesv1.KubeAPIServerClientKubeletSignerName}, "is not that of agents"},
		{"a signer of its own choice", request{agent: agent, signer: "example.com/any"}, "is not that of agents"},
		{"the signer that trusts what a request says about its user", request{agent: agent, signer: "open-cluster-management.io/grpc"}, "is not that of agents"},
		{"weak key", request{agent: agent, key: weak}, "RSA key has 1024 bits, which is not from 2048 to 8192"},
		{"life of seconds", request{agent: agent, seconds: &seconds}, "may not specify a duration less than 600 seconds"},
	} {
		t.Run(test.attack, func(t *testing.T) {
			_, err := self.ask(ctx, t, test.request)
			require.Error(t, err)
			require.ErrorContains(t, err, test.refusal)
		})
	}
	t.Run("request of a megabyte", func(t *testing.T) {
		csr := request{agent: agent}.build(t)
		csr.Spec.Request = append(csr.Spec.Request, []byte(strings.Repeat("\n", 1<<20))...)
		_, err := self.kube.CertificatesV1().CertificateSigningRequests().Create(ctx, csr, metav1.CreateOptions{})
		require.ErrorContains(t, err, "the limit is 16384")
	})
	t.Run("the honest renewal", func(t *testing.T) {
		for _, organizations := range [][]string{agent.Groups(), agent.Groups()[:1]} {
			csr, err := self.ask(ctx, t, request{agent: agent, template: with(func(n *pkix.Name) { n.Organization = organizations })})
			require.NoError(t, err)
			admin.certificate(ctx, t, csr.Name)
		}
	})
	t.Run("life of a century", func(t *testing.T) {
		century := int32(math.MaxInt32)
		csr, err := self.ask(ctx, t, request{agent: agent, seconds: &century})
		require.NoError(t, err, "signers shorten lives, as Kubernetes says they may")
		block, _ := pem.Decode(admin.certificate(ctx, t, csr.Name))
		certificate, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.LessOrEqual(t, certificate.NotAfter.Sub(certificate.NotBefore), 366*24*time.Hour)
		require.False(t, certificate.IsCA)
	})
}

// TestCertificateForAClusterThatIsNotThere is approved by mistake, and would be good for whoever comes under that name.
func TestCertificateForAClusterThatIsNotThere(t *testing.T) {
	admin, ctx := start(t)
	agent := identity.Agent{Cluster: "not-there", Name: "agent1"}
	_, err := admin.bootstrap(t).ask(ctx, t, request{agent: agent})
	require.ErrorContains(t, err, "ManagedCluster not-there does not exist")
	csr, err := admin.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	admin.approve(ctx, t, csr)
	require.Eventually(t, func() bool {
		csr, err = admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateFailed && c.Reason == "ClusterNotRegistered"
		})
	}, patience, tick)
	require.Empty(t, csr.Status.Certificate)
}

// TestRenewalWithoutAMatchingRequester has a bootstrap identity and a stranger ask for what only an agent gets by itself.
func TestRenewalWithoutAMatchingRequester(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "unmatched")
	stranger := admin.as(t, "stranger", "system:authenticated")
	csr, err := admin.bootstrap(t).ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	mine, err := admin.ask(ctx, t, request{agent: agent})
	require.NoError(t, err, "an administrator may ask for anything")
	_, err = stranger.ask(ctx, t, request{agent: agent})
	require.True(t, apierrors.IsForbidden(err), "%v", err)

	// A renewal that comes after them is approved; they are still not.
	renewal, err := self.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	admin.certificate(ctx, t, renewal.Name)
	for _, name := range []string{csr.Name, mine.Name} {
		kept, err := admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Empty(t, kept.Status.Conditions)
	}
}

// TestForgedLabelOnSomebodyElsesRequest tries to move a request to another cluster after it was admitted, and to pass for
// another requester.
func TestForgedLabelOnSomebodyElsesRequest(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "relabel")
	csr, err := admin.bootstrap(t).ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	relabel := func(who party, labels map[string]string, subresources ...string) error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		require.NoError(t, err)
		_, err = who.kube.CertificatesV1().CertificateSigningRequests().Patch(ctx, csr.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
		return err
	}
	require.True(t, apierrors.IsForbidden(relabel(self, label("other"))))
	for _, subresources := range [][]string{nil, {"status"}, {"approval"}} {
		require.ErrorContains(t, relabel(admin, label("other"), subresources...), "never changes")
		require.ErrorContains(t, relabel(admin, map[string]string{identity.AddOnNameLabel: "a"}, subresources...), "never changes")
	}
	require.NoError(t, relabel(admin, map[string]string{identity.RequesterLabel: identity.RequesterHash(agent.User()), "other": "label"}))
	kept, err := admin.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, identity.RequesterHash(identity.BootstrapAccount), kept.Labels[identity.RequesterLabel], "who made it stays")
}

// TestRequestsOfOthers reads what is somebody else's in every way that there is.
func TestRequestsOfOthers(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "reader")
	_, other := admin.join(ctx, t, "reader0")
	foreign, err := admin.bootstrap(t).ask(ctx, t, request{agent: other})
	require.NoError(t, err)
	own, err := self.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	requests := self.kube.CertificatesV1().CertificateSigningRequests()
	for _, selector := range []metav1.ListOptions{
		{}, {LabelSelector: identity.ClusterNameLabel + "=reader0"}, {LabelSelector: identity.ClusterNameLabel + " in (reader,reader0)"},
		{LabelSelector: identity.ClusterNameLabel + "!=reader"}, {FieldSelector: "metadata.name=" + foreign.Name},
	} {
		list, err := requests.List(ctx, selector)
		require.NoError(t, err)
		for _, csr := range list.Items {
			require.Equal(t, own.Name, csr.Name, "%+v", selector)
		}
		selector.ResourceVersion = "0"
		watched, err := requests.Watch(ctx, selector)
		require.NoError(t, err)
		// A cached watch begins with what there is, so an event of the own request tells that a foreign one will not come.
		if selector.LabelSelector == "" && selector.FieldSelector == "" {
			event := <-watched.ResultChan()
			seen, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
			require.True(t, ok)
			require.Equal(t, own.Name, seen.Name)
		}
		watched.Stop()
	}
	for _, path := range []string{"/watch/certificatesigningrequests", "/watch/certificatesigningrequests/" + foreign.Name, "/certificatesigningrequests?watch=true&labelSelector=a&labelSelector=b"} {
		body, err := self.kube.RESTClient().Get().RequestURI("/apis/certificates.k8s.io/v1" + path + querySeparator(path) + "resourceVersion=0&timeoutSeconds=1").DoRaw(ctx)
		require.NoError(t, err)
		require.NotContains(t, string(body), foreign.Name, path)
	}
	list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + "=reader"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1, "what upstream's agent lists")
	_, err = requests.Get(ctx, own.Name, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = requests.Get(ctx, foreign.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = requests.List(ctx, metav1.ListOptions{LabelSelector: "a b c"})
	require.True(t, apierrors.IsBadRequest(err), "%v", err)
}

func querySeparator(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}

// TestListsOfABootstrapIdentity asks for everything that there is (S8).
func TestListsOfABootstrapIdentity(t *testing.T) {
	admin, ctx := start(t)
	admin.join(ctx, t, "listed")
	bootstrap := admin.bootstrap(t)
	_, err := bootstrap.clusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "fieldSelector=metadata.name=NAME")
	list, err := bootstrap.clusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=listed"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	for _, selector := range []string{"", identity.ClusterNameLabel, identity.ClusterNameLabel + " in (a,b)", identity.ClusterNameLabel + "!=a"} {
		_, err = bootstrap.kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: selector})
		require.True(t, apierrors.IsForbidden(err), "%s: %v", selector, err)
		require.ErrorContains(t, err, "one cluster at a time")
	}
	requests, err := bootstrap.kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: identity.ClusterNameLabel + " = listed"})
	require.NoError(t, err)
	require.NotEmpty(t, requests.Items)
}

// TestHaltingAnotherClustersRotation fills up the measure of requests that upstream's agent stops at (S7).
func TestHaltingAnotherClustersRotation(t *testing.T) {
	admin, ctx := start(t)
	self, agent := admin.join(ctx, t, "halted")
	attacker := admin.bootstrap(t)
	var refused error
	made := 0
	for refused == nil && made < 20 {
		if _, refused = attacker.ask(ctx, t, request{agent: identity.Agent{Cluster: "halted", Name: fmt.Sprintf("agent-%d", made)}}); refused == nil {
			made++
		}
	}
	require.True(t, apierrors.IsForbidden(refused), "%v", refused)
	require.ErrorContains(t, refused, "the limit is 10")
	require.Equal(t, 10, made)

	list, err := self.kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: labels.Set(label("halted")).String()})
	require.NoError(t, err)
	require.Empty(t, list.Items, "what upstream's agent counts")
	csr, err := self.ask(ctx, t, request{agent: agent})
	require.NoError(t, err)
	admin.certificate(ctx, t, csr.Name)
	admin.accepted(ctx, t, "halted-not")
	_, err = attacker.ask(ctx, t, request{agent: identity.Agent{Cluster: "halted-not", Name: "agent1"}})
	require.NoError(t, err, "another cluster that joins with the same identity")
}
