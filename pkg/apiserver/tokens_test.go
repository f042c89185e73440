package apiserver_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nave/pkg/identity"
	"nave/pkg/pki"
	"nave/pkg/token"
)

// joining grants the rights of upstream's bootstrap role to whoever has a join token, once for all tests.
var joining = sync.OnceValue(func() error {
	s, err := shared()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test:join"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
		{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclusters"}, Verbs: []string{"get", "create", "list", "watch"}},
		{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
	}}
	if _, err := kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test:join"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "test:join"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: identity.BootstrapGroup}},
	}, metav1.CreateOptions{})
	return err
})

// newToken makes a token on the hub and a client that has nothing else.
func newToken(t *testing.T, change ...func(*token.Record)) (token.Token, *rest.Config) {
	t.Helper()
	s, err := shared()
	require.NoError(t, err)
	require.NoError(t, joining())
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	made, err := token.New([32]byte{})
	require.NoError(t, err)
	record := token.Record{ID: made.ID, Hash: token.Hash(made.Secret), Expires: time.Now().Add(time.Hour)}
	for _, c := range change {
		c(&record)
	}
	_, err = kube.CoreV1().Secrets(token.Namespace).Create(context.Background(), record.Secret(), metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = made.Bearer()
	config.QPS = -1
	return made, config
}

// agentOf is an agent that joins: a client, a cluster's name and a key.
type agentOf struct {
	t       *testing.T
	config  *rest.Config
	cluster string
	key     crypto.Signer
}

func newAgent(t *testing.T, config *rest.Config, cluster string) *agentOf {
	t.Helper()
	key, err := pki.NewKey()
	require.NoError(t, err)
	return &agentOf{t, config, cluster, key}
}

func (a *agentOf) createCluster() error {
	client, err := dynamic.NewForConfig(a.config)
	require.NoError(a.t, err)
	_, err = client.Resource(clusters).Create(context.Background(), cluster(a.t, a.cluster), metav1.CreateOptions{})
	return err
}

func (a *agentOf) request(change ...func(*certificatesv1.CertificateSigningRequest)) error {
	agent := identity.Agent{Cluster: a.cluster, Name: "agent"}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: agent.User(), Organization: agent.Groups()}}, a.key)
	require.NoError(a.t, err)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: a.cluster + "-", Labels: map[string]string{identity.ClusterNameLabel: a.cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
	for _, c := range change {
		c(csr)
	}
	kube, err := kubernetes.NewForConfig(a.config)
	require.NoError(a.t, err)
	_, err = kube.CertificatesV1().CertificateSigningRequests().Create(context.Background(), csr, metav1.CreateOptions{})
	return err
}

func requireCause(t *testing.T, err error, code int32, cause metav1.CauseType) {
	t.Helper()
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	require.Equal(t, code, status.Status().Code, err)
	require.NotNil(t, status.Status().Details, err)
	require.NotEmpty(t, status.Status().Details.Causes, err)
	require.Equal(t, cause, status.Status().Details.Causes[0].Type, err)
}

func TestUnusableTokens(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*token.Record)
		cause  metav1.CauseType
	}{
		{"expired", func(r *token.Record) { r.Expires = time.Now().Add(-time.Minute) }, token.CauseExpired},
		{"revoked", func(r *token.Record) { r.RevokedAt = time.Now() }, token.CauseRevoked},
		{"secret of another token", func(r *token.Record) { r.Hash = token.Hash("another") }, token.CauseUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, config := newToken(t, test.change)
			requireCause(t, newAgent(t, config, "c1").createCluster(), 401, test.cause)
		})
	}
	t.Run("not made here", func(t *testing.T) {
		_, config := newToken(t)
		other, err := token.New([32]byte{})
		require.NoError(t, err)
		config.BearerToken = other.Bearer()
		requireCause(t, newAgent(t, config, "c1").createCluster(), 401, token.CauseUnknown)
	})
}

func TestTokenIsForOneClusterAndOneKey(t *testing.T) {
	made, config := newToken(t)
	agent := newAgent(t, config, "once")
	require.NoError(t, agent.createCluster())
	require.NoError(t, agent.request())
	require.NoError(t, agent.request(), "an agent that was restarted asks again, with its key")

	requireCause(t, newAgent(t, config, "once").request(), 403, token.CauseUsed)
	requireCause(t, newAgent(t, config, "twice").createCluster(), 403, token.CauseUsed)

	s, err := shared()
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	stored, err := kube.CoreV1().Secrets(token.Namespace).Get(context.Background(), token.SecretName(made.ID), metav1.GetOptions{})
	require.NoError(t, err)
	record, err := token.FromSecret(stored)
	require.NoError(t, err)
	require.Equal(t, "used", record.State(time.Now()))
	require.Equal(t, "once", record.Cluster)
	for _, value := range stored.Data {
		require.False(t, bytes.Contains(value, []byte(made.Secret)), "the secret is kept hashed")
	}
}

func TestBoundToken(t *testing.T) {
	_, config := newToken(t, func(r *token.Record) { r.Cluster, r.Bound = "bound", true })
	requireCause(t, newAgent(t, config, "unbound").createCluster(), 403, token.CauseWrongCluster)
	agent := newAgent(t, config, "bound")
	require.NoError(t, agent.createCluster())
	require.NoError(t, agent.request())
}

// TestTakeOverOfACluster is what a holder of a fresh token may try with a cluster that is there already.
func TestTakeOverOfACluster(t *testing.T) {
	_, owner := newToken(t)
	require.NoError(t, newAgent(t, owner, "victim").createCluster())

	_, config := newToken(t)
	thief := newAgent(t, config, "victim")
	require.True(t, apierrors.IsAlreadyExists(thief.createCluster()))
	requireCause(t, thief.request(), 403, token.CauseWrongCluster)

	_, again := newToken(t, func(r *token.Record) { r.Cluster, r.Bound = "victim", true })
	require.NoError(t, newAgent(t, again, "victim").request(), "a token made for the cluster lets it join again")
}

func TestForgedRequests(t *testing.T) {
	_, config := newToken(t)
	agent := newAgent(t, config, "forger")
	require.NoError(t, agent.createCluster())
	for _, test := range []struct {
		name   string
		change func(*certificatesv1.CertificateSigningRequest)
		want   string
	}{
		{"label of another cluster", func(c *certificatesv1.CertificateSigningRequest) { c.Labels[identity.ClusterNameLabel] = "victim" }, "does not name the cluster"},
		{"no label", func(c *certificatesv1.CertificateSigningRequest) { c.Labels = nil }, "does not name the cluster"},
		{"no agent's name", func(c *certificatesv1.CertificateSigningRequest) {
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "nave-admin"}}, agent.key)
			require.NoError(t, err)
			c.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}, "is no agent's"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.ErrorContains(t, agent.request(test.change), test.want)
		})
	}
}

// TestMarkOfAToken is not to be written by anyone but admission.
func TestMarkOfAToken(t *testing.T) {
	_, client, ctx := start(t)
	mc := cluster(t, "marked")
	mc.SetAnnotations(map[string]string{"nave.dev/join-token": "forged"})
	mc, err := client.Resource(clusters).Create(ctx, mc, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NotContains(t, mc.GetAnnotations(), "nave.dev/join-token")
}
