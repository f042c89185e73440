package approval

import (
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/token"
)

// request is what a signing request asks for, once it is known to be that of a klusterlet agent.
type request struct {
	agent identity.Agent
	key   string // token.KeyHash of the public key
}

// parse reads a signing request of a klusterlet agent. It returns an error that says why it is none.
func parse(csr *certificatesv1.CertificateSigningRequest) (request, error) {
	agent, x, err := requestOf(csr).ForAgent()
	if err != nil {
		return request{}, err
	}
	return request{agent: agent, key: token.KeyHash(x.RawSubjectPublicKeyInfo)}, nil
}

// addOnOf is the agent of an add-on that a signing request is for; it reports false for every other request.
func addOnOf(csr *certificatesv1.CertificateSigningRequest) (identity.AddOnAgent, bool) {
	if _, labelled := csr.Labels[identity.AddOnNameLabel]; !labelled {
		return identity.AddOnAgent{}, false
	}
	agent, _, err := requestOf(csr).ForAddOn()
	return agent, err == nil
}

func requestOf(csr *certificatesv1.CertificateSigningRequest) identity.Request {
	usages := make([]string, len(csr.Spec.Usages))
	for i, usage := range csr.Spec.Usages {
		usages[i] = string(usage)
	}
	return identity.Request{Text: csr.Spec.Request, Signer: csr.Spec.SignerName, Usages: usages, Labels: csr.Labels}
}

// accepted is the cluster with this name if the hub accepts it and does not part with it; nil otherwise.
func (a *Controller) accepted(name string) (*clusterv1.ManagedCluster, error) {
	mc, err := a.clusters.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("managed cluster %s: %w", name, err)
	}
	if !mc.Spec.HubAcceptsClient || mc.DeletionTimestamp != nil {
		return nil, nil
	}
	return mc, nil
}

// ofLife tells whether the requester's certificate was issued in this life of the cluster. The API server took the uid
// from the certificate.
func ofLife(csr *certificatesv1.CertificateSigningRequest, mc *clusterv1.ManagedCluster) bool {
	return csr.Spec.UID == string(mc.UID)
}

// registered tells whether an add-on's hub side wants it to have a certificate of this hub.
func registered(mca *addonv1alpha1.ManagedClusterAddOn) bool {
	return slices.ContainsFunc(mca.Status.Registrations, func(r addonv1alpha1.RegistrationConfig) bool {
		//lint:ignore SA1019 deprecated for users, and what is stored
		return r.SignerName == identity.KubeSigner
	})
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
