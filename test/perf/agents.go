package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/test/crowd"
)

// pollJoined is fine enough for a figure in seconds, and coarse enough to be no load.
const pollJoined = 250 * time.Millisecond

// measureAgents joins agents at once, on the lab's one cluster and in this process, and measures the hub before and after.
func measureAgents(ctx context.Context, o options, dir string) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, hub, err := clientFor(filepath.Join(dir, "hub.kubeconfig"))
	if err != nil {
		return nil, err
	}
	spoke, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, labCluster+".kubeconfig"))
	if err != nil {
		return nil, err
	}
	spoke.QPS = -1
	identities, err := os.MkdirTemp("", "nave-perf-agents-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(identities)
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	agents, err := crowd.New(crowd.Config{Hub: hub, Spoke: spoke, Dir: identities, Log: log})
	if err != nil {
		return nil, err
	}
	defer agents.Close()
	clusters, err := clusterclient.NewForConfig(hub)
	if err != nil {
		return nil, err
	}
	before, err := hubMemory(ctx, dir)
	if err != nil {
		return nil, err
	}
	took, err := joinAll(ctx, agents, clusters, o.agents)
	if err != nil {
		return nil, err
	}
	after, err := hubMemory(ctx, dir)
	if err != nil {
		return nil, err
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(o.agents) / (1 << 20) }
	return []row{
		{fmt.Sprintf("%d agents at once, all joined and available after", o.agents), took.Round(100 * time.Millisecond).String(), "1,000: <= 120 s"},
		{"hub, resident (anonymous) before", before.String(), ""},
		{"hub, resident (anonymous) with them", after.String(), ""},
		{"hub, growth for each cluster, resident (anonymous)", fmt.Sprintf("%.2f MB (%.2f MB)", each(after.resident-before.resident), each(after.anonymous-before.anonymous)), "<= 0.5 MB"},
	}, nil
}

// joinAll is the time from when n agents start, tokens in hand, until the hub says of all that they are joined and
// available.
func joinAll(ctx context.Context, agents *crowd.Crowd, clusters clusterclient.Interface, n int) (time.Duration, error) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("agent-%04d", i)
	}
	tokens, err := agents.Tokens(ctx, names)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := agents.Start(ctx, names, tokens); err != nil {
		return 0, err
	}
	for {
		list, err := clusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, fmt.Errorf("list clusters: %w", err)
		}
		if joined(list.Items) >= n+1 { // and the lab's own
			return time.Since(begun), nil
		}
		if err := pause(ctx, pollJoined); err != nil {
			return 0, fmt.Errorf("%d of %d clusters are joined: %w", joined(list.Items)-1, n, err)
		}
	}
}

func joined(clusters []clusterv1.ManagedCluster) int {
	n := 0
	for i := range clusters {
		c := clusters[i].Status.Conditions
		if meta.IsStatusConditionTrue(c, clusterv1.ManagedClusterConditionJoined) && meta.IsStatusConditionTrue(c, clusterv1.ManagedClusterConditionAvailable) {
			n++
		}
	}
	return n
}

// hubMemory is that of the lab's hub once it has settled.
func hubMemory(ctx context.Context, dir string) (memory, error) {
	if err := pause(ctx, settle); err != nil {
		return memory{}, err
	}
	pid, err := processWith("nave", "hub", dir)
	if err != nil {
		return memory{}, err
	}
	return memoryOf(pid)
}
