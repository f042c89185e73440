// Package matrix proves the table at the top of table_test.go: every identity tries everything that a hub serves.
package matrix

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/hub"
	"nave/pkg/identity"
	"nave/pkg/pki"
	"nave/pkg/token"
	"nave/test/hubtest"
)

const (
	// patience is how long a step may take on a slow machine before a test gives up on it.
	patience = 2 * time.Minute
	tick     = 50 * time.Millisecond

	// otherCluster is the cluster that none of the identities belongs to. Its name begins like theirs.
	otherCluster = "matrix"
)

// party is an identity that was really made, with its own cluster.
type party struct {
	config  *rest.Config
	client  *http.Client
	cluster string
	user    string
	groups  []string
	request string // name of a signing request of its cluster
}

// rig is a hub with one party for each identity.
type rig struct {
	admin        *rest.Config
	kube         *kubernetes.Clientset
	clusters     *clusterclient.Clientset
	parties      map[who]*party
	otherRequest string // name of a signing request of otherCluster
}

var shared = sync.OnceValues(bringUp)

// takeDown ends the hub; it is set once there is one.
var takeDown = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := takeDown(); err != nil {
		fmt.Fprintln(os.Stderr, "take the hub down:", err)
		code = 1
	}
	os.Exit(code)
}

func start(t *testing.T) (*rig, context.Context) {
	t.Helper()
	r, err := shared()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return r, ctx
}

func bringUp() (*rig, error) {
	h, err := hubtest.Start(hub.Config{})
	if err != nil {
		return nil, err
	}
	takeDown = h.Stop
	r := &rig{admin: h.Admin, parties: map[who]*party{}}
	if r.kube, err = kubernetes.NewForConfig(r.admin); err != nil {
		return nil, err
	}
	if r.clusters, err = clusterclient.NewForConfig(r.admin); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r, r.makeParties(ctx)
}

func (r *rig) makeParties(ctx context.Context) error {
	bootstrapper, err := r.bootstrapIdentity(ctx)
	if err != nil {
		return err
	}
	for _, make := range []func(context.Context, *rest.Config) error{r.makeAnonymous, r.makeJoining, r.makeBootstrap, r.makeAgents} {
		if err := make(ctx, bootstrapper); err != nil {
			return err
		}
	}
	for _, p := range r.parties {
		if p.client, err = rest.HTTPClientFor(p.config); err != nil {
			return err
		}
	}
	return nil
}

// bootstrapIdentity is a klusterlet with a standard bootstrap token (spec 1.6).
func (r *rig) bootstrapIdentity(ctx context.Context) (*rest.Config, error) {
	const id, secret = "matrix", "0123456789abcdef"
	_, err := r.kube.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": identity.BootstrapGroup,
		},
	}, metav1.CreateOptions{})
	return r.withBearer(id + "." + secret), err
}

func (r *rig) withBearer(bearer string) *rest.Config {
	c := rest.AnonymousClientConfig(r.admin)
	c.BearerToken, c.QPS = bearer, -1
	return c
}

func (r *rig) makeAnonymous(context.Context, *rest.Config) error {
	r.parties[anonymous] = &party{config: r.withBearer(""), cluster: "matrix-anonymous", user: "system:anonymous", groups: []string{"system:unauthenticated"}, request: "none"}
	return nil
}

func (r *rig) makeJoining(ctx context.Context, _ *rest.Config) error {
	const cluster = "matrix-joining"
	made, err := token.New([32]byte{})
	if err != nil {
		return err
	}
	record := token.Record{ID: made.ID, Hash: token.Hash(made.Secret), Expires: time.Now().Add(time.Hour), Cluster: cluster, Bound: true}
	if _, err := r.kube.CoreV1().Secrets(token.Namespace).Create(ctx, record.Secret(), metav1.CreateOptions{}); err != nil {
		return err
	}
	p := &party{config: r.withBearer(made.Bearer()), cluster: cluster, user: identity.BootstrapUserPrefix + made.ID, groups: []string{identity.BootstrapGroup}}
	p.request, _, err = register(ctx, p.config, cluster)
	r.parties[joining] = p
	return err
}

func (r *rig) makeBootstrap(ctx context.Context, bootstrapper *rest.Config) error {
	p := &party{config: bootstrapper, cluster: "matrix-bootstrap", user: "system:bootstrap:matrix", groups: []string{identity.BootstrapGroup}}
	var err error
	p.request, _, err = register(ctx, p.config, p.cluster)
	r.parties[bootstrap] = p
	return err
}

// makeAgents registers one cluster after the other, and takes each as far as its identity's name says.
func (r *rig) makeAgents(ctx context.Context, bootstrapper *rest.Config) error {
	for _, w := range []who{pending, agent, rejected, ""} {
		cluster := "matrix-" + string(w)
		if w == "" {
			cluster = otherCluster
		}
		request, key, err := register(ctx, bootstrapper, cluster)
		if err != nil {
			return err
		}
		if w == "" {
			r.otherRequest = request
		}
		if w != pending {
			if err := r.decide(ctx, cluster, true); err != nil {
				return err
			}
		}
		certificate, err := r.approve(ctx, request)
		if err != nil {
			return err
		}
		if w == rejected {
			if err := r.decide(ctx, cluster, false); err != nil {
				return err
			}
		}
		who := identity.Agent{Cluster: cluster, Name: "a1"}
		config := r.withBearer("")
		config.CertData, config.KeyData = certificate, key
		if w == agent {
			// An agent sees the requests that it made itself, such as this renewal.
			if request, _, err = askFor(ctx, config, cluster); err != nil {
				return err
			}
		}
		r.parties[w] = &party{config: config, cluster: cluster, user: who.User(), groups: who.Groups(), request: request}
	}
	delete(r.parties, "")
	return nil
}

// register does what a klusterlet does first: it creates its ManagedCluster and asks for a certificate. It returns the
// name of the request and the key as PEM.
func register(ctx context.Context, config *rest.Config, cluster string) (name string, key []byte, err error) {
	clusters, err := clusterclient.NewForConfig(config)
	if err != nil {
		return "", nil, err
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	if _, err := clusters.ClusterV1().ManagedClusters().Create(ctx, mc, metav1.CreateOptions{}); err != nil {
		return "", nil, err
	}
	return askFor(ctx, config, cluster)
}

// askFor asks for a certificate of a cluster's agent.
func askFor(ctx context.Context, config *rest.Config, cluster string) (name string, key []byte, err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", nil, err
	}
	private, err := pki.NewKey()
	if err != nil {
		return "", nil, err
	}
	a := identity.Agent{Cluster: cluster, Name: "a1"}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: a.User(), Organization: a.Groups()}}, private)
	if err != nil {
		return "", nil, err
	}
	csr, err := kube.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: cluster + "-", Labels: map[string]string{identity.ClusterNameLabel: cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("signing request for %s: %w", cluster, err)
	}
	key, err = pki.KeyPEM(private)
	return csr.Name, key, err
}

// approve approves a request as clusteradm does, and returns the certificate.
func (r *rig) approve(ctx context.Context, request string) ([]byte, error) {
	requests := r.kube.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Get(ctx, request, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	if _, err := requests.UpdateApproval(ctx, request, csr, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	var certificate []byte
	err = eventually(ctx, func() error {
		csr, err := requests.Get(ctx, request, metav1.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			err = fmt.Errorf("signing request %s has no certificate", request)
		}
		if err == nil {
			certificate = csr.Status.Certificate
		}
		return err
	})
	return certificate, err
}

// decide accepts or denies a cluster and waits until that took effect.
func (r *rig) decide(ctx context.Context, cluster string, accepts bool) error {
	clusters := r.clusters.ClusterV1().ManagedClusters()
	patch := fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, accepts)
	if _, err := clusters.Patch(ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		mc, err := clusters.Get(ctx, cluster, metav1.GetOptions{})
		if err == nil && meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != accepts {
			err = fmt.Errorf("managed cluster %s: conditions are %v", cluster, mc.Status.Conditions)
		}
		return err
	})
}

// eventually waits until check returns nil, and returns its last error when ctx ends.
func eventually(ctx context.Context, check func() error) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
