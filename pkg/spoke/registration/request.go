package registration

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/util/keyutil"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	requestBlock = "CERTIFICATE REQUEST"

	// lookAgain is how soon a request is looked at again after a watch of it ended.
	lookAgain = time.Second
)

// errDenied says that a person refused the request. Another one is made once it is gone.
var errDenied = errors.New("was denied on the hub; to let the cluster in after all, remove the request there, or wait an hour until it is cleaned up")

// obtain asks the hub for a certificate of agent with key, and waits until it is issued. A request with the same key that
// waits on the hub already, from before a restart, is taken up again rather than repeated (spec 10.2, C24).
func obtain(ctx context.Context, logger logrus.FieldLogger, client certificatesclient.CertificateSigningRequestInterface, agent identity.Agent, key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: agent.User(), Organization: agent.Groups()},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der})
	for {
		csr, err := pending(ctx, client, agent, key.Public())
		if err != nil {
			return nil, err
		}
		if csr == nil {
			if csr, err = client.Create(ctx, newRequest(agent, text), metav1.CreateOptions{}); err != nil {
				return nil, fmt.Errorf("create signing request for cluster %s: %w", agent.Cluster, err)
			}
			logger.WithFields(logrus.Fields{log.FieldCluster: agent.Cluster, log.FieldObject: csr.Name}).Info("asked the hub for a certificate")
		}
		certificate, err := awaitCertificate(ctx, client, csr)
		if err != nil || certificate != nil {
			return certificate, err
		}
		// The request is gone: cleaned up before anybody looked at it.
	}
}

func newRequest(agent identity.Agent, text []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: agent.Cluster + "-", Labels: map[string]string{identity.ClusterNameLabel: agent.Cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    text,
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
}

// pending finds a request of ours on the hub.
func pending(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, agent identity.Agent, public crypto.PublicKey) (*certificatesv1.CertificateSigningRequest, error) {
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{identity.ClusterNameLabel: agent.Cluster}.String()})
	if err != nil {
		return nil, fmt.Errorf("list signing requests of cluster %s: %w", agent.Cluster, err)
	}
	for i := range list.Items {
		if asksFor(&list.Items[i], agent, public) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

func asksFor(csr *certificatesv1.CertificateSigningRequest, agent identity.Agent, public crypto.PublicKey) bool {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return false
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.Subject.CommonName != agent.User() {
		return false
	}
	asked, ok := request.PublicKey.(*ecdsa.PublicKey)
	return ok && asked.Equal(public)
}

// awaitCertificate returns the certificate once it is issued, and nil if the request goes away.
func awaitCertificate(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	name := csr.Name
	for {
		certificate, err := issued(csr)
		if err != nil || certificate != nil {
			return certificate, err
		}
		if err := awaitChange(ctx, client, csr); err != nil {
			return nil, err
		}
		csr, err = client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("signing request %s: %w", name, err)
		}
	}
}

func issued(csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range csr.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return nil, fmt.Errorf("signing request %s %w", csr.Name, errDenied)
		case certificatesv1.CertificateFailed:
			return nil, fmt.Errorf("signing request %s failed: %s", csr.Name, c.Message)
		}
	}
	if len(csr.Status.Certificate) > 0 {
		return csr.Status.Certificate, nil
	}
	return nil, nil
}

// awaitChange returns when something happened to the request, or the watch of it ended.
func awaitChange(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, csr *certificatesv1.CertificateSigningRequest) error {
	events, err := client.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", csr.Name).String(),
		ResourceVersion: csr.ResourceVersion,
		LabelSelector:   labels.Set{identity.ClusterNameLabel: csr.Labels[identity.ClusterNameLabel]}.String(),
	})
	if err != nil {
		return wait(ctx, lookAgain)
	}
	defer events.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case _, ok := <-events.ResultChan():
		if !ok {
			return wait(ctx, lookAgain)
		}
		return nil
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(reconcile.Jitter(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// parseKey reads a private key that was kept.
func parseKey(text []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key of type %T cannot sign", key)
	}
	return signer, nil
}
