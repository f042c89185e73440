package approval

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"crypto/ecdsa"
	"crypto/elliptic"

	"nave/pkg/identity"
	"nave/pkg/token"
)

var agent = identity.Agent{Cluster: "cluster1", Name: "a1"}

// forge makes a request as an agent does, after both the certificate request and the object were altered.
func forge(t *testing.T, key crypto.Signer, certificate func(*x509.CertificateRequest), object func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}}
	if certificate != nil {
		certificate(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr", Labels: map[string]string{identity.ClusterNameLabel: agent.Cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
			Username:   agent.User(),
			Groups:     append(agent.Groups(), "system:authenticated"),
		},
	}
	if object != nil {
		object(csr)
	}
	return csr
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// TestAttacks are what somebody who may create signing requests can try. None may be approved without a person.
func TestAttacks(t *testing.T) {
	key := newKey(t)
	basicConstraints := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}
	other := identity.Agent{Cluster: "cluster10", Name: "a1"}
	for _, test := range []struct {
		name        string
		certificate func(*x509.CertificateRequest)
		object      func(*certificatesv1.CertificateSigningRequest)
	}{
		{"renewal for another cluster", func(c *x509.CertificateRequest) {
			c.Subject = pkix.Name{CommonName: other.User(), Organization: other.Groups()}
		},
			func(c *certificatesv1.CertificateSigningRequest) { c.Labels[identity.ClusterNameLabel] = other.Cluster }},
		{"requester whose cluster begins alike", nil, func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Username, c.Spec.Groups = other.User(), other.Groups()
		}},
		{"renewal for another agent of the cluster", func(c *x509.CertificateRequest) {
			c.Subject.CommonName = identity.Agent{Cluster: "cluster1", Name: "a2"}.User()
		}, nil},
		{"another cluster's group", func(c *x509.CertificateRequest) {
			c.Subject.Organization = append(agent.Groups(), identity.ClusterGroup("cluster2"))
		}, nil},
		{"administrators' group", func(c *x509.CertificateRequest) { c.Subject.Organization = append(agent.Groups(), "system:masters") }, nil},
		{"group twice", func(c *x509.CertificateRequest) {
			c.Subject.Organization = append(agent.Groups(), identity.ClusterGroup("cluster1"))
		}, nil},
		{"no group", func(c *x509.CertificateRequest) { c.Subject.Organization = nil }, nil},
		{"organizational unit", func(c *x509.CertificateRequest) { c.Subject.OrganizationalUnit = []string{"x"} }, nil},
		{"name of a host", func(c *x509.CertificateRequest) { c.DNSNames = []string{"hub"} }, nil},
		{"address of a host", func(c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }, nil},
		{"CA", func(c *x509.CertificateRequest) { c.ExtraExtensions = []pkix.Extension{basicConstraints} }, nil},
		{"server's usage", nil, func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageServerAuth)
		}},
		{"signer's usage", nil, func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageCertSign)
		}},
		{"other signer", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Spec.SignerName = "example.com/signer" }},
		{"label of another cluster", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Labels[identity.ClusterNameLabel] = "cluster2" }},
		{"no label", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Labels = nil }},
		{"label of an add-on", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Labels[identity.AddOnNameLabel] = "a" }},
		{"requester that is nobody", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Username, c.Spec.Groups = "alice", nil }},
		{"requester with the name and without the group", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Groups = nil }},
		{"requester of two clusters", nil, func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Groups = append(c.Spec.Groups, identity.ClusterGroup("cluster2"))
		}},
		{"letters that look alike", func(c *x509.CertificateRequest) { c.Subject.CommonName = "system:open-cluster-management:сluster1:a1" }, nil},
		{"two requests in one", nil, func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Request = append(c.Spec.Request, c.Spec.Request...)
		}},
		{"no request", nil, func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Request = []byte("hello") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			csr := forge(t, key, test.certificate, test.object)
			r, err := parse(csr)
			require.False(t, err == nil && renewal(csr, r), "it is approved")
		})
	}
	csr := forge(t, key, nil, nil)
	r, err := parse(csr)
	require.NoError(t, err)
	require.True(t, renewal(csr, r), "the honest one is")
}

func TestJoinTokens(t *testing.T) {
	key := newKey(t)
	joined := func(c *certificatesv1.CertificateSigningRequest) {
		c.Spec.Username = identity.BootstrapUserPrefix + "abcdefghij"
		c.Spec.Groups = []string{identity.BootstrapGroup}
		c.Spec.Extra = map[string]certificatesv1.ExtraValue{identity.JoinTokenExtra: {"abcdefghij"}}
	}
	csr := forge(t, key, nil, joined)
	r, err := parse(csr)
	require.NoError(t, err)
	require.False(t, renewal(csr, r))
	id, ok := joinTokenOf(csr)
	require.True(t, ok)
	require.Equal(t, "abcdefghij", id)

	csr.Spec.Extra = nil
	_, ok = joinTokenOf(csr)
	require.False(t, ok, "a bootstrap token of that name is no join token")

	good := token.Record{AutoAccept: true, Cluster: "cluster1", Key: r.key}
	for _, test := range []struct {
		name   string
		change func(*token.Record)
		want   bool
	}{
		{"made to accept, and used for this", func(*token.Record) {}, true},
		{"not made to accept", func(r *token.Record) { r.AutoAccept = false }, false},
		{"used for another cluster", func(r *token.Record) { r.Cluster = "cluster2" }, false},
		{"used with another key", func(r *token.Record) { r.Key = "00" }, false},
		{"not used yet", func(r *token.Record) { r.Key = "" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			record := good
			test.change(&record)
			require.Equal(t, test.want, covered(record, r))
		})
	}
}

func TestSuperseded(t *testing.T) {
	all := func(versions ...string) (all []*certificatesv1.CertificateSigningRequest) {
		for _, v := range versions {
			all = append(all, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}})
		}
		return all
	}
	for _, test := range []struct {
		name            string
		alike, expected []*certificatesv1.CertificateSigningRequest
	}{
		{"none", nil, nil},
		{"few", all("9", "10", "11"), nil},
		{"many", all("101", "9", "100", "12", "10", "11", "99"), all("9", "10")},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.expected, superseded(test.alike)) })
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"), "cluster1")
	f.Fuzz(func(t *testing.T, request []byte, label string) {
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{identity.ClusterNameLabel: label}},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName},
		}
		if r, err := parse(csr); err == nil {
			require.Equal(t, label, r.agent.Cluster)
		}
	})
}
