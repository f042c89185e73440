package apiserver

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"nave/pkg/identity"
)

// markRequester notes on a new signing request who made it, where a list can select by it, and keeps the note.
func markRequester(a admission.Attributes, csr *certificates.CertificateSigningRequest) error {
	old, err := oldOf[certificates.CertificateSigningRequest](a)
	if err != nil {
		return err
	}
	mark := identity.RequesterHash(a.GetUserInfo().GetName())
	if old != nil {
		mark = old.Labels[identity.RequesterLabel]
	}
	if mark == "" {
		delete(csr.Labels, identity.RequesterLabel)
		return nil
	}
	if csr.Labels == nil {
		csr.Labels = map[string]string{}
	}
	csr.Labels[identity.RequesterLabel] = mark
	return nil
}

// keepsLabels lets nobody give a signing request to another cluster or add-on afterwards, through whatever subresource.
func keepsLabels(a admission.Attributes, csr *certificates.CertificateSigningRequest) error {
	old, err := oldOf[certificates.CertificateSigningRequest](a)
	if err != nil || old == nil {
		return err
	}
	for _, label := range []string{identity.ClusterNameLabel, identity.AddOnNameLabel} {
		before, had := old.Labels[label]
		after, has := csr.Labels[label]
		if before != after || had != has {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), csr.Name, fmt.Errorf("label %s of a signing request never changes; it was %q", label, before))
		}
	}
	return nil
}
