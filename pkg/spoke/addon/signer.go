package addon

import (
	"crypto/x509"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"nave/pkg/token"
)

// signerAnnotation is which CA signed for the hub when the identity in a secret came from it.
const signerAnnotation = "nave.dev/signer"

// signerOf names the CA that signs for a hub: the first of those that it publishes. A hub replaces the CA that signs for
// its clients together with it.
func signerOf(bundle []byte) string {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return ""
	}
	first, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return token.KeyHash(first.RawSubjectPublicKeyInfo)
}

// signedUnder is the signer of the time when the identity in a secret came; empty if that is not known.
func signedUnder(secret *corev1.Secret) string {
	if signer, ok := secret.Annotations[signerAnnotation]; ok {
		return signer
	}
	// Not written by this agent: the kubeconfig came with the identity.
	config, err := clientcmd.Load(secret.Data[keyKubeconfig])
	if err != nil {
		return ""
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil {
		return ""
	}
	return signerOf(config.Clusters[current.Cluster].CertificateAuthorityData)
}

// predates tells whether the hub has replaced its CAs since it issued the certificate in a secret. It will forget the old
// ones once everybody has a certificate of the new ones.
func (r *Registrar) predates(w wanted, secret *corev1.Secret) bool {
	then := signedUnder(secret)
	return w.kube() && then != "" && then != signerOf(r.Endpoint.CertificateAuthorityData)
}
