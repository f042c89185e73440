package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/test/crowd"
)

const (
	few  = 50
	many = 200
)

// TestTwoHundredAgentsJoinAtOnce joins 50 agents in one instant and then 200 in another, on a hub that keeps the signing
// requests of the first ones. None is lost or stays half registered, and what the hub does with signing requests for each
// of the 200 is no more than for each of the 50.
func TestTwoHundredAgentsJoinAtOnce(t *testing.T) {
	b, ctx := ownLab(t)
	c := b.crowd(t)
	first := b.joinAll(t, ctx, c, names("few", few))
	second := b.joinAll(t, ctx, c, names("many", many))
	t.Logf("for each of %d: %v; for each of %d: %v", few, first, many, second)
	for what, each := range second {
		require.Less(t, each, 1.5*first[what]+1, "%s for each agent grow with the number of agents", what)
	}
}

// TestTwentyOfAListedUserAtOnce lets klusterlets with one bootstrap token in without a person, twenty in one instant and a
// few times over: each has its certificate and is accepted, since acceptance follows the cluster and not one event.
func TestTwentyOfAListedUserAtOnce(t *testing.T) {
	const user, rounds, each = "system:bootstrap:swarms", 3, 20
	b, ctx := ownLab(t)
	kubeconfig := b.bootstrapKubeconfig(t, ctx, "swarms")
	b.autoApprove(t, ctx, user)
	c := b.crowd(t)
	for round := range rounds {
		swarm := names(fmt.Sprintf("swarm-%d", round), each)
		require.NoError(t, c.Bootstrap(ctx, swarm, kubeconfig))
		for _, name := range swarm {
			eventually(t, ctx, name+" is wholly registered", func() error { return b.registered(ctx, name) })
		}
		b.oneRequestEach(t, ctx, swarm)
	}
}

// bootstrapKubeconfig is a file with a standard bootstrap token, as clusteradm join makes it.
func (b *bench) bootstrapKubeconfig(t *testing.T, ctx context.Context, id string) string {
	t.Helper()
	const secret = "0123456789abcdef"
	_, err := b.hub.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:managedcluster"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	hub, err := b.Hub()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "bootstrap.kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"hub": {Server: hub.Host, CertificateAuthorityData: hub.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"bootstrap": {Token: id + "." + secret}},
		Contexts:       map[string]*clientcmdapi.Context{"bootstrap": {Cluster: "hub", AuthInfo: "bootstrap"}},
		CurrentContext: "bootstrap",
	}, file))
	return file
}

// autoApprove turns the gate on, as users of upstream do, and waits until that is in force.
func (b *bench) autoApprove(t *testing.T, ctx context.Context, user string) {
	t.Helper()
	hub, err := b.Hub()
	require.NoError(t, err)
	client, err := operatorclient.NewForConfig(hub)
	require.NoError(t, err)
	managers := client.OperatorV1().ClusterManagers()
	patch := `{"spec":{"registrationConfiguration":{"autoApproveUsers":["` + user + `"],"featureGates":[{"feature":"ManagedClusterAutoApproval","mode":"Enable"}]}}}`
	cm, err := managers.Patch(ctx, "cluster-manager", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	generation := cm.Generation
	eventually(t, ctx, "the hub has taken its settings over", func() error {
		cm, err := managers.Get(ctx, "cluster-manager", metav1.GetOptions{})
		if err == nil && cm.Status.ObservedGeneration < generation {
			err = fmt.Errorf("generation %d is observed, not %d", cm.Status.ObservedGeneration, generation)
		}
		return err
	})
}

// crowd is a crowd of agents on the lab's first cluster.
func (b *bench) crowd(t *testing.T) *crowd.Crowd {
	t.Helper()
	hub, err := b.Hub()
	require.NoError(t, err)
	hub.QPS = -1
	spoke, err := b.Cluster(first)
	require.NoError(t, err)
	spoke.QPS = -1
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	c, err := crowd.New(crowd.Config{Hub: hub, Spoke: spoke, Dir: t.TempDir(), Log: log})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return all
}

// joinAll joins agents at once, waits until all are whole, and returns what the hub did with signing requests for each.
func (b *bench) joinAll(t *testing.T, ctx context.Context, c *crowd.Crowd, names []string) map[string]float64 {
	t.Helper()
	before := b.requestWork(t, ctx)
	require.NoError(t, c.Join(ctx, names))
	for _, name := range names {
		eventually(t, ctx, name+" is wholly registered", func() error { return b.registered(ctx, name) })
	}
	b.oneRequestEach(t, ctx, names)
	work := b.requestWork(t, ctx)
	for what := range work {
		work[what] = (work[what] - before[what]) / float64(len(names))
	}
	return work
}

// registered fails until a cluster has all that a registered cluster has.
func (b *bench) registered(ctx context.Context, name string) error {
	mc, err := b.managedCluster(ctx, name)
	if err != nil {
		return err
	}
	_, errNamespace := b.hub.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	_, errRole := b.hub.RbacV1().ClusterRoleBindings().Get(ctx, "open-cluster-management:managedcluster:"+name, metav1.GetOptions{})
	_, errRegistration := b.hub.RbacV1().RoleBindings(name).Get(ctx, "open-cluster-management:managedcluster:"+name+":registration", metav1.GetOptions{})
	_, errWork := b.hub.RbacV1().RoleBindings(name).Get(ctx, "open-cluster-management:managedcluster:"+name+":work", metav1.GetOptions{})
	errs := []error{errNamespace, errRole, errRegistration, errWork}
	if !mc.Spec.HubAcceptsClient {
		errs = append(errs, errors.New("hubAcceptsClient is false"))
	}
	for _, kind := range []string{clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
		errs = append(errs, conditionIs(mc.Status.Conditions, kind, metav1.ConditionTrue, 0))
	}
	lease, err := b.hub.CoordinationV1().Leases(name).Get(ctx, "managed-cluster-lease", metav1.GetOptions{})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	renewed := func(m metav1.ManagedFieldsEntry) bool { return m.Manager == crowd.UserAgent }
	if !slices.ContainsFunc(lease.ManagedFields, renewed) {
		errs = append(errs, errors.New("the agent has not renewed its lease"))
	}
	return errors.Join(errs...)
}

// oneRequestEach fails unless every cluster has one signing request, and its certificate.
func (b *bench) oneRequestEach(t *testing.T, ctx context.Context, names []string) {
	t.Helper()
	list, err := b.hub.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	requests := map[string][]certificatesv1.CertificateSigningRequest{}
	for _, csr := range list.Items {
		cluster := csr.Labels["open-cluster-management.io/cluster-name"]
		requests[cluster] = append(requests[cluster], csr)
	}
	for _, name := range names {
		require.Len(t, requests[name], 1, "requests of %s", name)
		require.NotEmpty(t, requests[name][0].Status.Certificate, "certificate of %s", name)
	}
}

// requestWork is what the hub counted of its work with signing requests since it started.
func (b *bench) requestWork(t *testing.T, ctx context.Context) map[string]float64 {
	t.Helper()
	text, err := b.hub.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	require.NoError(t, err)
	wanted := map[string]string{
		"apiserver_request_total":             "requests",
		"apiserver_response_sizes_sum":        "bytes listed",
		"apiserver_watch_events_sizes_sum":    "bytes watched",
		"etcd_request_duration_seconds_count": "requests to etcd",
	}
	work := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), "{")
		what, ok := wanted[name]
		if !ok || !strings.Contains(lines.Text(), "certificatesigningrequests") {
			continue
		}
		if what == "bytes listed" && !strings.Contains(lines.Text(), `verb="LIST"`) {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:], 64)
		require.NoError(t, err, lines.Text())
		work[what] += value
	}
	require.Len(t, work, len(wanted), "figures that the hub counts: %v", work)
	return work
}
