package lab

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"nave/pkg/lab/cluster"
	"nave/pkg/lab/simulator"
	"nave/pkg/log"
)

const (
	// VerbKubeAPIServer and VerbKubeControllerManager are the hidden verbs of the binary that the lab starts.
	VerbKubeAPIServer         = "lab-kube-apiserver"
	VerbKubeControllerManager = "lab-kube-controller-manager"
)

// KubeAPIServerConfig is what the verb lab-kube-apiserver takes: --cluster, --data-dir and --listen.
type KubeAPIServerConfig struct {
	Cluster string
	DataDir string // the cluster's folder, which the lab has filled
	Listen  string // loopback address and port
	Log     logrus.FieldLogger
}

// RunKubeAPIServer serves a managed cluster's API, with its database in the same process, until ctx ends. It takes over
// klog and the feature gates, so it has to be what the process is for.
func RunKubeAPIServer(ctx context.Context, c KubeAPIServerConfig) error {
	err := cluster.APIServer{DataDir: c.DataDir, Listen: c.Listen, Log: c.Log.WithField(log.FieldCluster, c.Cluster)}.Run(ctx)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Cluster, err)
	}
	return nil
}

// KubeControllerManagerConfig is what the verb lab-kube-controller-manager takes: --cluster, --data-dir and --nodes.
type KubeControllerManagerConfig struct {
	Cluster string
	DataDir string // the cluster's folder, which the lab has filled
	Nodes   int    // simulated nodes
	Log     logrus.FieldLogger
}

// RunKubeControllerManager controls a managed cluster and plays its nodes until ctx ends. It takes over klog and the
// feature gates, so it has to be what the process is for.
func RunKubeControllerManager(ctx context.Context, c KubeControllerManagerConfig) error {
	nodes, err := newSimulator(c)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Cluster, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Run(ctx) })
	group.Go(func() error { return cluster.ControllerManager{DataDir: c.DataDir}.Run(ctx) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("cluster %s: %w", c.Cluster, err)
	}
	return nil
}

func newSimulator(c KubeControllerManagerConfig) (*simulator.Simulator, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig(c.DataDir))
	if err != nil {
		return nil, fmt.Errorf("client for the nodes: %w", err)
	}
	config.QPS = -1 // the nodes are as fast as the cluster
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "nave-lab-nodes"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the nodes: %w", err)
	}
	return simulator.New(simulator.Config{
		Log:     c.Log.WithField(log.FieldCluster, c.Cluster),
		Client:  client,
		Cluster: c.Cluster,
		Nodes:   c.Nodes,
		Clock:   clock.RealClock{},
	})
}
