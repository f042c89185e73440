// Package certrequest asks a hub for a client certificate by a CertificateSigningRequest and waits for it (spec 2.2).
package certrequest

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
	"k8s.io/utils/ptr"

	"nave/pkg/identity"
	"nave/pkg/log"
	"nave/pkg/reconcile"
)

const (
	requestBlock = "CERTIFICATE REQUEST"

	// lookAgain is how soon a request is looked at again after a watch of it ended.
	lookAgain = time.Second
)

// ErrDenied says that a person refused the request. Another one is made once it is gone.
var ErrDenied = errors.New("was denied on the hub; to change that, remove the request there, or wait an hour until it is cleaned up")

// Request is a certificate that is wanted.
type Request struct {
	Log        logrus.FieldLogger
	Client     certificatesclient.CertificateSigningRequestInterface
	NamePrefix string            // of the request on the hub
	Labels     map[string]string // with identity.ClusterNameLabel; requests are found by all of them
	Signer     string
	Subject    pkix.Name
	DNSNames   []string
	Usages     []certificatesv1.KeyUsage
	Lifetime   time.Duration // zero leaves it to the hub
	Key        crypto.Signer

	Requester  string // who asks; with MaxPending
	MaxPending int    // undecided requests of Requester with the same labels beyond which no more are made; 0 is no limit
}

// ErrTooMany says that nobody decides about the requests that are there already, so that no more are made.
var ErrTooMany = errors.New("too many signing requests wait on the hub already; approve or delete them there")

// ClientUsages are the usages of certificates with which a client logs on.
func ClientUsages() []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth}
}

// ForAgent is the request of a klusterlet agent.
func ForAgent(agent identity.Agent) Request {
	return Request{
		NamePrefix: agent.Cluster + "-",
		Labels:     map[string]string{identity.ClusterNameLabel: agent.Cluster},
		Signer:     certificatesv1.KubeAPIServerClientSignerName,
		Subject:    pkix.Name{CommonName: agent.User(), Organization: agent.Groups()},
		Usages:     ClientUsages(),
	}
}

// Obtain returns the certificate as PEM once it is issued. A request with the same subject and key that waits on the hub
// already, from before a restart, is taken up again rather than repeated (spec 10.2, C24).
func Obtain(ctx context.Context, r Request) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: r.Subject, DNSNames: r.DNSNames}, r.Key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der})
	for {
		csr, err := r.pending(ctx)
		if err != nil {
			return nil, err
		}
		if csr == nil {
			if csr, err = r.Client.Create(ctx, r.object(text), metav1.CreateOptions{}); err != nil {
				return nil, fmt.Errorf("create signing request for %s: %w", r.Subject.CommonName, err)
			}
			r.Log.WithField(log.FieldObject, csr.Name).Info("asked the hub for a certificate")
		}
		certificate, err := r.await(ctx, csr)
		if err != nil || certificate != nil {
			return certificate, err
		}
		// The request is gone: cleaned up before anybody looked at it.
	}
}

func (r Request) object(text []byte) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: r.NamePrefix, Labels: r.Labels},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: text, SignerName: r.Signer, Usages: r.Usages},
	}
	if r.Lifetime > 0 {
		csr.Spec.ExpirationSeconds = ptr.To(int32(r.Lifetime / time.Second))
	}
	return csr
}

// pending finds a request of ours on the hub. Without one it fails if there are too many like it.
func (r Request) pending(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
	list, err := r.Client.List(ctx, metav1.ListOptions{LabelSelector: labels.Set(r.Labels).String()})
	if err != nil {
		return nil, fmt.Errorf("list signing requests for %s: %w", r.Subject.CommonName, err)
	}
	waiting := 0
	for i := range list.Items {
		if r.made(&list.Items[i]) {
			return &list.Items[i], nil
		}
		if list.Items[i].Spec.Username == r.Requester && len(list.Items[i].Status.Conditions) == 0 {
			waiting++
		}
	}
	if r.MaxPending > 0 && waiting >= r.MaxPending {
		return nil, ErrTooMany
	}
	return nil, nil
}

// made tells whether a request on the hub is this one.
func (r Request) made(csr *certificatesv1.CertificateSigningRequest) bool {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || csr.Spec.SignerName != r.Signer {
		return false
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.Subject.CommonName != r.Subject.CommonName {
		return false
	}
	asked, ok := request.PublicKey.(*ecdsa.PublicKey)
	return ok && asked.Equal(r.Key.Public())
}

// await returns the certificate once it is issued, and nil if the request goes away.
func (r Request) await(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	name := csr.Name
	for {
		certificate, err := issued(csr)
		if err != nil || certificate != nil {
			return certificate, err
		}
		if err := r.awaitChange(ctx, csr); err != nil {
			return nil, err
		}
		csr, err = r.Client.Get(ctx, name, metav1.GetOptions{})
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
			return nil, fmt.Errorf("signing request %s %w", csr.Name, ErrDenied)
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
func (r Request) awaitChange(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	events, err := r.Client.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", csr.Name).String(),
		ResourceVersion: csr.ResourceVersion,
		LabelSelector:   labels.Set(r.Labels).String(),
	})
	if err != nil {
		return pause(ctx)
	}
	defer events.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case _, ok := <-events.ResultChan():
		if !ok {
			return pause(ctx)
		}
		return nil
	}
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(reconcile.Jitter(lookAgain))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
