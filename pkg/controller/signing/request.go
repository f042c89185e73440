package signing

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/apis/asn1"
	"k8s.io/apimachinery/pkg/types"

	"nave/pkg/identity"
)

const (
	// backdate allows for peers whose clock is behind. It is never more than half of what a certificate lives for, or its
	// holder would take most of its life for over.
	backdate = 5 * time.Minute
	// shortLife is below what the backdate is not taken off the end of a certificate.
	shortLife = 8 * time.Hour
	// leastLife is the shortest that can be asked for.
	leastLife = 10 * time.Minute
)

// wanted is what a signing request asks for.
type wanted struct {
	request *x509.CertificateRequest
	usages  []certificatesv1.KeyUsage
	seconds *int32
	cluster string    // whose agent the certificate is for; empty if it is no agent's
	addOn   bool      // it is for the agent of an add-on
	renewed types.UID // of the cluster that the requester was an agent of; empty unless an agent asked
	life    types.UID // of the cluster as it is now
}

// waiting tells whether a request is approved, ours, and neither signed nor failed.
func waiting(csr *certificatesv1.CertificateSigningRequest) bool {
	has := func(kind certificatesv1.RequestConditionType) bool {
		return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
	}
	return csr.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && len(csr.Status.Certificate) == 0 &&
		has(certificatesv1.CertificateApproved) && !has(certificatesv1.CertificateDenied) && !has(certificatesv1.CertificateFailed)
}

func parse(csr *certificatesv1.CertificateSigningRequest) (wanted, error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return wanted{}, errors.New("request holds no PEM block of type CERTIFICATE REQUEST")
	}
	x, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return wanted{}, fmt.Errorf("certificate request: %w", err)
	}
	if err := x.CheckSignature(); err != nil {
		return wanted{}, fmt.Errorf("certificate request is not signed with its own key: %w", err)
	}
	w := wanted{request: x, usages: csr.Spec.Usages, seconds: csr.Spec.ExpirationSeconds}
	if _, err := w.keyUsage(); err != nil {
		return wanted{}, err
	}
	if agent, ok := identity.ParseAgent(x.Subject.CommonName); ok {
		w.cluster = agent.Cluster
	} else if agent, ok := identity.ParseAddOnAgent(x.Subject.CommonName); ok {
		w.cluster, w.addOn = agent.Cluster, true
	}
	if requester, ok := identity.AgentOf(csr.Spec.Username, csr.Spec.Groups); ok && requester.Cluster == w.cluster {
		w.renewed = types.UID(csr.Spec.UID)
	}
	return w, nil
}

// keyUsage are the usages of a client's certificate; the signer knows no others.
func (w wanted) keyUsage() (x509.KeyUsage, error) {
	var usage x509.KeyUsage
	for _, u := range w.usages {
		switch u {
		case certificatesv1.UsageDigitalSignature:
			usage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			usage |= x509.KeyUsageKeyEncipherment
		case certificatesv1.UsageClientAuth:
		default:
			return 0, fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(w.usages, certificatesv1.UsageClientAuth) {
		return 0, fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return usage, nil
}

// template is the certificate to be signed. Of the request's subject it takes the known attributes, of its extensions the
// alternative names; it is never a CA's.
func (w wanted) template(now time.Time, life time.Duration, authorityEnds time.Time) (*x509.Certificate, error) {
	if !now.Before(authorityEnds) {
		return nil, fmt.Errorf("the certificate authority expired at %s", authorityEnds.Format(time.RFC3339))
	}
	usage, err := w.keyUsage()
	if err != nil {
		return nil, err
	}
	subject := w.request.Subject
	subject.ExtraNames = nil
	if w.life != "" {
		// Kubernetes' authenticator takes this attribute as the user's uid.
		subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.X509UID(), Value: string(w.life)}}
	}
	end := w.ends(now, life, authorityEnds)
	return &x509.Certificate{
		Subject:               subject,
		NotBefore:             now.Add(-min(backdate, end.Sub(now)/2)),
		NotAfter:              end,
		KeyUsage:              usage,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		DNSNames:              w.request.DNSNames,
		IPAddresses:           w.request.IPAddresses,
		EmailAddresses:        w.request.EmailAddresses,
		URIs:                  w.request.URIs,
	}, nil
}

// ends is when the certificate ends: a shorter life than the usual one can be asked for, and none outlives its CA.
func (w wanted) ends(now time.Time, life time.Duration, authorityEnds time.Time) time.Time {
	if w.seconds != nil {
		life = min(life, max(leastLife, time.Duration(*w.seconds)*time.Second))
	}
	if life >= shortLife {
		life -= backdate
	}
	if end := now.Add(life); end.Before(authorityEnds) {
		return end
	}
	return authorityEnds
}
