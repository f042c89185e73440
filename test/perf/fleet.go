package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// fleetClients fill a hub at the same time.
const fleetClients = 16

// What the clusters of a simulated fleet are divided by: each has one of these many sites, tiers, zones and providers.
const (
	sites     = 50
	tiers     = 3
	zones     = 10
	providers = 4
)

const (
	siteLabel     = "perf.nave.dev/site"
	tierLabel     = "perf.nave.dev/tier"
	zoneLabel     = "topology.kubernetes.io/zone"
	providerClaim = "platform.open-cluster-management.io"
)

func simulatedName(i int) string { return fmt.Sprintf("sim-%05d", i) }
func site(i int) string          { return fmt.Sprintf("site-%02d", i%sites) }
func tier(i int) string          { return fmt.Sprintf("tier-%d", i%tiers) }
func zone(i int) string          { return fmt.Sprintf("zone-%d", i%zones) }
func provider(i int) string      { return fmt.Sprintf("provider-%d", i%providers) }

// simulated is an accepted cluster that no agent serves.
func simulated(i int) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: simulatedName(i), Labels: map[string]string{siteLabel: site(i), tierLabel: tier(i), zoneLabel: zone(i)}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
}

// reported is what the agent of a cluster would say of it: claims, and what can be allocated.
func reported(i int) clusterv1.ManagedClusterStatus {
	return clusterv1.ManagedClusterStatus{
		ClusterClaims: []clusterv1.ManagedClusterClaim{
			{Name: providerClaim, Value: provider(i)},
			{Name: "id.k8s.io", Value: simulatedName(i)},
		},
		Allocatable: clusterv1.ResourceList{
			clusterv1.ResourceCPU:    *resource.NewQuantity(int64(4+i%61), resource.DecimalSI),
			clusterv1.ResourceMemory: *resource.NewQuantity(int64(8+i%127)<<30, resource.BinarySI),
		},
	}
}

// fleet is a hub with simulated clusters.
type fleet struct {
	nave, dir string
	size      int
	moved     int // clusters that have gone to another site
	hub       *hubProcess
	clusters  clusterclient.Interface
	works     workclient.Interface
	metadata  metadata.Interface
}

// newFleet starts a hub and fills it with clusters.
func newFleet(ctx context.Context, nave, dir string, size int) (*fleet, error) {
	f := &fleet{nave: nave, dir: dir, size: size}
	if _, err := f.start(ctx); err != nil {
		return nil, err
	}
	all := make([]*clusterv1.ManagedCluster, size)
	for i := range all {
		all[i] = simulated(i)
	}
	if err := accept(ctx, dir, all, reported); err != nil {
		f.hub.stop()
		return nil, err
	}
	return f, nil
}

// start runs the hub, and returns after how long it was ready.
func (f *fleet) start(ctx context.Context) (time.Duration, error) {
	hub, took, err := runHub(ctx, f.nave, f.dir)
	if err != nil {
		return 0, err
	}
	f.hub = hub
	if err := f.connect(); err != nil {
		hub.stop()
		return 0, err
	}
	return took, nil
}

// connect makes clients anew: a hub has another port after each start.
func (f *fleet) connect() error {
	_, config, err := clientFor(adminKubeconfig(f.dir))
	if err != nil {
		return err
	}
	if f.clusters, err = clusterclient.NewForConfig(config); err != nil {
		return err
	}
	if f.works, err = workclient.NewForConfig(config); err != nil {
		return err
	}
	f.metadata, err = metadata.NewForConfig(config)
	return err
}

// accept creates clusters, writes the status that each has by its index if there is one, and waits for their namespaces.
func accept(ctx context.Context, dir string, all []*clusterv1.ManagedCluster, status func(int) clusterv1.ManagedClusterStatus) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	kube, config, err := clientFor(adminKubeconfig(dir))
	if err != nil {
		return err
	}
	clusters, err := clusterclient.NewForConfig(config)
	if err != nil {
		return err
	}
	creating, ctx := errgroup.WithContext(ctx)
	creating.SetLimit(fleetClients)
	for i, mc := range all {
		creating.Go(func() error {
			if _, err := clusters.ClusterV1().ManagedClusters().Create(ctx, mc, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create cluster %s: %w", mc.Name, err)
			}
			if status != nil {
				if err := writeStatus(ctx, clusters, mc.Name, status(i)); err != nil {
					return err
				}
			}
			return untilNamespace(ctx, kube, mc.Name)
		})
	}
	return creating.Wait()
}

func writeStatus(ctx context.Context, clusters clusterclient.Interface, name string, status clusterv1.ManagedClusterStatus) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"clusterClaims": status.ClusterClaims, "allocatable": status.Allocatable}})
	if err == nil {
		_, err = clusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("write status of cluster %s: %w", name, err)
	}
	return nil
}

func untilNamespace(ctx context.Context, kube kubernetes.Interface, name string) error {
	for {
		_, err := kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if pause(ctx, pollReady) != nil {
			return fmt.Errorf("namespace of cluster %s: %w", name, err)
		}
	}
}
