// Package signing signs the approved requests for client certificates of this hub, as kube-controller-manager does, but
// for one thing: the certificate of an agent also names the life of its cluster, by the uid of the ManagedCluster. So a
// certificate is never good for another cluster that gets the same name later (D5), and that depends on no clock.
package signing

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"
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
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/pki"
	"nave/pkg/reconcile"
)

// workers sign side by side; most of the time goes into a few calls each.
const workers = 4

// Config is what the controller needs. The hub starts the informers.
type Config struct {
	Log           logrus.FieldLogger
	Kube          kubernetes.Interface
	Clusters      clusterclient.Interface
	KubeInformers informers.SharedInformerFactory
	Clock         clock.PassiveClock
	CAFile        string        // certificate and key of the CA, in one PEM file; it is read at each signing, so it can be replaced
	Life          time.Duration // of certificates for which no shorter one is asked
}

// Controller signs requests.
type Controller struct {
	Config
	loop     *reconcile.Loop
	requests certificateslisters.CertificateSigningRequestLister
	synced   cache.InformerSynced
}

// New registers for approved requests.
func New(c Config) (*Controller, error) {
	requests := c.KubeInformers.Certificates().V1().CertificateSigningRequests()
	s := &Controller{Config: c, requests: requests.Lister()}
	s.loop = reconcile.New("signing", c.Log, workers, s.reconcile)
	enqueue := func(obj any) {
		if csr, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && waiting(csr) {
			s.loop.Add(csr.Name)
		}
	}
	registration, err := requests.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }})
	if err != nil {
		return nil, fmt.Errorf("signing: watch signing requests: %w", err)
	}
	s.synced = registration.HasSynced
	return s, nil
}

// Run works until ctx ends.
func (s *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), s.synced) {
		return nil
	}
	return s.loop.Run(ctx)
}

func (s *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	csr, err := s.requests.Get(name)
	if apierrors.IsNotFound(err) || (err == nil && !waiting(csr)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	csr = csr.DeepCopy()
	wanted, err := parse(csr)
	if err != nil {
		return 0, s.fail(ctx, csr, "SignerValidationFailure", err.Error())
	}
	authority, err := s.authority()
	if err != nil {
		return 0, err
	}
	if wanted.cluster != "" {
		mc, err := s.Clusters.ClusterV1().ManagedClusters().Get(ctx, wanted.cluster, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("managed cluster %s: %w", wanted.cluster, err)
		}
		if apierrors.IsNotFound(err) {
			return 0, s.fail(ctx, csr, "ClusterNotRegistered", fmt.Sprintf("ManagedCluster %s does not exist", wanted.cluster))
		}
		if wanted.renewed != "" && wanted.renewed != mc.UID {
			return 0, s.fail(ctx, csr, "ClusterReplaced", fmt.Sprintf("the request was made for a ManagedCluster %s that is gone", wanted.cluster))
		}
		wanted.life = mc.UID
		if err := s.record(ctx, mc, wanted, authority); err != nil {
			return 0, err
		}
	}
	return 0, s.sign(ctx, csr, wanted, authority)
}

// authority reads the CA, which may have been replaced since the last time.
func (s *Controller) authority() (*pki.Authority, error) {
	text, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	authority, err := pki.ParseAuthority(text)
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", s.CAFile, err)
	}
	return authority, nil
}

// record notes on a cluster which CA signs for its agent, so that a CA is not dropped while agents depend on it.
func (s *Controller) record(ctx context.Context, mc *clusterv1.ManagedCluster, wanted wanted, authority *pki.Authority) error {
	id := pki.ID(authority.Certificate)
	if wanted.addOn || mc.Annotations[identity.ClientCAAnnotation] == id {
		return nil
	}
	body, err := reconcile.MergePatch(mc, map[string]any{"metadata": map[string]any{"annotations": map[string]any{identity.ClientCAAnnotation: id}}})
	if err != nil {
		return err
	}
	if _, err := s.Clusters.ClusterV1().ManagedClusters().Patch(ctx, mc.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("managed cluster %s: %w", mc.Name, err)
	}
	return nil
}

func (s *Controller) sign(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, wanted wanted, authority *pki.Authority) error {
	template, err := wanted.template(s.Clock.Now(), s.Life, authority.Certificate.NotAfter)
	if err != nil {
		return fmt.Errorf("signing request %s: %w", csr.Name, err)
	}
	signed, err := authority.Sign(template, wanted.request.PublicKey)
	if err != nil {
		return fmt.Errorf("sign request %s: %w", csr.Name, err)
	}
	csr.Status.Certificate = pki.CertificatePEM(signed)
	if _, err := s.Kube.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("certificate of signing request %s: %w", csr.Name, err)
	}
	return nil
}

// fail tells the requester why there will be no certificate, though the request was approved.
func (s *Controller) fail(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, reason, message string) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: metav1.NewTime(s.Clock.Now()),
	})
	if _, err := s.Kube.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("failure of signing request %s: %w", csr.Name, err)
	}
	s.Log.WithFields(logrus.Fields{log.FieldObject: csr.Name, log.FieldReason: reason}).Warn("approved signing request is not signed")
	return nil
}
