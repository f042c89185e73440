// Package approval approves the signing requests of klusterlet agents: renewals by the agent itself, and the first request
// of a cluster whose join token says so. All others wait for a person (spec 1.5).
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/log"
	"nave/pkg/reconcile"
	"nave/pkg/token"
)

const (
	// workers handle different requests side by side; each costs a few calls.
	workers = 4

	reasonApproved  = "AutoApprovedByHubCSRApprovingController"
	messageApproved = "Auto approving Managed cluster agent certificate after SubjectAccessReview."

	// autoAccepted marks a cluster that was accepted without being asked about, so that it happens once: a later denial
	// by a person sticks (spec 1.2).
	autoAccepted = "open-cluster-management.io/automatically-accepted-on"
)

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log              logrus.FieldLogger
	Kube             kubernetes.Interface
	Clusters         clusterclient.Interface
	KubeInformers    informers.SharedInformerFactory
	ClusterInformers clusterinformers.SharedInformerFactory
	Clock            clock.PassiveClock
}

// Controller approves requests.
type Controller struct {
	Config
	loop     *reconcile.Loop
	requests certificateslisters.CertificateSigningRequestLister
	clusters clusterlisters.ManagedClusterLister
	synced   []cache.InformerSynced
}

// New registers for new and changed requests.
func New(c Config) (*Controller, error) {
	requests := c.KubeInformers.Certificates().V1().CertificateSigningRequests()
	clusters := c.ClusterInformers.Cluster().V1().ManagedClusters()
	a := &Controller{Config: c, requests: requests.Lister(), clusters: clusters.Lister()}
	a.loop = reconcile.New("approval", c.Log, workers, a.reconcile)
	enqueue := func(obj any) {
		if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && !decided(csr) {
			a.loop.Add(csr.Name)
		}
	}
	registration, err := requests.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }})
	if err != nil {
		return nil, fmt.Errorf("approval: watch signing requests: %w", err)
	}
	a.synced = []cache.InformerSynced{registration.HasSynced, clusters.Informer().HasSynced}
	return a, nil
}

// Run works until ctx ends.
func (a *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	return a.loop.Run(ctx)
}

func (a *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	csr, err := a.requests.Get(name)
	if apierrors.IsNotFound(err) || (err == nil && decided(csr)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	r, err := parse(csr)
	if err != nil {
		return 0, nil // not an agent's: somebody else's business
	}
	if renewal(csr, r) {
		return 0, a.renew(ctx, csr, r)
	}
	if id, ok := joinTokenOf(csr); ok {
		return 0, a.admit(ctx, csr, r, id)
	}
	return 0, nil
}

// renew approves the request of an agent whose cluster is accepted and that may renew.
func (a *Controller) renew(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request) error {
	mc, err := a.clusters.Get(r.agent.Cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("managed cluster %s: %w", r.agent.Cluster, err)
	}
	if !mc.Spec.HubAcceptsClient || mc.DeletionTimestamp != nil {
		return nil
	}
	allowed, err := a.mayRenew(ctx, csr, r.agent.Cluster)
	if err != nil || !allowed {
		return err
	}
	return a.approve(ctx, csr, r)
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

// admit accepts a cluster and approves its request, if the join token behind the request says so.
func (a *Controller) admit(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request, id string) error {
	stored, err := a.Kube.CoreV1().Secrets(token.Namespace).Get(ctx, token.SecretName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("join token %s: %w", id, err)
	}
	record, err := token.FromSecret(stored)
	if err != nil {
		return err
	}
	if !covered(record, r) {
		return nil
	}
	// Straight from the API: the cluster was created a moment ago, and the cache may not have it.
	mc, err := a.Clusters.ClusterV1().ManagedClusters().Get(ctx, r.agent.Cluster, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("managed cluster %s: %w", r.agent.Cluster, err)
	}
	if mc.DeletionTimestamp != nil {
		return fmt.Errorf("managed cluster %s is being deleted; its next life is admitted", mc.Name)
	}
	accepted, err := a.acceptOnce(ctx, mc)
	if err != nil || !accepted {
		return err
	}
	return a.approve(ctx, csr, r)
}

// acceptOnce accepts a cluster that was never accepted by itself, and tells whether it is accepted then: what a person
// decided later stands.
func (a *Controller) acceptOnce(ctx context.Context, mc *clusterv1.ManagedCluster) (bool, error) {
	if _, done := mc.Annotations[autoAccepted]; done {
		return mc.Spec.HubAcceptsClient, nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{autoAccepted: a.Clock.Now().UTC().Format(time.RFC3339)}},
		"spec":     map[string]any{"hubAcceptsClient": true},
	})
	if err != nil {
		return false, err
	}
	if _, err := a.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return false, fmt.Errorf("accept managed cluster %s: %w", mc.Name, err)
	}
	a.Log.WithField(log.FieldCluster, mc.Name).Info("cluster is accepted by its join token")
	return true, nil
}

func (a *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, r request) error {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reasonApproved, Message: messageApproved,
	})
	if _, err := a.Kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("approve signing request %s: %w", csr.Name, err)
	}
	a.Log.WithFields(logrus.Fields{log.FieldCluster: r.agent.Cluster, log.FieldObject: csr.Name}).Info("signing request is approved")
	return nil
}
