package addon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	testclock "k8s.io/utils/clock/testing"

	"nave/pkg/identity"
	"nave/pkg/pki"
)

// TestPredates follows the secret of an add-on through a rotation of the hub's CAs.
func TestPredates(t *testing.T) {
	now := time.Now()
	certificate := func(name string) []byte {
		a, err := pki.LoadAuthority(t.TempDir()+"/ca.pem", name, now)
		require.NoError(t, err)
		return pki.CertificatePEM(a.Certificate)
	}
	first, next := certificate("first"), certificate("next")
	both := func(a, b []byte) []byte { return append(append([]byte{}, a...), b...) }
	w := wanted{addon: "a", namespace: "n", secret: "s", driver: driverCertificate, signer: identity.KubeSigner}
	r := &Registrar{Config: Config{
		Agent: identity.Agent{Cluster: "c1"}, Entry: "hub", Endpoint: clientcmdapi.Cluster{Server: "https://hub"}, Clock: testclock.NewFakePassiveClock(now),
	}}
	secret := &corev1.Secret{}
	fill := func(bundle []byte, certificate string) {
		r.Endpoint.CertificateAuthorityData = bundle
		data, err := r.common(w)
		require.NoError(t, err)
		data[keyCertificate] = []byte(certificate)
		secret = r.filled(w, secret, data)
	}
	fill(first, "one")
	require.False(t, r.predates(w, secret))
	fill(both(first, next), "one")
	require.False(t, r.predates(w, secret), "the next one does not sign yet")
	fill(both(next, first), "one")
	require.True(t, r.predates(w, secret), "it does, and the certificate is of before, although the kubeconfig is not")
	require.False(t, r.predates(wanted{signer: "example.test/own"}, secret), "other signers are not the hub's")
	delete(secret.Annotations, signerAnnotation)
	require.False(t, r.predates(w, secret), "what somebody else wrote is as old as its kubeconfig")
	fill(both(first, next), "one")
	fill(both(next, first), "two")
	require.False(t, r.predates(w, secret), "renewed")
	fill(next, "two")
	require.False(t, r.predates(w, secret))
	require.True(t, r.ofHub(w, secret))
}
