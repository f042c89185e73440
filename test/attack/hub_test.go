// Package attack tries, on a real hub, what somebody with the rights of an agent or of a bootstrap identity could try in
// order to get at another cluster or at the hub. Each test bears the name of the attack, and shows beside the refusal
// that the honest request of the same shape passes.
package attack

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	testifyassert "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/hub"
	"nave/pkg/identity"
	"nave/pkg/live"
	"nave/pkg/pki"
	"nave/pkg/settings"
	"nave/test/hubtest"
)

const (
	// patience is how long a step may take on a slow machine before a test gives up on it.
	patience = 2 * time.Minute
	// tick is how often a condition is looked at.
	tick = 20 * time.Millisecond

	// listedUser is the one on whose requests clusters are accepted without a person.
	listedUser = identity.BootstrapUserPrefix + "listed"

	kubeSigner = certificatesv1.KubeAPIServerClientSignerName
)

// party is somebody who talks to the hub.
type party struct {
	config   *rest.Config
	kube     *kubernetes.Clientset
	clusters *clusterclient.Clientset
	addons   *addonclient.Clientset
}

func newParty(config *rest.Config) (party, error) {
	p := party{config: config}
	config.QPS = -1
	var err error
	if p.kube, err = kubernetes.NewForConfig(config); err != nil {
		return p, err
	}
	if p.clusters, err = clusterclient.NewForConfig(config); err != nil {
		return p, err
	}
	p.addons, err = addonclient.NewForConfig(config)
	return p, err
}

// running is the one hub that the tests of this package share: each works on clusters of its own names.
var running = sync.OnceValues(startHub)

// hubSettings are what the hub's tests may set while it runs.
var hubSettings = live.New(settings.Hub{
	Features:          settings.Features{feature.ManagedClusterAutoApproval: true},
	AutoApprovedUsers: []string{listedUser},
})

// stopHub ends it; it is set once the hub runs.
var stopHub = func() error { return nil }

func startHub() (party, error) {
	h, err := hubtest.Start(hub.Config{Settings: hubSettings})
	if err != nil {
		return party{}, err
	}
	stopHub = h.Stop
	return newParty(h.Admin)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopHub(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the hub of the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func start(t *testing.T) (party, context.Context) {
	t.Helper()
	admin, err := running()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return admin, ctx
}

// as is somebody with another identity that the administrator lends.
func (p party) as(t *testing.T, user string, groups ...string) party {
	t.Helper()
	config := rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	other, err := newParty(config)
	require.NoError(t, err)
	return other
}

// bootstrap is somebody with the shared bootstrap identity.
func (p party) bootstrap(t *testing.T) party {
	return p.as(t, identity.BootstrapAccount, "system:serviceaccounts", "system:serviceaccounts:open-cluster-management", "system:authenticated")
}

// listed is somebody with the bootstrap identity that is granted what it asks for.
func (p party) listed(t *testing.T) party {
	return p.as(t, listedUser, identity.BootstrapGroup, "system:bootstrappers", "system:authenticated")
}

// with is somebody with a client certificate.
func (p party) with(t *testing.T, certificate []byte, key crypto.Signer) party {
	t.Helper()
	keyPEM, err := pki.KeyPEM(key)
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(p.config)
	config.CertData, config.KeyData = certificate, keyPEM
	other, err := newParty(config)
	require.NoError(t, err)
	return other
}

// request is a signing request that a test forges; the zero value of a field is what an honest agent has there.
type request struct {
	agent    identity.Agent
	key      crypto.Signer
	template *x509.CertificateRequest
	labels   map[string]string
	signer   string
	usages   []certificatesv1.KeyUsage
	seconds  *int32
}

func (r request) build(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	if r.key == nil {
		key, err := pki.NewKey()
		require.NoError(t, err)
		r.key = key
	}
	if r.template == nil {
		r.template = &x509.CertificateRequest{Subject: pkix.Name{CommonName: r.agent.User(), Organization: r.agent.Groups()}}
	}
	if r.labels == nil {
		r.labels = map[string]string{identity.ClusterNameLabel: r.agent.Cluster}
	}
	if r.signer == "" {
		r.signer = kubeSigner
	}
	if r.usages == nil {
		r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, r.template, r.key)
	require.NoError(t, err)
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "attack-", Labels: r.labels},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: r.signer, Usages: r.usages, ExpirationSeconds: r.seconds,
		},
	}
}

func (p party) ask(ctx context.Context, t *testing.T, r request) (*certificatesv1.CertificateSigningRequest, error) {
	t.Helper()
	return p.kube.CertificatesV1().CertificateSigningRequests().Create(ctx, r.build(t), metav1.CreateOptions{})
}

// approve is what an administrator does by hand.
func (p party) approve(ctx context.Context, t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved by hand",
	})
	_, err := p.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// certificate waits until the request is signed.
func (p party) certificate(ctx context.Context, t *testing.T, name string) []byte {
	t.Helper()
	var certificate []byte
	require.Eventually(t, func() bool {
		csr, err := p.kube.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		certificate = csr.Status.Certificate
		return len(certificate) > 0
	}, patience, tick)
	return certificate
}

// accepted makes a cluster that is accepted and has its namespace and rights.
func (p party) accepted(ctx context.Context, t *testing.T, cluster string) *clusterv1.ManagedCluster {
	t.Helper()
	mc, err := p.clusters.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: cluster}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := p.kube.RbacV1().RoleBindings(cluster).Get(ctx, "open-cluster-management:managedcluster:"+cluster+":work", metav1.GetOptions{})
		return err == nil
	}, patience, tick, "the cluster gets its rights")
	return mc
}

// join registers a cluster and is its agent, with a certificate.
func (p party) join(ctx context.Context, t *testing.T, cluster string) (party, identity.Agent) {
	t.Helper()
	p.accepted(ctx, t, cluster)
	agent := identity.Agent{Cluster: cluster, Name: "agent1"}
	return p.issue(ctx, t, agent), agent
}

// issue gets an agent its certificate, and waits until the hub lets it do its work.
func (p party) issue(ctx context.Context, t *testing.T, agent identity.Agent) party {
	t.Helper()
	key, err := pki.NewKey()
	require.NoError(t, err)
	csr, err := p.bootstrap(t).ask(ctx, t, request{agent: agent, key: key})
	require.NoError(t, err)
	p.approve(ctx, t, csr)
	joined := p.with(t, p.certificate(ctx, t, csr.Name), key)
	require.Eventually(t, func() bool {
		_, err := joined.clusters.ClusterV1().ManagedClusters().Get(ctx, agent.Cluster, metav1.GetOptions{})
		return err == nil
	}, patience, tick, "the agent of %s may work", agent.Cluster)
	return joined
}

// setAccepted accepts or rejects a cluster.
func (p party) setAccepted(ctx context.Context, t *testing.T, cluster string, accepted bool) {
	t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, accepted)
	_, err := p.clusters.ClusterV1().ManagedClusters().Patch(ctx, cluster, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(t, err)
}

// remove deletes a cluster and waits until it is gone.
func (p party) remove(ctx context.Context, t *testing.T, cluster string) {
	t.Helper()
	require.NoError(t, p.clusters.ClusterV1().ManagedClusters().Delete(ctx, cluster, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		list, err := p.clusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + cluster})
		return err == nil && len(list.Items) == 0
	}, patience, tick, "cluster %s goes", cluster)
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.NewKey()
	require.NoError(t, err)
	return key
}

// assert is what a condition that is looked at again and again says.
type assert = testifyassert.CollectT
