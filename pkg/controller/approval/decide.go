package approval

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"nave/pkg/identity"
	"nave/pkg/token"
)

// request is what a signing request asks for, once it is known to be that of a klusterlet agent.
type request struct {
	agent identity.Agent
	key   string // token.KeyHash of the public key
}

// parse reads a signing request of a klusterlet agent. It returns an error that says why it is none: what an agent asks
// for is exactly what it needs, and nothing that only looks like it (spec 1.5, 10.1).
func parse(csr *certificatesv1.CertificateSigningRequest) (request, error) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return request{}, fmt.Errorf("signer is %s", csr.Spec.SignerName)
	}
	block, rest := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return request{}, fmt.Errorf("request is not one PEM block of type CERTIFICATE REQUEST")
	}
	x, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return request{}, fmt.Errorf("certificate request: %w", err)
	}
	agent, ok := identity.ParseAgent(x.Subject.CommonName)
	if !ok {
		return request{}, fmt.Errorf("common name %q is no agent's", x.Subject.CommonName)
	}
	if err := checkSubject(x, agent); err != nil {
		return request{}, err
	}
	if label := csr.Labels[identity.ClusterNameLabel]; label != agent.Cluster {
		return request{}, fmt.Errorf("label names cluster %q, common name %q", label, agent.Cluster)
	}
	if _, addon := csr.Labels[identity.AddOnNameLabel]; addon {
		return request{}, fmt.Errorf("label names an add-on")
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return request{}, fmt.Errorf("usage %q is none of a client's", usage)
		}
	}
	return request{agent: agent, key: token.KeyHash(x.RawSubjectPublicKeyInfo)}, nil
}

func checkSubject(x *x509.CertificateRequest, agent identity.Agent) error {
	organizations := slices.Clone(x.Subject.Organization)
	organizations = slices.DeleteFunc(organizations, func(o string) bool { return o == identity.ManagedClustersGroup })
	if !slices.Equal(organizations, []string{identity.ClusterGroup(agent.Cluster)}) {
		return fmt.Errorf("organizations %q are not those of cluster %s", x.Subject.Organization, agent.Cluster)
	}
	if len(x.Subject.OrganizationalUnit) > 0 {
		return fmt.Errorf("organizational units %q are not an agent's", x.Subject.OrganizationalUnit)
	}
	if len(x.DNSNames)+len(x.IPAddresses)+len(x.EmailAddresses)+len(x.URIs) > 0 {
		return fmt.Errorf("subject alternative names are not an agent's")
	}
	// Extensions travel into the certificate as they are; basic constraints with CA:true among them would be a new CA.
	if len(x.Extensions) > 0 {
		return fmt.Errorf("extension %s is not an agent's", x.Extensions[0].Id)
	}
	return nil
}

// renewal tells whether the requester is the very agent that the certificate is for. Everything about the requester comes
// from the connection on which the request was made; the API server wrote it into the spec.
func renewal(csr *certificatesv1.CertificateSigningRequest, r request) bool {
	requester, ok := identity.AgentOf(csr.Spec.Username, csr.Spec.Groups)
	return ok && requester == r.agent
}

// joinTokenOf is the id of the join token that the request was made with. The extra comes from the API server's own
// authenticator.
func joinTokenOf(csr *certificatesv1.CertificateSigningRequest) (string, bool) {
	values := csr.Spec.Extra[identity.JoinTokenExtra]
	if len(values) != 1 || csr.Spec.Username != identity.BootstrapUserPrefix+values[0] {
		return "", false
	}
	return values[0], true
}

// covered tells whether a token with this record lets the cluster in without being asked: it was made to, and it was used
// for this cluster with this key.
func covered(record token.Record, r request) bool {
	return record.AutoAccept && record.RevokedAt.IsZero() && record.Cluster == r.agent.Cluster && record.Key == r.key
}

// decided tells whether somebody has approved or denied the request already.
func decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}
