package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

// decisionTimeout is how long nave placement create waits for the hub's decision, which takes milliseconds.
const decisionTimeout = 10 * time.Second

// Reasons of a placement that finds none of the bindings that it needs, upstream's.
const (
	reasonNoBindings     = "NoManagedClusterSetBindings"
	reasonNoIntersection = "NoIntersection"
)

// newPlacement is a placement as the flags describe it.
type newPlacement struct {
	sets     []string
	labels   map[string]string
	count    int32
	perGroup string
	tolerate bool
}

func (g *global) placementCreate() *cobra.Command {
	var in namespacedAccess
	var n newPlacement
	timeout := decisionTimeout
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a placement, and bind the cluster sets that it selects from to its namespace",
		Long: `Makes a placement that selects from cluster sets, by labels, and as many clusters as wanted. The namespace, and the bindings of the
cluster sets to it, are made if they are not there; a binding takes the right to bind the set. Then it says what is selected.

What the flags do not cover, prioritizers, tolerations, decision groups of their own, is in the Placement that it makes, for
kubectl edit.`,
		Example: `  nave placement create app -n shops --set default --labels region=eu --count 3`,
		Args:    onePlacement,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			p, err := n.placement(in.namespace, arguments[0], cmd.Flags().Changed("count"))
			if err != nil {
				return err
			}
			hub, err := in.connect()
			if err != nil {
				return err
			}
			return g.createPlacement(cmd.Context(), hub, p, timeout)
		},
	}
	in.addFlags(cmd.Flags(), "the placement")
	cmd.Flags().StringSliceVar(&n.sets, "set", nil, "cluster sets to select from, s1 or s1,s2; all that are bound to the namespace if empty")
	cmd.Flags().StringToStringVar(&n.labels, "labels", nil, "labels that the clusters are to have, k=v or k=v,k2=v2")
	cmd.Flags().Int32Var(&n.count, "count", 0, "how many clusters to select; all that match if it is left out")
	cmd.Flags().StringVar(&n.perGroup, "clusters-per-group", "", "how many clusters one decision group has, a number or a percentage; all are in one if empty")
	cmd.Flags().BoolVar(&n.tolerate, "tolerate-unreachable", false, "keep clusters selected that are not available or not reachable")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the hub to decide")
	return cmd
}

func (n *newPlacement) placement(namespace, name string, counted bool) (*clusterv1beta1.Placement, error) {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.ClusterSets = n.sets
	if counted {
		if n.count < 0 {
			return nil, usageError{fmt.Errorf("--count %d is negative", n.count)}
		}
		p.Spec.NumberOfClusters = &n.count
	}
	if len(n.labels) > 0 {
		p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: n.labels},
		}}}
	}
	if n.perGroup != "" {
		p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.Parse(n.perGroup)
	}
	if n.tolerate {
		for _, taint := range []string{clusterv1.ManagedClusterTaintUnreachable, clusterv1.ManagedClusterTaintUnavailable} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, clusterv1beta1.Toleration{Key: taint, Operator: clusterv1beta1.TolerationOpExists})
		}
	}
	return p, nil
}

func (g *global) createPlacement(ctx context.Context, hub *clients, p *clusterv1beta1.Placement, timeout time.Duration) error {
	placements := hub.clusters.ClusterV1beta1().Placements(p.Namespace)
	exists := fmt.Errorf("placement %s of namespace %s exists already; nave placement explain %s -n %s shows what it selects", p.Name, p.Namespace, p.Name, p.Namespace)
	if _, err := placements.Get(ctx, p.Name, metav1.GetOptions{}); err == nil {
		return exists
	}
	for _, set := range p.Spec.ClusterSets {
		if _, err := hub.clusters.ClusterV1beta2().ManagedClusterSets().Get(ctx, set, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return fmt.Errorf("hub %s has no cluster set %s; nave kubectl get managedclustersets shows those that it has", hub.config.Host, set)
		}
	}
	if err := g.ensureNamespace(ctx, hub, p.Namespace); err != nil {
		return err
	}
	bound := false
	for _, set := range p.Spec.ClusterSets {
		made, err := g.ensureBinding(ctx, hub, p.Namespace, set)
		if err != nil {
			return err
		}
		bound = bound || made
	}
	made, err := placements.Create(ctx, p, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return exists
	case err != nil:
		return fmt.Errorf("placement %s of namespace %s: %w", p.Name, p.Namespace, err)
	}
	fmt.Fprintf(g.streams.Out, "placement %s of namespace %s created\n", p.Name, p.Namespace)
	decided, err := hub.awaitDecision(ctx, made, bound, timeout)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.streams.Out, "it selects %s\n", selection(decided))
	if c := satisfied(decided); c == nil || c.Status != metav1.ConditionTrue {
		fmt.Fprintf(g.streams.Out, "nave placement explain %s -n %s says why\n", p.Name, p.Namespace)
	}
	return nil
}

// ensureNamespace makes the namespace of a placement. Who may not see namespaces learns from what follows if it is missing.
func (g *global) ensureNamespace(ctx context.Context, hub *clients, name string) error {
	namespaces := hub.kube.CoreV1().Namespaces()
	if _, err := namespaces.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		return nil
	}
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("the hub has no namespace %s, and it cannot be made: %w", name, err)
	}
	fmt.Fprintf(g.streams.Out, "namespace %s created\n", name)
	return nil
}

// ensureBinding lets placements of a namespace select from a cluster set, and tells whether that is new.
func (g *global) ensureBinding(ctx context.Context, hub *clients, namespace, set string) (bool, error) {
	bindings := hub.clusters.ClusterV1beta2().ManagedClusterSetBindings(namespace)
	if _, err := bindings.Get(ctx, set, metav1.GetOptions{}); err == nil {
		return false, nil
	}
	_, err := bindings.Create(ctx, &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("bind cluster set %s to namespace %s: %w", set, namespace, err)
	}
	fmt.Fprintf(g.streams.Out, "cluster set %s bound to namespace %s\n", set, namespace)
	return true, nil
}

// awaitDecision waits until the hub has looked at a new placement. Where a set was bound just before, it may have looked too
// early: then it is given the time to see the binding.
func (c *clients) awaitDecision(ctx context.Context, p *clusterv1beta1.Placement, bound bool, timeout time.Duration) (*clusterv1beta1.Placement, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	placements := c.clusters.ClusterV1beta1().Placements(p.Namespace)
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, p.Name).String()
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = named
		return placements.Watch(ctx, o)
	}}
	last := p
	_, err := watchtools.Until(ctx, p.ResourceVersion, source, func(e watch.Event) (bool, error) {
		now, ok := e.Object.(*clusterv1beta1.Placement)
		if !ok || e.Type == watch.Deleted {
			return false, fmt.Errorf("placement %s of namespace %s was deleted meanwhile", p.Name, p.Namespace)
		}
		last = now
		said := satisfied(now)
		return said != nil && !(bound && unbound(said)), nil
	})
	if err == nil || wait.Interrupted(err) || errors.Is(err, context.DeadlineExceeded) {
		return last, nil
	}
	return nil, err
}

// unbound tells whether the hub has found no binding of a set that a placement selects from.
func unbound(said *metav1.Condition) bool {
	return said.Status != metav1.ConditionTrue && (said.Reason == reasonNoBindings || said.Reason == reasonNoIntersection)
}
