package addon

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	addonv1beta1 "open-cluster-management.io/api/addon/v1beta1"

	"nave/pkg/identity"
)

// Drivers are how an add-on's agent comes to the hub's API: with a certificate, or with a token.
const (
	driverCertificate = "csr"
	driverToken       = "token"
)

// wanted is an identity that an add-on's agent is to have, and the secret in which it finds it.
type wanted struct {
	addon     string
	namespace string
	secret    string
	driver    string
	signer    string
	subject   identity.Subject // of a certificate
}

// kube tells whether the identity is for the hub's API.
func (w wanted) kube() bool { return w.signer == identity.KubeSigner }

func (w wanted) key() string { return w.namespace + "/" + w.secret }

func (w wanted) same(other wanted) bool {
	return w.key() == other.key() && w.driver == other.driver && w.signer == other.signer && equality.Semantic.DeepEqual(w.subject, other.subject)
}

// declared are the registrations as the agent declares them: by which driver the add-on comes to the hub's API, and, with a
// token, that it is the service account; the hub gives the account its rights by that. changed tells whether they differ.
func declared(mca *addonv1beta1.ManagedClusterAddOn, driver string) (registrations []addonv1beta1.RegistrationConfig, changed bool) {
	account := addonv1beta1.BaseSubject{User: identity.AddOnAgent{Cluster: mca.Namespace, AddOn: mca.Name}.ServiceAccount()}
	registrations = mca.DeepCopy().Status.Registrations
	for i := range registrations {
		r := &registrations[i]
		if r.Type != addonv1beta1.KubeClient {
			continue
		}
		if r.KubeClient == nil {
			r.KubeClient = &addonv1beta1.KubeClientConfig{}
		}
		r.KubeClient.Driver = driver
		switch {
		case driver == driverToken:
			r.KubeClient.Subject.BaseSubject = account
		case r.KubeClient.Subject.User == account.User:
			// Of the time with a token; the hub may choose another one, else it is the default.
			r.KubeClient.Subject.BaseSubject = addonv1beta1.BaseSubject{}
		}
	}
	return registrations, !equality.Semantic.DeepEqual(registrations, mca.Status.Registrations)
}

// wantedOf are the identities of an add-on whose driver is declared. Of two registrations for one secret the first counts.
func wantedOf(mca *addonv1beta1.ManagedClusterAddOn) []wanted {
	var all []wanted
	for _, r := range mca.Status.Registrations {
		w := wanted{addon: mca.Name, namespace: installNamespace(mca), driver: driverCertificate}
		switch {
		case r.Type == addonv1beta1.KubeClient && r.KubeClient != nil:
			w.secret, w.signer = mca.Name+"-hub-kubeconfig", identity.KubeSigner
			w.driver = r.KubeClient.Driver
			w.subject = subjectOr(mca, r.KubeClient.Subject.BaseSubject, nil)
		case r.Type == addonv1beta1.CustomSigner && r.CustomSigner != nil:
			w.signer = r.CustomSigner.SignerName
			w.secret = mca.Name + "-" + strings.ReplaceAll(w.signer, "/", "-") + "-client-cert"
			w.subject = subjectOr(mca, r.CustomSigner.Subject.BaseSubject, r.CustomSigner.Subject.OrganizationUnits)
		default:
			continue // the server lets nothing else pass
		}
		if !slices.ContainsFunc(all, func(o wanted) bool { return o.secret == w.secret }) {
			all = append(all, w)
		}
	}
	return all
}

// subjectOr is the subject that a registration names, or the default one of add-ons.
func subjectOr(mca *addonv1beta1.ManagedClusterAddOn, s addonv1beta1.BaseSubject, units []string) identity.Subject {
	if s.User != "" || len(s.Groups) > 0 || len(units) > 0 {
		return identity.Subject{User: s.User, Groups: s.Groups, Units: units}
	}
	agent := identity.AddOnAgent{Cluster: mca.Namespace, AddOn: mca.Name, Name: mca.Name}
	return identity.Subject{User: agent.User(), Groups: agent.Groups()[:1]}
}
