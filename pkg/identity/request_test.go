package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"
)

func encode(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func curveKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

func TestKeys(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	agent := Agent{Cluster: "c1", Name: "a1"}
	for _, test := range []struct {
		name string
		key  crypto.Signer
		want string
	}{
		{"P-256", curveKey(t, elliptic.P256()), ""},
		{"P-521", curveKey(t, elliptic.P521()), ""},
		{"Ed25519", edwards, ""},
		{"P-224", curveKey(t, elliptic.P224()), "ECDSA key has 224 bits, fewer than 256"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := encode(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}}, test.key)
			got, _, err := Request{Text: text, Signer: KubeSigner, Labels: map[string]string{ClusterNameLabel: "c1"}}.ForAgent()
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, agent, got)
		})
	}
}

// TestSignature sends a request that was changed after it was signed: its sender does not have the key.
func TestSignature(t *testing.T) {
	agent := Agent{Cluster: "c1", Name: "a1"}
	text := encode(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}}, curveKey(t, elliptic.P256()))
	block, _ := pem.Decode(text)
	block.Bytes[len(block.Bytes)-1] ^= 1
	_, _, err := Request{Text: pem.EncodeToMemory(block), Signer: KubeSigner, Labels: map[string]string{ClusterNameLabel: "c1"}}.ForAgent()
	require.ErrorContains(t, err, "is not signed with its own key")
}

func TestForAddOn(t *testing.T) {
	agent := AddOnAgent{Cluster: "c1", AddOn: "a", Name: "a-agent"}
	own := agent.Groups()
	labels := map[string]string{ClusterNameLabel: "c1", AddOnNameLabel: "a"}
	key := curveKey(t, elliptic.P256())
	for _, test := range []struct {
		name   string
		groups []string
		labels map[string]string
		ok     bool
	}{
		{"both groups", own, labels, true},
		{"both groups in another order", []string{own[1], own[0]}, labels, true},
		{"the cluster's only", own[:1], labels, true},
		{"with the one that everybody is in", append(own[:2:2], "system:authenticated"), labels, true},
		{"the add-on's of all clusters only", own[1:], labels, false},
		{"another third one", append(own[:2:2], "system:masters"), labels, false},
		{"the harmless one twice", append(own[:2:2], "system:authenticated", "system:authenticated"), labels, false},
		{"none", nil, labels, false},
		{"label of another add-on", own, map[string]string{ClusterNameLabel: "c1", AddOnNameLabel: "b"}, false},
		{"no label of an add-on", own, map[string]string{ClusterNameLabel: "c1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := encode(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: agent.User(), Organization: test.groups}, DNSNames: []string{agent.Host()}}, key)
			got, _, err := Request{Text: text, Signer: KubeSigner, Labels: test.labels}.ForAddOn()
			require.Equal(t, test.ok, err == nil, "%v", err)
			if test.ok {
				require.Equal(t, agent, got)
			}
		})
	}
}

func TestForSigner(t *testing.T) {
	agent := AddOnAgent{Cluster: "c1", AddOn: "a", Name: "a-agent"}
	registered := Subject{User: "u", Groups: []string{"g"}, Units: []string{"o"}}
	key := curveKey(t, elliptic.P256())
	for _, test := range []struct {
		name       string
		subject    pkix.Name
		registered Subject
		ok         bool
	}{
		{"as registered", pkix.Name{CommonName: "u", Organization: []string{"g"}, OrganizationalUnit: []string{"o"}}, registered, true},
		{"more groups", pkix.Name{CommonName: "u", Organization: []string{"g", "h"}, OrganizationalUnit: []string{"o"}}, registered, false},
		{"the default where none is registered", pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}, Subject{}, true},
		{"the default where one is registered", pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}, registered, false},
		{"another cluster's default", pkix.Name{CommonName: AddOnAgent{"c10", "a", "a"}.User(), Organization: agent.Groups()}, Subject{}, false},
		{"another add-on's default", pkix.Name{CommonName: AddOnAgent{"c1", "b", "a"}.User(), Organization: agent.Groups()}, Subject{}, false},
		{"anything where none is registered", pkix.Name{CommonName: "u"}, Subject{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := encode(t, &x509.CertificateRequest{Subject: test.subject}, key)
			_, err := Request{Text: text, Signer: "example.com/signer"}.ForSigner("c1", "a", test.registered)
			require.Equal(t, test.ok, err == nil, "%v", err)
		})
	}
}

func FuzzRequest(f *testing.F) {
	agent, addon := Agent{Cluster: "c1", Name: "a1"}, AddOnAgent{Cluster: "c1", AddOn: "a", Name: "a"}
	key := curveKey(f, elliptic.P256())
	f.Add(encode(f, &x509.CertificateRequest{Subject: pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}}, key), "c1", "")
	f.Add(encode(f, &x509.CertificateRequest{Subject: pkix.Name{CommonName: addon.User(), Organization: addon.Groups()}, DNSNames: []string{addon.Host()}}, key), "c1", "a")
	f.Fuzz(func(t *testing.T, text []byte, cluster, addon string) {
		r := Request{Text: text, Signer: KubeSigner, Labels: map[string]string{ClusterNameLabel: cluster}}
		if agent, x, err := r.ForAgent(); err == nil {
			require.Equal(t, cluster, agent.Cluster)
			_, own := AgentOf(x.Subject.CommonName, x.Subject.Organization)
			require.True(t, own, "a request that is let pass makes a certificate of that agent")
		}
		r.Labels[AddOnNameLabel] = addon
		if agent, x, err := r.ForAddOn(); err == nil {
			require.Equal(t, cluster, agent.Cluster)
			require.Equal(t, addon, agent.AddOn)
			_, own := AddOnAgentOf(x.Subject.CommonName, x.Subject.Organization)
			require.True(t, own)
		}
	})
}
