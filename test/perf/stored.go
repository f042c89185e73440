package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const (
	// storedClusters share the works of a hub; they have no agents.
	storedClusters = 50
	// storedClients fill a hub at the same time.
	storedClients = 8

	grownBy        = 2000
	grownWorkBytes = 19_000
	storedBytes    = 20 << 10
)

// measureGrowth fills an idle hub with works.
func measureGrowth(ctx context.Context, o options) ([]row, error) {
	dir, err := os.MkdirTemp("", "nave-perf-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	hub, _, err := runHub(ctx, o.nave, dir)
	if err != nil {
		return nil, err
	}
	defer hub.stop()
	// The clusters come first: what they cost is no cost of works.
	if err := acceptClusters(ctx, dir); err != nil {
		return nil, err
	}
	before, err := hub.settled(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := store(ctx, dir, grownBy, grownWorkBytes); err != nil {
		return nil, err
	}
	after, err := hub.settled(ctx)
	if err != nil {
		return nil, err
	}
	grown := memory{after.resident - before.resident, after.anonymous - before.anonymous}
	return []row{{fmt.Sprintf("%d works of %d KB stored, hub grows by, resident (anonymous)", grownBy, grownWorkBytes/1000), grown.String(), "<= 100 MB"}}, nil
}

// measureStored fills a hub with very many works, and restarts it.
func measureStored(ctx context.Context, o options) ([]row, error) {
	dir, err := os.MkdirTemp("", "nave-perf-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	what := fmt.Sprintf("hub with %d works of %d KiB", o.stored, storedBytes>>10)
	took, filled, err := fillWithWorks(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	ready, restarted, err := startHub(ctx, o.nave, dir, settle)
	if err != nil {
		return nil, err
	}
	const goal = "10,000: <= 700 MB"
	return []row{
		{what + ", created after", took.Round(100 * time.Millisecond).String(), ""},
		{what + ", resident (anonymous)", filled.String(), goal},
		{what + ", restart to ready", ready.Round(10 * time.Millisecond).String(), "10,000: <= 8 s"},
		{what + ", after a restart, resident (anonymous)", restarted.String(), goal},
	}, nil
}

func fillWithWorks(ctx context.Context, o options, dir string) (time.Duration, memory, error) {
	hub, _, err := runHub(ctx, o.nave, dir)
	if err != nil {
		return 0, memory{}, err
	}
	defer hub.stop()
	if err := acceptClusters(ctx, dir); err != nil {
		return 0, memory{}, err
	}
	took, err := store(ctx, dir, o.stored, storedBytes)
	if err != nil {
		return 0, memory{}, err
	}
	m, err := hub.settled(ctx)
	return took, m, err
}

func (h *hubProcess) settled(ctx context.Context) (memory, error) {
	if err := pause(ctx, settle); err != nil {
		return memory{}, err
	}
	return memoryOf(h.cmd.Process.Pid)
}

func storedCluster(i int) string { return fmt.Sprintf("stored-%02d", i%storedClusters) }

// acceptClusters makes the clusters that works are stored for.
func acceptClusters(ctx context.Context, dir string) error {
	all := make([]*clusterv1.ManagedCluster, storedClusters)
	for i := range all {
		all[i] = &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: storedCluster(i)}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	}
	return fill(ctx, dir, all, nil)
}

// store creates n works of a size for the clusters in turn, and returns how long it took.
func store(ctx context.Context, dir string, n, bytes int) (time.Duration, error) {
	_, config, err := clientFor(adminKubeconfig(dir))
	if err != nil {
		return 0, err
	}
	works, err := workclient.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	var creating errgroup.Group
	creating.SetLimit(storedClients)
	begun := time.Now()
	for i := range n {
		creating.Go(func() error {
			_, err := works.WorkV1().ManifestWorks(storedCluster(i)).Create(ctx, workOfBytes(i, bytes), metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create work %d of %d: %w", i, n, err)
			}
			return nil
		})
	}
	err = creating.Wait()
	return time.Since(begun), err
}
