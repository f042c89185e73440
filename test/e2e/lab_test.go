// Package e2e proves what nave promises on real parts: a hub, managed clusters with a real kube-apiserver and a real
// kube-controller-manager, and agents, each a process of the binary that users get.
//
// The tests share one lab with two clusters, and each works on objects of its own names. Tests that stop a part start it
// again, with the same command line.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/lab"
)

const (
	// patience is how long a slow machine may take for one step before a test gives up on it.
	patience = 2 * time.Minute
	// tick is how often a condition that cannot be watched is looked at.
	tick = 50 * time.Millisecond

	first  = "cluster1"
	second = "cluster2"
)

// nave is the binary under test: bin/nave, unless NAVE names another.
func nave() (string, error) {
	if binary := os.Getenv("NAVE"); binary != "" {
		return binary, nil
	}
	binary, err := filepath.Abs(filepath.Join("..", "..", "bin", "nave"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("%w; run make build", err)
	}
	return binary, nil
}

// bench is the running lab with clients for it.
type bench struct {
	*lab.Lab
	binary   string
	hub      *kubernetes.Clientset
	clusters *clusterclient.Clientset
	works    *workclient.Clientset
	spokes   map[string]*kubernetes.Clientset
}

var shared = sync.OnceValues(bringUp)

// takeDown removes the shared lab; it is set once there is one.
var takeDown = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := takeDown(); err != nil {
		fmt.Fprintln(os.Stderr, "take the lab down:", err)
		code = 1
	}
	os.Exit(code)
}

func bringUp() (*bench, error) {
	binary, err := nave()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nave-e2e-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	takeDown = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return errors.Join(lab.Down(ctx, dir, os.Stderr), os.RemoveAll(dir))
	}
	l, err := lab.Up(ctx, lab.Options{Clusters: 2, DataDir: dir, Binary: binary, Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	return connect(l, binary)
}

// ownLab is a lab with one cluster for a test that takes it apart.
func ownLab(t *testing.T) (*bench, context.Context) {
	t.Helper()
	binary, err := nave()
	require.NoError(t, err)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		require.NoError(t, lab.Down(context.Background(), dir, os.Stderr))
	})
	l, err := lab.Up(ctx, lab.Options{Clusters: 1, DataDir: dir, Binary: binary, Out: os.Stderr})
	require.NoError(t, err)
	b, err := connect(l, binary)
	require.NoError(t, err)
	return b, ctx
}

func connect(l *lab.Lab, binary string) (*bench, error) {
	config, err := l.Hub()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	b := &bench{Lab: l, binary: binary, spokes: map[string]*kubernetes.Clientset{}}
	var errs [3]error
	b.hub, errs[0] = kubernetes.NewForConfig(config)
	b.clusters, errs[1] = clusterclient.NewForConfig(config)
	b.works, errs[2] = workclient.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, name := range l.Clusters() {
		config, err := l.Cluster(name)
		if err != nil {
			return nil, err
		}
		config.QPS = -1
		if b.spokes[name], err = kubernetes.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func start(t *testing.T) (*bench, context.Context) {
	t.Helper()
	b, err := shared()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return b, ctx
}

// eventually waits until check returns nil; its last error is the test's failure.
func eventually(t *testing.T, ctx context.Context, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err, "not within %s: %s", patience, what)
		case <-ticker.C:
		}
	}
}

// run calls the binary as a user does.
func (b *bench) run(t *testing.T, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	return b.runWith(t, nil, arguments...)
}

func (b *bench) runWith(t *testing.T, environment []string, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.binary, arguments...)
	cmd.Env = append(os.Environ(), environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "nave %v did not end: %s", arguments, errs.String())
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// hubData is the hub's data directory, for verbs that act on the hub.
func (b *bench) hubData(t *testing.T) string {
	t.Helper()
	part, err := b.Part(lab.HubPart)
	require.NoError(t, err)
	return b.DataDir(part)
}

// agentData is the data directory of the agent that the lab runs for a cluster.
func (b *bench) agentData(t *testing.T, cluster string) string {
	t.Helper()
	part, err := b.Part(lab.AgentPart(cluster))
	require.NoError(t, err)
	return b.DataDir(part)
}

func (b *bench) managedCluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	return b.clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
}

// conditionIs fails until a condition has the status and, where generation is not 0, was made for that generation.
func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, generation int64) error {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return fmt.Errorf("no condition %s among %v", kind, conditions)
	case c.Status != status:
		return fmt.Errorf("condition %s is %s (%s: %s), not %s", kind, c.Status, c.Reason, c.Message, status)
	case generation != 0 && c.ObservedGeneration != generation:
		return fmt.Errorf("condition %s is about generation %d, not %d", kind, c.ObservedGeneration, generation)
	}
	return nil
}

// gone fails until a get says that the object is not there.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is still there")
	}
	return err
}

// appliedAndAvailable fails until the work's conditions say so for its current generation.
func (b *bench) appliedAndAvailable(ctx context.Context, cluster, name string) error {
	work, err := b.works.WorkV1().ManifestWorks(cluster).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return errors.Join(
		conditionIs(work.Status.Conditions, workv1.WorkApplied, metav1.ConditionTrue, work.Generation),
		conditionIs(work.Status.Conditions, workv1.WorkAvailable, metav1.ConditionTrue, work.Generation),
	)
}

// agentIdentity is the access to the hub that the agent with this data directory has. The secret on the cluster may be
// another agent's, where a test started a second one there.
func (b *bench) agentIdentity(t *testing.T, dataDir string) *rest.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dataDir, "agent", "hub-kubeconfig-secret", "identity.json"))
	require.NoError(t, err)
	kept := map[string][]byte{}
	require.NoError(t, json.Unmarshal(text, &kept))
	hub, err := b.Hub()
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(hub)
	config.CertData, config.KeyData = kept["tls.crt"], kept["tls.key"]
	config.QPS = -1
	return config
}
