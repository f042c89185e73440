package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

const (
	// placementNamespace has all placements; the set of all clusters is bound to it.
	placementNamespace = "default"
	allClusters        = "global"
)

// shape is a kind of placement; there are so many of it. change makes the i-th of them.
type shape struct {
	name   string
	n      int
	change func(spec *clusterv1beta1.PlacementSpec, i int)
}

// shapes are what people ask of a large fleet, mixed: most want the clusters of one place, some the best few of many, and a
// few want everything.
func shapes() []shape {
	return []shape{
		{"site", sites, func(spec *clusterv1beta1.PlacementSpec, i int) {
			spec.Predicates = labelled(siteLabel, site(i))
		}},
		{"memory", 20, func(spec *clusterv1beta1.PlacementSpec, i int) {
			spec.Predicates = labelled(tierLabel, tier(i))
			spec.NumberOfClusters = ptr.To[int32](10)
			spec.PrioritizerPolicy = clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeAdditive, Configurations: []clusterv1beta1.PrioritizerConfig{
				{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "ResourceAllocatableMemory"}, Weight: 2}}}
		}},
		{"provider", 15, func(spec *clusterv1beta1.PlacementSpec, i int) {
			spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: providerClaim, Operator: metav1.LabelSelectorOpIn, Values: []string{provider(i)}}}}}}}
			spec.NumberOfClusters = ptr.To[int32](100)
		}},
		{"expression", 8, func(spec *clusterv1beta1.PlacementSpec, i int) {
			spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{CelSelector: clusterv1beta1.ClusterCelSelector{
				CelExpressions: []string{fmt.Sprintf("managedCluster.metadata.labels[%q] == %q", zoneLabel, zone(i))}}}}}
		}},
		{"spread", 5, func(spec *clusterv1beta1.PlacementSpec, i int) {
			spec.NumberOfClusters = ptr.To[int32](50)
			spec.SpreadPolicy = clusterv1beta1.SpreadPolicy{SpreadConstraints: []clusterv1beta1.SpreadConstraintsTerm{
				{TopologyKey: zoneLabel, TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel, MaxSkew: 1, WhenUnsatisfiable: clusterv1beta1.ScheduleAnyway}}}
		}},
		{"everywhere", 2, func(spec *clusterv1beta1.PlacementSpec, _ int) {
			spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("10%")
		}},
	}
}

// measurePlacements decides for all placements, moves clusters, lets the hub rest, and restarts it.
func measurePlacements(ctx context.Context, o options, f *fleet) ([]figure, error) {
	placed, selected, err := f.place(ctx)
	if err != nil {
		return nil, err
	}
	moved, err := f.moves(ctx, o.moves)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, settle); err != nil {
		return nil, err
	}
	atRest, err := cpuShare(ctx, f.hub.cmd.Process.Pid, settle)
	if err != nil {
		return nil, err
	}
	before, err := f.decisionVersions(ctx)
	if err != nil {
		return nil, err
	}
	idle, err := memoryOf(f.hub.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	f.hub.stop()
	restarted, err := f.start(ctx)
	if err != nil {
		return nil, err
	}
	again, err := f.moves(ctx, 1)
	if err != nil {
		return nil, err
	}
	after, err := f.decisionVersions(ctx)
	if err != nil {
		return nil, err
	}
	return []figure{
		count("clusters selected", selected, ""),
		duration(fmt.Sprintf("%d placements created and evaluated after", len(shaped())), placed, "<= 5s"),
		duration("label changed to decisions changed, p50", median(moved), ""),
		duration("label changed to decisions changed, p99", quantile(moved, 0.99), "<= 200ms"),
		ofACore(fmt.Sprintf("hub at rest, of a core over %s", settle), atRest, "<= 2 %"),
		megabytes("hub at rest, resident", idle.resident, ""),
		duration("restart to ready", restarted, ""),
		duration("restart, then label changed to decisions changed", again[0], ""),
		count("decisions written by a restart and one change", written(before, after), "2"),
	}, nil
}

// decisionVersions are the versions of all PlacementDecisions by name.
func (f *fleet) decisionVersions(ctx context.Context) (map[string]string, error) {
	list, err := f.clusters.ClusterV1beta1().PlacementDecisions(placementNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	versions := make(map[string]string, len(list.Items))
	for _, d := range list.Items {
		versions[d.Name] = d.ResourceVersion
	}
	return versions, nil
}

// written counts what is new, gone, or changed.
func written(before, after map[string]string) int {
	n := 0
	for name, version := range after {
		if before[name] != version {
			n++
		}
	}
	for name := range before {
		if _, still := after[name]; !still {
			n++
		}
	}
	return n
}

func labelled(key, value string) []clusterv1beta1.ClusterPredicate {
	return []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}}
}

// shaped are the placements of all shapes. Clusters without agents get taints after a while: they are all tolerated.
func shaped() []*clusterv1beta1.Placement {
	var all []*clusterv1beta1.Placement
	for _, s := range shapes() {
		for i := range s.n {
			p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: placementName(s.name, i)}}
			p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
			s.change(&p.Spec, i)
			all = append(all, p)
		}
	}
	return all
}

func placementName(shape string, i int) string { return fmt.Sprintf("%s-%02d", shape, i) }

// bind lets the placements select from all clusters.
func (f *fleet) bind(ctx context.Context) error {
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: allClusters}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: allClusters}}
	if _, err := f.clusters.ClusterV1beta2().ManagedClusterSetBindings(placementNamespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind set %s: %w", allClusters, err)
	}
	return nil
}

// place makes all placements and waits until each says that it is evaluated; it returns how long that took, and how many
// decisions there are.
func (f *fleet) place(ctx context.Context) (time.Duration, int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f.bind(ctx); err != nil {
		return 0, 0, err
	}
	placements := f.clusters.ClusterV1beta1().Placements(placementNamespace)
	events, err := placements.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, fmt.Errorf("watch placements: %w", err)
	}
	defer events.Stop()
	all := shaped()
	begun := time.Now()
	creating, gctx := errgroup.WithContext(ctx)
	creating.SetLimit(fleetClients)
	for _, p := range all {
		creating.Go(func() error {
			_, err := placements.Create(gctx, p, metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		return 0, 0, fmt.Errorf("create placements: %w", err)
	}
	selected := map[string]int{}
	for len(selected) < len(all) {
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("%d of %d placements are evaluated: %w", len(selected), len(all), ctx.Err())
		case event, ok := <-events.ResultChan():
			p, is := event.Object.(*clusterv1beta1.Placement)
			if !ok || !is {
				return 0, 0, fmt.Errorf("watch of placements ends: %s %v", event.Type, event.Object)
			}
			if meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied) != nil {
				selected[p.Name] = int(p.Status.NumberOfSelectedClusters)
			}
		}
	}
	took, total := time.Since(begun), 0
	for _, n := range selected {
		total += n
	}
	return took, total, nil
}

// moves takes clusters from one site to another, one after the other, and returns for each how long it took until the
// decisions of both sites' placements said so.
func (f *fleet) moves(ctx context.Context, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	decisions, err := watchDecisions(ctx, f.clusters)
	if err != nil {
		return nil, err
	}
	defer decisions.stop()
	random := rand.New(rand.NewPCG(1, uint64(f.size)))
	took := make([]time.Duration, 0, n)
	for _, i := range random.Perm(f.size)[f.moved:min(f.moved+n, f.size)] {
		d, err := f.move(ctx, decisions, i, i%sites, (i+sites/2)%sites)
		f.moved++
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

func (f *fleet) move(ctx context.Context, decisions *decisionWatch, cluster, from, to int) (time.Duration, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, siteLabel, site(to))
	begun := time.Now()
	if _, err := f.clusters.ClusterV1().ManagedClusters().Patch(ctx, simulatedName(cluster), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return 0, fmt.Errorf("label cluster %s: %w", simulatedName(cluster), err)
	}
	name := simulatedName(cluster)
	err := decisions.until(ctx, func() bool {
		return !decisions.has(placementName("site", from), name) && decisions.has(placementName("site", to), name)
	})
	if err != nil {
		return 0, fmt.Errorf("decisions on cluster %s, which went from %s to %s: %w", name, site(from), site(to), err)
	}
	return time.Since(begun), nil
}
