// Package sessions proves that an agent's identity survives what happens to certificates, hubs and people's minds: the
// agent's registration on real hubs, with certificates that live for seconds.
package sessions

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"

	"nave/pkg/agentstate"
	"nave/pkg/hub"
	"nave/pkg/identity"
	"nave/pkg/lifecycle"
	"nave/pkg/live"
	"nave/pkg/settings"
	"nave/pkg/spoke/registration"
	"nave/pkg/uplink"
	"nave/test/hubtest"
)

const (
	// patience is how long a step may take on a slow machine before a test gives up on it.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond

	// certificateLife is short enough to wait for renewals, and long enough for a slow machine to renew in its last fifth.
	certificateLife = 8 * time.Second
)

// testHub is a hub in this process. It accepts whatever its own bootstrap token makes.
type testHub struct {
	dataDir  string
	admin    *rest.Config
	kube     *kubernetes.Clientset
	clusters *clusterclient.Clientset
	stop     func() error
}

var first, second = sync.OnceValues(startHub), sync.OnceValues(startHub)

// running are hubs to stop in the end.
var (
	runningMu sync.Mutex
	running   []*testHub
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, h := range running {
		if err := h.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the hub:", err)
			code = 1
		}
	}
	os.Exit(code)
}

const tokenID = "agents"

func startHub() (*testHub, error) {
	h, err := hubtest.Start(hub.Config{
		AgentCertificateLife: certificateLife,
		Settings:             live.New(settings.Hub{Features: settings.Features{feature.ManagedClusterAutoApproval: true}, AutoApprovedUsers: []string{identity.BootstrapUserPrefix + tokenID}}),
	})
	if err != nil {
		return nil, err
	}
	t := &testHub{dataDir: h.DataDir, admin: h.Admin, stop: h.Stop}
	runningMu.Lock()
	running = append(running, t)
	runningMu.Unlock()
	var errs [2]error
	t.kube, errs[0] = kubernetes.NewForConfig(t.admin)
	t.clusters, errs[1] = clusterclient.NewForConfig(t.admin)
	return t, errors.Join(append(errs[:], t.allow(tokenID))...)
}

// bearer is the secret of a bootstrap token.
func bearer(id string) string { return id + ".0123456789abcdef" }

// allow makes a bootstrap token.
func (h *testHub) allow(id string) error {
	_, err := h.kube.CoreV1().Secrets(metav1.NamespaceSystem).Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": identity.BootstrapGroup,
		},
	}, metav1.CreateOptions{})
	return err
}

// kubeconfig is a bootstrap kubeconfig as clusteradm writes it, with the hub's CA unless another one is given.
func (h *testHub) kubeconfig(t *testing.T, entry, id string, ca []byte) []byte {
	t.Helper()
	if ca == nil {
		ca = h.admin.CAData
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{entry: {Server: h.admin.Host, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"bootstrap": {Token: bearer(id)}},
		Contexts:       map[string]*clientcmdapi.Context{"bootstrap": {Cluster: entry, AuthInfo: "bootstrap"}},
		CurrentContext: "bootstrap",
	})
	require.NoError(t, err)
	return text
}

func (h *testHub) cluster(t *testing.T, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc, err := h.clusters.ClusterV1().ManagedClusters().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return mc
}

func (h *testHub) accept(t *testing.T, name string, accepted bool) {
	t.Helper()
	eventually(t, "the decision is written", func() error {
		mc, err := h.clusters.ClusterV1().ManagedClusters().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		mc.Spec.HubAcceptsClient = accepted
		_, err = h.clusters.ClusterV1().ManagedClusters().Update(t.Context(), mc, metav1.UpdateOptions{})
		return err
	})
}

// requests counts the signing requests of a cluster.
func (h *testHub) requests(t *testing.T, cluster string) int {
	t.Helper()
	list, err := h.kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{LabelSelector: labels.Set{identity.ClusterNameLabel: cluster}.String()})
	require.NoError(t, err)
	return len(list.Items)
}

// testAgent is the registration of an agent, without a cluster to apply anything to. It lives as pkg/agent has it: an
// identity, a session, the next identity.
type testAgent struct {
	registration.Config
	sources registration.Sources
	spoke   *fake.Clientset
	log     *logrus.Logger

	mu       sync.Mutex
	sessions []registration.Credentials
	ends     []string
}

func newAgent(t *testing.T, cluster string, kubeconfigs ...string) *testAgent {
	t.Helper()
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	if testing.Verbose() {
		logger.SetOutput(os.Stderr)
	}
	spoke := fake.NewClientset()
	a := &testAgent{spoke: spoke, log: logger, sources: registration.Sources{Cluster: cluster, Kubeconfigs: kubeconfigs}}
	a.Config = registration.Config{
		Wish: live.New(a.sources.Read(nil)), UserAgent: "test", Store: registration.Store{Dir: t.TempDir(), Kube: spoke},
		Settings: live.New(settings.DefaultAgent()), State: live.New(agentstate.State{}), Clock: clock.RealClock{}, Log: logger,
	}
	return a
}

// start runs the agent until the test ends or stop is called, which returns what Identity ended with.
func (a *testAgent) start(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var watching sync.WaitGroup
		watching.Go(func() { _ = a.Watch(ctx, a.sources, a.spoke) })
		defer watching.Wait()
		ended <- a.live(ctx)
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}

func (a *testAgent) live(ctx context.Context) error {
	for {
		credentials, err := a.Identity(ctx)
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.sessions = append(a.sessions, credentials)
		a.mu.Unlock()
		var ended *registration.Ended
		if err := a.session(ctx, credentials); !errors.As(err, &ended) {
			return err
		}
		a.mu.Lock()
		a.ends = append(a.ends, ended.Reason)
		a.mu.Unlock()
	}
}

func (a *testAgent) session(ctx context.Context, credentials registration.Credentials) error {
	up, err := uplink.New(uplink.Config{Target: credentials.Target(), Changed: func(err error) {
		a.State.Update(func(s agentstate.State) agentstate.State {
			s.HubConnection = nil
			if err != nil {
				s.HubConnection = &agentstate.Fault{Reason: agentstate.HubError, Message: err.Error()}
			}
			return s
		})
	}})
	if err != nil {
		return err
	}
	defer up.Close()
	clusters, err := clusterclient.NewForConfig(up.Client("test"))
	if err != nil {
		return err
	}
	factory := clusterinformers.NewSharedInformerFactoryWithOptions(clusters, 0, clusterinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", credentials.Agent.Cluster).String()
	}))
	own := factory.Cluster().V1().ManagedClusters()
	reporter, err := registration.NewReporter(a.log, credentials.Agent.Cluster, clusters, own)
	if err != nil {
		return err
	}
	group := lifecycle.New(a.log)
	for name, run := range map[string]func(context.Context) error{
		"own": func(ctx context.Context) error {
			factory.Start(ctx.Done())
			<-ctx.Done()
			factory.Shutdown()
			return nil
		},
		"reporter": reporter.Run,
		"renew":    func(ctx context.Context) error { return a.Renew(ctx, up, credentials, reporter.Set) },
		"learn":    func(ctx context.Context) error { return a.Learn(ctx, up, credentials) },
		"heed":     func(ctx context.Context) error { return a.Heed(ctx, credentials) },
		"attend":   func(ctx context.Context) error { return a.Attend(ctx, up, credentials, own) },
	} {
		group.Add(name, lifecycle.Background(run))
	}
	return group.Run(ctx)
}

// count is how many sessions there were, and last the identity of the last one.
func (a *testAgent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sessions)
}

func (a *testAgent) last() registration.Credentials {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[len(a.sessions)-1]
}

// awaitSessions waits for the nth session.
func (a *testAgent) awaitSessions(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("session %d", n), func() error {
		if a.count() < n {
			return fmt.Errorf("%d sessions; the agent says %+v", a.count(), a.State.Get())
		}
		return nil
	})
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "not within %s: %s: %v", patience, what, err)
		<-time.After(tick)
	}
}

func write(t *testing.T, file string, text []byte) string {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", text, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	return file
}

func bootstrapFile(t *testing.T, text []byte) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "bootstrap.kubeconfig"), text)
}

func hubs(t *testing.T) (*testHub, *testHub) {
	t.Helper()
	a, err := first()
	require.NoError(t, err)
	b, err := second()
	require.NoError(t, err)
	return a, b
}

func blockOf(t *testing.T, text []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	return block.Bytes
}

// letIn accepts a cluster and approves its requests, as nave cluster accept does.
func (h *testHub) letIn(t *testing.T, name string) {
	t.Helper()
	h.accept(t, name, true)
	list, err := h.kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{LabelSelector: labels.Set{identity.ClusterNameLabel: name}.String()})
	require.NoError(t, err)
	for _, csr := range list.Items {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now(),
		})
		_, err := h.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, &csr, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
}

// leaveSecret leaves a bootstrap kubeconfig on the agent's cluster.
func (a *testAgent) leaveSecret(t *testing.T, kubeconfig []byte) {
	t.Helper()
	_, err := a.spoke.CoreV1().Secrets(registration.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: registration.BootstrapSecret, Namespace: registration.Namespace}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}
