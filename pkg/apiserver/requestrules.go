package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/certificates"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"nave/pkg/identity"
)

// addonReader reads a ManagedClusterAddOn.
type addonReader func(ctx context.Context, cluster, name string) (*addonv1alpha1.ManagedClusterAddOn, error)

// requestRules say which signing requests agents and bootstrap identities may make: what a request asks for has to be the
// requester's own (D5). Everybody else is left alone; nothing of what they ask is approved by itself.
type requestRules struct {
	clusters clusterReader
	addons   addonReader
	pending  *pendingRequests
}

// Validate checks a new signing request.
func (r *requestRules) Validate(ctx context.Context, a admission.Attributes, csr *certificates.CertificateSigningRequest) error {
	u := a.GetUserInfo()
	if identity.IsBootstrap(u) {
		return explained(a, csr, r.validateBootstrap(ctx, csr))
	}
	if agent, ok := identity.AgentOf(u.GetName(), u.GetGroups()); ok {
		return explained(a, csr, r.validateAgent(ctx, agent, csr))
	}
	return explained(a, csr, r.validateOther(u, csr))
}

// Count counts a signing request that nothing else speaks against, and refuses one too many.
func (r *requestRules) Count(a admission.Attributes, csr *certificates.CertificateSigningRequest) error {
	u := a.GetUserInfo()
	limit := maxPendingOfBootstrap
	if !identity.IsBootstrap(u) {
		if _, ok := identity.AgentOf(u.GetName(), u.GetGroups()); !ok {
			return nil
		}
		limit = maxPendingOfAgent
	}
	if a.IsDryRun() {
		return nil
	}
	return explained(a, csr, r.pending.take(u.GetName(), csr, limit))
}

// validateOther lets add-on agents ask for whatever is no agent's, as their own roles allow. The requests that concern
// their cluster are made by its klusterlet.
func (r *requestRules) validateOther(u user.Info, csr *certificates.CertificateSigningRequest) error {
	agent, ok := identity.AddOnAgentOf(u.GetName(), u.GetGroups())
	if !ok {
		return nil
	}
	if _, labelled := csr.Labels[identity.ClusterNameLabel]; labelled || csr.Spec.SignerName == identity.KubeSigner {
		return fmt.Errorf("add-on %s does not ask for certificates of cluster %s itself; the cluster's agent does", agent.AddOn, agent.Cluster)
	}
	return nil
}

func (r *requestRules) validateAgent(ctx context.Context, agent identity.Agent, csr *certificates.CertificateSigningRequest) error {
	if label := csr.Labels[identity.ClusterNameLabel]; label != agent.Cluster {
		return fmt.Errorf("label %s=%q does not name the cluster %q of the requester", identity.ClusterNameLabel, label, agent.Cluster)
	}
	addon, isAddOn := csr.Labels[identity.AddOnNameLabel]
	if !isAddOn {
		asked, _, err := requestOf(csr).ForAgent()
		if err != nil {
			return err
		}
		if asked != agent {
			return fmt.Errorf("agent %s of cluster %s may only renew its own certificate, not that of agent %s of cluster %s", agent.Name, agent.Cluster, asked.Name, asked.Cluster)
		}
		return nil
	}
	mca, err := r.addons(ctx, agent.Cluster, addon)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s has no ManagedClusterAddOn %s", agent.Cluster, addon)
	}
	if err != nil {
		return internal{fmt.Errorf("read ManagedClusterAddOn %s/%s: %w", agent.Cluster, addon, err)}
	}
	if csr.Spec.SignerName != identity.KubeSigner {
		return validateSigner(mca, csr)
	}
	asked, _, err := requestOf(csr).ForAddOn()
	if err != nil {
		return err
	}
	if asked.Cluster != agent.Cluster {
		return fmt.Errorf("agents of cluster %s may not ask for certificates of cluster %s", agent.Cluster, asked.Cluster)
	}
	return nil
}

// validateSigner wants a signer of the add-on's own to be registered, with the subject that is asked for (S3).
func validateSigner(mca *addonv1alpha1.ManagedClusterAddOn, csr *certificates.CertificateSigningRequest) error {
	err := fmt.Errorf("signer %s is not among status.registrations of ManagedClusterAddOn %s/%s", csr.Spec.SignerName, mca.Namespace, mca.Name)
	for _, registered := range mca.Status.Registrations {
		//lint:ignore SA1019 deprecated for users, and what is stored
		signer, s := registered.SignerName, registered.Subject
		if signer != csr.Spec.SignerName {
			continue
		}
		if _, err = requestOf(csr).ForSigner(mca.Namespace, mca.Name, identity.Subject{User: s.User, Groups: s.Groups, Units: s.OrganizationUnits}); err == nil {
			return nil
		}
	}
	return err
}

// validateBootstrap lets bootstrap identities ask for certificates of klusterlet agents of clusters that exist.
func (r *requestRules) validateBootstrap(ctx context.Context, csr *certificates.CertificateSigningRequest) error {
	agent, _, err := requestOf(csr).ForAgent()
	if err != nil {
		return fmt.Errorf("a bootstrap identity can only ask for the certificate of an agent: %w", err)
	}
	_, err = r.clusters(ctx, agent.Cluster)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("ManagedCluster %s does not exist; create it before asking for its certificate", agent.Cluster)
	}
	if err != nil {
		return internal{fmt.Errorf("read ManagedCluster %s: %w", agent.Cluster, err)}
	}
	return nil
}

func requestOf(csr *certificates.CertificateSigningRequest) identity.Request {
	usages := make([]string, len(csr.Spec.Usages))
	for i, usage := range csr.Spec.Usages {
		usages[i] = string(usage)
	}
	return identity.Request{Text: csr.Spec.Request, Signer: csr.Spec.SignerName, Usages: usages, Labels: csr.Labels}
}

// internal marks an error that is not the requester's.
type internal struct{ error }

func explained(a admission.Attributes, csr *certificates.CertificateSigningRequest, err error) error {
	if err == nil {
		return nil
	}
	var mine internal
	if errors.As(err, &mine) {
		return apierrors.NewInternalError(mine.error)
	}
	name := csr.Name
	if name == "" {
		name = strings.TrimSuffix(csr.GenerateName, "-")
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), name, err)
}
