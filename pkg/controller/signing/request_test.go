package signing

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	uidasn1 "k8s.io/apimachinery/pkg/apis/asn1"
	"k8s.io/utils/ptr"

	"nave/pkg/identity"
	"nave/pkg/pki"
)

func approved(t *testing.T, template *x509.CertificateRequest, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := pki.NewKey()
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	if usages == nil {
		usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}
	}
	return &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: usages,
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}},
	}
}

func TestParse(t *testing.T) {
	agent, addon := identity.Agent{Cluster: "c1", Name: "a1"}, identity.AddOnAgent{Cluster: "c2", AddOn: "a", Name: "a"}
	for _, test := range []struct {
		name, commonName, user string
		groups                 []string
		usages                 []certificatesv1.KeyUsage
		cluster                string
		renewed                bool
		fails                  string
	}{
		{name: "agent", commonName: agent.User(), user: identity.BootstrapAccount, cluster: "c1"},
		{name: "agent that renews", commonName: agent.User(), user: agent.User(), groups: agent.Groups(), cluster: "c1", renewed: true},
		{name: "agent of an add-on", commonName: addon.User(), user: agent.User(), groups: agent.Groups(), cluster: "c2"},
		{name: "somebody else", commonName: "jane", user: "jane"},
		{name: "a server", commonName: "jane", usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth}, fails: "invalid usage"},
		{name: "no client", commonName: "jane", usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}, fails: "missing required usage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			csr := approved(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: test.commonName}}, test.usages...)
			csr.Spec.Username, csr.Spec.Groups, csr.Spec.UID = test.user, test.groups, "uid"
			got, err := parse(csr)
			if test.fails != "" {
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.cluster, got.cluster)
			require.Equal(t, test.renewed, got.renewed == "uid")
		})
	}
}

// TestTemplate signs what a request asks for beyond what it may have.
func TestTemplate(t *testing.T) {
	basic, err := asn1.Marshal(struct{ CA bool }{true})
	require.NoError(t, err)
	csr := approved(t, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jane", Organization: []string{"people"}, ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: uidasn1.X509UID(), Value: "forged"},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "jane"},
		}},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: basic}},
	})
	w, err := parse(csr)
	require.NoError(t, err)
	ca, err := pki.LoadAuthority(t.TempDir()+"/ca.pem", "ca", time.Now())
	require.NoError(t, err)
	sign := func(w wanted) *x509.Certificate {
		template, err := w.template(time.Now(), time.Hour, ca.Certificate.NotAfter)
		require.NoError(t, err)
		signed, err := ca.Sign(template, w.request.PublicKey)
		require.NoError(t, err)
		return signed
	}
	uid := func(c *x509.Certificate) (values []any) {
		for _, name := range c.Subject.Names {
			if name.Type.Equal(uidasn1.X509UID()) {
				values = append(values, name.Value)
			}
		}
		return values
	}
	signed := sign(w)
	require.False(t, signed.IsCA)
	require.Empty(t, uid(signed), "a uid that was asked for is dropped")
	require.Equal(t, "jane", signed.Subject.CommonName)
	w.life = "life"
	require.Equal(t, []any{"life"}, uid(sign(w)))
}

func TestEnds(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		name    string
		seconds *int32
		life    time.Duration
		ca      time.Duration
		want    time.Duration
	}{
		{"nothing asked", nil, year, 10 * year, year - backdate},
		{"less asked", ptr.To(int32(3600)), year, 10 * year, time.Hour},
		{"more asked", ptr.To(int32(3600)), 15 * time.Minute, 10 * year, 15 * time.Minute},
		{"too little asked", ptr.To(int32(1)), year, 10 * year, leastLife},
		{"the authority ends first", nil, year, time.Hour, time.Hour},
		{"a life of seconds", nil, 10 * time.Second, year, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, now.Add(test.want), wanted{seconds: test.seconds}.ends(now, test.life, now.Add(test.ca)))
		})
	}
}
