package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/lab/cluster"
	"nave/pkg/pki"
)

// askLimit is how long one question to a starting part may take.
const askLimit = 5 * time.Second

// prepare makes what a part needs before it starts.
func (l *Lab) prepare(ctx context.Context, name string) error {
	p, err := l.Part(name)
	if err != nil {
		return err
	}
	switch p.Role {
	case RoleAPIServer:
		kubeconfig, err := cluster.Prepare(p.Cluster, l.DataDir(p), p.Address, time.Now())
		if err != nil {
			return err
		}
		return pki.WriteFile(l.ClusterKubeconfig(p.Cluster), kubeconfig, 0o600)
	case RoleAgent:
		return l.ensureToken(ctx, p.Cluster)
	default:
		return nil
	}
}

// ready is nil if the part does its work, and else says what is missing.
func (l *Lab) ready(ctx context.Context, p Part) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	switch p.Role {
	case RoleHub:
		return l.hubReady(ctx)
	case RoleAPIServer:
		return askReadyz(ctx, l.ClusterKubeconfig(p.Cluster))
	case RoleControllerManager:
		return l.controllersReady(ctx, p.Cluster)
	default:
		return l.clusterAvailable(ctx, p.Cluster)
	}
}

// hubReady also links the hub's kubeconfig into the lab's folder. The hub renews it while it runs, so a copy would get old.
func (l *Lab) hubReady(ctx context.Context) error {
	inside := filepath.Join(HubPart, "hub", "admin.kubeconfig")
	if err := askReadyz(ctx, filepath.Join(l.dir, inside)); err != nil {
		return err
	}
	if to, err := os.Readlink(l.HubKubeconfig()); err == nil && to == inside {
		return nil
	}
	if err := os.Remove(l.HubKubeconfig()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hub's kubeconfig: %w", err)
	}
	if err := os.Symlink(inside, l.HubKubeconfig()); err != nil {
		return fmt.Errorf("hub's kubeconfig: %w", err)
	}
	return nil
}

func askReadyz(ctx context.Context, kubeconfig string) error {
	client, err := newClient(kubeconfig)
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// controllersReady asks for what only working controllers and nodes make.
func (l *Lab) controllersReady(ctx context.Context, name string) error {
	client, err := newClient(l.ClusterKubeconfig(name))
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return fmt.Errorf("default service account: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready < l.state.Nodes {
		return fmt.Errorf("%d of %d nodes are ready", ready, l.state.Nodes)
	}
	return nil
}

// clusterAvailable asks the hub whether the cluster has joined and its agent is heard of.
func (l *Lab) clusterAvailable(ctx context.Context, name string) error {
	c, err := l.managedCluster(ctx, name)
	if err != nil {
		return err
	}
	for _, condition := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
		if !meta.IsStatusConditionTrue(c.Status.Conditions, condition) {
			return fmt.Errorf("condition %s of %s is not true", condition, name)
		}
	}
	return nil
}

func (l *Lab) managedCluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	config, err := l.Hub()
	if err != nil {
		return nil, err
	}
	client, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the hub: %w", err)
	}
	c, err := client.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("managed cluster %s: %w", name, err)
	}
	return c, nil
}

// ensureToken leaves a join token for the agent, unless the cluster has joined: then the old one lies there, used, and the
// agent does not look at it.
func (l *Lab) ensureToken(ctx context.Context, name string) error {
	c, err := l.managedCluster(ctx, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if _, statErr := os.Stat(l.tokenFile(name)); statErr == nil && c != nil && meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionJoined) {
		return nil
	}
	hub, err := l.Part(HubPart)
	if err != nil {
		return err
	}
	binary := l.spec(hub).Binary
	create := exec.CommandContext(ctx, binary, "token", "create", "--data-dir", l.DataDir(hub), "--cluster", name, "--auto-accept")
	var told strings.Builder
	create.Stderr = &told
	token, err := create.Output()
	if err != nil {
		return fmt.Errorf("create a join token: %w: %s", err, strings.TrimSpace(told.String()))
	}
	return pki.WriteFile(l.tokenFile(name), token, 0o600)
}

func newClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := readKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the questions are paced by who asks
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", kubeconfig, err)
	}
	return client, nil
}
