package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// fleetClients fill a hub at the same time.
const fleetClients = 16

// fillPatience is enough for ten thousand clusters on a slow machine.
const fillPatience = 20 * time.Minute

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

// simulated is a cluster that no agent serves.
func simulated(i int) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: simulatedName(i), Labels: map[string]string{siteLabel: site(i), tierLabel: tier(i), zoneLabel: zone(i)},
	}}
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

// newFleet starts a hub and fills it with clusters. They are not accepted: of what a hub makes for those that are, some ten
// objects each, only namespaces matter here, and only to works.
func newFleet(ctx context.Context, nave, dir string, size int, namespaces bool) (*fleet, error) {
	f := &fleet{nave: nave, dir: dir, size: size}
	if _, err := f.start(ctx); err != nil {
		return nil, err
	}
	all := make([]*clusterv1.ManagedCluster, size)
	for i := range all {
		all[i] = simulated(i)
	}
	err := fill(ctx, dir, all, reported)
	if err == nil && namespaces {
		err = makeNamespaces(ctx, dir, all)
	}
	if err != nil {
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

// fill creates clusters, writes the status that each has by its index if there is one, and waits for the namespaces of those
// that are accepted.
func fill(ctx context.Context, dir string, all []*clusterv1.ManagedCluster, status func(int) clusterv1.ManagedClusterStatus) error {
	ctx, cancel := context.WithTimeout(ctx, fillPatience)
	defer cancel()
	_, config, err := clientFor(adminKubeconfig(dir))
	if err != nil {
		return err
	}
	clusters, err := clusterclient.NewForConfig(config)
	if err != nil {
		return err
	}
	creating, group := errgroup.WithContext(ctx)
	creating.SetLimit(fleetClients)
	for i, mc := range all {
		creating.Go(func() error {
			if _, err := clusters.ClusterV1().ManagedClusters().Create(group, mc, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create cluster %s: %w", mc.Name, err)
			}
			if status == nil {
				return nil
			}
			return writeStatus(group, clusters, mc.Name, status(i))
		})
	}
	if err := creating.Wait(); err != nil {
		return err
	}
	return untilNamespaces(ctx, config, all)
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

func makeNamespaces(ctx context.Context, dir string, clusters []*clusterv1.ManagedCluster) error {
	kube, _, err := clientFor(adminKubeconfig(dir))
	if err != nil {
		return err
	}
	creating, ctx := errgroup.WithContext(ctx)
	creating.SetLimit(fleetClients)
	for _, mc := range clusters {
		creating.Go(func() error {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mc.Name}}
			_, err := kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			return err
		})
	}
	return creating.Wait()
}

// untilNamespaces waits until each of the clusters has its namespace.
func untilNamespaces(ctx context.Context, config *rest.Config, clusters []*clusterv1.ManagedCluster) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	for {
		list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return fmt.Errorf("list namespaces: %w", err)
		}
		there := sets.New[string]()
		for _, namespace := range list.Items {
			there.Insert(namespace.Name)
		}
		i := slices.IndexFunc(clusters, func(mc *clusterv1.ManagedCluster) bool { return mc.Spec.HubAcceptsClient && !there.Has(mc.Name) })
		if i < 0 {
			return nil
		}
		if err := pause(ctx, pollJoined); err != nil {
			return fmt.Errorf("namespace of cluster %s: %w", clusters[i].Name, err)
		}
	}
}
