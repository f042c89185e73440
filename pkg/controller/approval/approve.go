package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/token"
)

const (
	reasonApproved = "AutoApprovedByHubCSRApprovingController"
	messageAgent   = "Auto approving Managed cluster agent certificate after SubjectAccessReview."
	messageAddOn   = "Auto approving the certificate of an add-on that is registered for the requesting cluster."
)

// reconcileRequest approves a request, or leaves it to others. Requests to signers other than the hub's own are always
// left to whoever signs them (spec 10.1, S3).
func (a *Controller) reconcileRequest(ctx context.Context, name string) (time.Duration, error) {
	csr, err := a.requests.Get(name)
	if apierrors.IsNotFound(err) || (err == nil && decided(csr)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if agent, ok := addOnOf(csr); ok {
		return 0, a.approveAddOn(ctx, csr, agent)
	}
	r, err := parse(csr)
	if err != nil {
		return 0, nil // not an agent's: somebody else's business
	}
	if renewal(csr, r) {
		return 0, a.renew(ctx, csr, r)
	}
	if id, ok := joinTokenOf(csr); ok {
		if done, err := a.admit(ctx, csr, r, id); done || err != nil {
			return 0, err
		}
	}
	if approved, err := a.approveListed(ctx, csr, r); approved || err != nil {
		return 0, err
	}
	return 0, a.supersede(ctx, csr, r)
}

// renew approves the request of an agent that may renew.
func (a *Controller) renew(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request) error {
	mc, err := a.accepted(r.agent.Cluster)
	if err != nil || mc == nil || !ofLife(csr, mc) {
		return err
	}
	allowed, err := a.mayRenew(ctx, csr, r.agent.Cluster)
	if err != nil || !allowed {
		return err
	}
	return a.approve(ctx, csr, r.agent.Cluster, messageAgent)
}

// mayRenew asks with the cluster's name, so that a right to renew can be one cluster's (spec 10.1, S6).
func (a *Controller) mayRenew(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, cluster string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range csr.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := a.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "register.open-cluster-management.io", Resource: "managedclusters", Subresource: "clientcertificates", Verb: "renew", Name: cluster,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("may %s renew: %w", csr.Spec.Username, err)
	}
	return review.Status.Allowed, nil
}

// admit accepts a cluster and approves its request, if the join token behind the request says so; it tells whether that
// is so.
func (a *Controller) admit(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request, id string) (bool, error) {
	stored, err := a.Kube.CoreV1().Secrets(token.Namespace).Get(ctx, token.SecretName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("join token %s: %w", id, err)
	}
	record, err := token.FromSecret(stored)
	if err != nil {
		return false, err
	}
	if !covered(record, r) {
		return false, nil
	}
	// Straight from the API: the cluster was created a moment ago, and the cache may not have it.
	mc, err := a.Clusters.ClusterV1().ManagedClusters().Get(ctx, r.agent.Cluster, metav1.GetOptions{})
	if err != nil {
		return true, fmt.Errorf("managed cluster %s: %w", r.agent.Cluster, err)
	}
	if mc.DeletionTimestamp != nil {
		return true, fmt.Errorf("managed cluster %s is being deleted; its next life is admitted", mc.Name)
	}
	accepted, err := a.acceptOnce(ctx, mc, "its join token says so")
	if err != nil || !accepted {
		return true, err
	}
	return true, a.approve(ctx, csr, r.agent.Cluster, messageAgent)
}

// approveListed approves the request of a listed user for a cluster that a listed user made and nobody denied; it tells
// whether that is so.
func (a *Controller) approveListed(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request) (bool, error) {
	s := a.Settings.Get()
	if !listed(s, csr.Spec.Username) {
		return false, nil
	}
	mc, err := a.accepted(r.agent.Cluster)
	if err != nil || mc == nil || !listed(s, mc.Annotations[identity.CreatedByAnnotation]) {
		return false, err
	}
	return true, a.approve(ctx, csr, r.agent.Cluster, messageAgent)
}

// approveAddOn approves what an agent asks for an add-on of its cluster that is registered to come with a certificate of
// this hub.
func (a *Controller) approveAddOn(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, agent identity.AddOnAgent) error {
	requester, ok := identity.AgentOf(csr.Spec.Username, csr.Spec.Groups)
	if !ok || requester.Cluster != agent.Cluster {
		return nil
	}
	mc, err := a.accepted(agent.Cluster)
	if err != nil || mc == nil || !ofLife(csr, mc) {
		return err
	}
	mca, err := a.addons.ManagedClusterAddOns(agent.Cluster).Get(agent.AddOn)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add-on %s/%s: %w", agent.Cluster, agent.AddOn, err)
	}
	if !registered(mca) {
		return nil
	}
	return a.approve(ctx, csr, agent.Cluster, messageAddOn)
}

func (a *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, cluster, message string) error {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reasonApproved, Message: message,
	})
	if _, err := a.Kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("approve signing request %s: %w", csr.Name, err)
	}
	a.Log.WithFields(logrus.Fields{log.FieldCluster: cluster, log.FieldObject: csr.Name}).Info("signing request is approved")
	return nil
}
