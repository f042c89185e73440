package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

const (
	// KubeSigner signs the certificates that the hub itself takes.
	KubeSigner = "kubernetes.io/kube-apiserver-client"

	// maxRequestBytes is several times what a request with the largest key has.
	maxRequestBytes = 16 << 10

	// RSA keys below this are weak, and above that take long to check.
	minRSABits, maxRSABits = 2048, 8192
	// minCurveBits is the smallest curve that TLS still uses.
	minCurveBits = 256

	authenticatedGroup = "system:authenticated"
)

// Request is what a certificate signing request says, before anything of it is believed. Its methods read it as that of one
// kind of requester, or say why it is none: what an agent asks for is exactly what it needs, and nothing that only looks
// like it (spec 1.5, 2.6, 10.1).
type Request struct {
	Text   []byte // PEM
	Signer string
	Usages []string
	Labels map[string]string
}

// Subject is whom a certificate is for, where an add-on says so itself.
type Subject struct {
	User   string
	Groups []string
	Units  []string
}

// ForAgent reads the request of a klusterlet agent.
func (r Request) ForAgent() (Agent, *x509.CertificateRequest, error) {
	x, err := r.decode()
	if err != nil {
		return Agent{}, nil, err
	}
	agent, ok := ParseAgent(x.Subject.CommonName)
	switch {
	case r.Signer != KubeSigner:
		return Agent{}, nil, fmt.Errorf("signer %s is not that of agents, %s", r.Signer, KubeSigner)
	case !ok:
		return Agent{}, nil, fmt.Errorf("common name %q is no agent's", x.Subject.CommonName)
	case r.Labels[ClusterNameLabel] != agent.Cluster:
		return Agent{}, nil, fmt.Errorf("label %s=%q does not name the cluster %q of the certificate", ClusterNameLabel, r.Labels[ClusterNameLabel], agent.Cluster)
	case !sameSet(x.Subject.Organization, agent.Groups()) && !sameSet(x.Subject.Organization, agent.Groups()[:1]):
		return Agent{}, nil, fmt.Errorf("organizations %q are not those of agents of cluster %s", x.Subject.Organization, agent.Cluster)
	case len(x.Subject.OrganizationalUnit) > 0:
		return Agent{}, nil, fmt.Errorf("organizational units %q are not an agent's", x.Subject.OrganizationalUnit)
	}
	if _, addon := r.Labels[AddOnNameLabel]; addon {
		return Agent{}, nil, fmt.Errorf("label %s is not that of an agent's request", AddOnNameLabel)
	}
	return agent, x, checkNames(x, "")
}

// ForAddOn reads the request of an add-on's agent to this hub.
func (r Request) ForAddOn() (AddOnAgent, *x509.CertificateRequest, error) {
	x, err := r.decode()
	if err != nil {
		return AddOnAgent{}, nil, err
	}
	agent, ok := ParseAddOnAgent(x.Subject.CommonName)
	switch {
	case r.Signer != KubeSigner:
		return AddOnAgent{}, nil, fmt.Errorf("signer %s is not that of agents, %s", r.Signer, KubeSigner)
	case !ok:
		return AddOnAgent{}, nil, fmt.Errorf("common name %q is no add-on agent's", x.Subject.CommonName)
	case r.Labels[ClusterNameLabel] != agent.Cluster || r.Labels[AddOnNameLabel] != agent.AddOn:
		return AddOnAgent{}, nil, fmt.Errorf("labels name add-on %q of cluster %q, the common name add-on %q of cluster %q",
			r.Labels[AddOnNameLabel], r.Labels[ClusterNameLabel], agent.AddOn, agent.Cluster)
	case !agent.DefaultGroups(x.Subject.Organization):
		return AddOnAgent{}, nil, fmt.Errorf("organizations %q are not those of add-on %s on cluster %s", x.Subject.Organization, agent.AddOn, agent.Cluster)
	case len(x.Subject.OrganizationalUnit) > 0:
		return AddOnAgent{}, nil, fmt.Errorf("organizational units %q are not an add-on agent's", x.Subject.OrganizationalUnit)
	}
	return agent, x, checkNames(x, agent.Host())
}

// ForSigner reads the request of an add-on's agent to a signer of the add-on's own, which the subject was registered for.
// An empty subject is the add-on's default one.
func (r Request) ForSigner(cluster, addon string, subject Subject) (*x509.CertificateRequest, error) {
	x, err := r.decode()
	if err != nil {
		return nil, err
	}
	host := AddOnAgent{Cluster: cluster, AddOn: addon}.Host()
	if subject.User == "" && len(subject.Groups)+len(subject.Units) == 0 {
		agent, ok := ParseAddOnAgent(x.Subject.CommonName)
		if !ok || agent.Cluster != cluster || agent.AddOn != addon || !agent.DefaultGroups(x.Subject.Organization) || len(x.Subject.OrganizationalUnit) > 0 {
			return nil, fmt.Errorf("subject %s is not that of add-on %s on cluster %s", x.Subject, addon, cluster)
		}
		return x, checkNames(x, host)
	}
	if x.Subject.CommonName != subject.User || !sameSet(x.Subject.Organization, subject.Groups) || !sameSet(x.Subject.OrganizationalUnit, subject.Units) {
		return nil, fmt.Errorf("subject %s is not the one that is registered for signer %s", x.Subject, r.Signer)
	}
	return x, checkNames(x, host)
}

// DefaultGroups tells whether these are an add-on agent's groups and nothing else but the one that everybody is in (S1).
func (a AddOnAgent) DefaultGroups(groups []string) bool {
	own := a.Groups()
	return sameSet(groups, own) || sameSet(groups, own[:1]) || sameSet(groups, append(own, authenticatedGroup))
}

// decode reads the text of a request within its limits, and checks what holds for every agent.
func (r Request) decode() (*x509.CertificateRequest, error) {
	if len(r.Text) > maxRequestBytes {
		return nil, fmt.Errorf("request has %d bytes, the limit is %d", len(r.Text), maxRequestBytes)
	}
	block, rest := pem.Decode(r.Text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("request is not one PEM block of type CERTIFICATE REQUEST")
	}
	x, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if err := checkKey(x.PublicKey); err != nil {
		return nil, err
	}
	if err := x.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request is not signed with its own key: %w", err)
	}
	for _, usage := range r.Usages {
		if usage != "digital signature" && usage != "key encipherment" && usage != "client auth" {
			return nil, fmt.Errorf("usage %q is none of a client's", usage)
		}
	}
	return x, checkSubject(x)
}

func checkKey(key any) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if bits := key.Params().BitSize; bits < minCurveBits {
			return fmt.Errorf("ECDSA key has %d bits, fewer than %d", bits, minCurveBits)
		}
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("RSA key has %d bits, which is not from %d to %d", bits, minRSABits, maxRSABits)
		}
		return nil
	}
	return fmt.Errorf("key of type %T is not RSA, ECDSA or Ed25519", key)
}

// checkSubject allows one common name, and organizations and their units beside it. Of two common names one program takes
// the first and another the last.
func checkSubject(x *x509.CertificateRequest) error {
	commonNames := 0
	for _, name := range x.Subject.Names {
		switch {
		case name.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}):
			commonNames++
		case name.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 10}), name.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 11}):
		default:
			return fmt.Errorf("attribute %s of the subject is not an agent's", name.Type)
		}
	}
	if commonNames != 1 {
		return fmt.Errorf("subject has %d common names, not one", commonNames)
	}
	return nil
}

// checkNames allows no alternative name but host, if there is one, and no other extension: a signer may carry them into
// the certificate, and basic constraints with CA:true among them would make a new CA.
func checkNames(x *x509.CertificateRequest, host string) error {
	if len(x.IPAddresses)+len(x.EmailAddresses)+len(x.URIs) > 0 || slices.ContainsFunc(x.DNSNames, func(n string) bool { return n != host }) {
		if host == "" {
			return errors.New("subject alternative names are not an agent's")
		}
		return fmt.Errorf("the only subject alternative name of the add-on's agent is %s", host)
	}
	for _, extension := range x.Extensions {
		if host == "" || !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			return fmt.Errorf("extension %s is not an agent's", extension.Id)
		}
	}
	return nil
}

// sameSet tells whether two lists hold the same, in any order, each once.
func sameSet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b) && len(slices.Compact(a)) == len(b)
}
