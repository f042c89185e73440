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
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	clusterscheme "open-cluster-management.io/api/client/cluster/clientset/versioned/scheme"
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
	dryRun, output := "none", ""
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a placement, and bind the cluster sets that it selects from to its namespace",
		Long: `Makes a placement that selects from cluster sets, by labels, and as many clusters as wanted. The namespace, and the bindings of the
cluster sets to it, are made if they are not there; a binding takes the right to bind the set. Then it says what is selected.

What the flags do not cover, prioritizers, tolerations, decision groups of their own, is in the Placement that it makes, for
kubectl edit; or print it with --dry-run=client, and apply what you make of it.`,
		Example: `  nave placement create app -n shops --set default --labels region=eu --count 3
  nave placement create app -n shops --set default --dry-run=client > placement.yaml`,
		Args: onePlacement,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if _, err := g.load(cmd, nil); err != nil {
				return err
			}
			p, err := n.placement(in.namespace, arguments[0], cmd.Flags().Changed("count"))
			if err != nil {
				return err
			}
			if output != "" && output != "yaml" {
				return usageError{fmt.Errorf("--output %s is unknown; it is yaml", output)}
			}
			c := &creation{global: g, dryRun: dryRun != "none", yaml: output == "yaml" || dryRun != "none"}
			switch dryRun {
			case "client":
				return c.render(p)
			case "none", "server":
				if c.hub, err = in.connect(); err != nil {
					return err
				}
				return c.create(cmd.Context(), p, timeout)
			}
			return usageError{fmt.Errorf("--dry-run %q is unknown; it is none, client or server", dryRun)}
		},
	}
	in.addFlags(cmd.Flags(), "the placement")
	cmd.Flags().StringSliceVar(&n.sets, "set", nil, "cluster sets to select from, s1 or s1,s2; all that are bound to the namespace if empty")
	cmd.Flags().StringToStringVar(&n.labels, "labels", nil, "labels that the clusters are to have, k=v or k=v,k2=v2")
	cmd.Flags().Int32Var(&n.count, "count", 0, "how many clusters to select; all that match if it is left out")
	cmd.Flags().StringVar(&n.perGroup, "clusters-per-group", "", "how many clusters one decision group has, a number or a percentage; all are in one if empty")
	cmd.Flags().BoolVar(&n.tolerate, "tolerate-unreachable", false, "keep clusters selected that are not available or not reachable")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the hub to decide")
	cmd.Flags().StringVar(&dryRun, "dry-run", dryRun, "print what would be made instead: client, as for a hub that has none of it, or server, as the hub would have it")
	cmd.Flags().StringVarP(&output, "output", "o", "", "yaml prints what is made, as it is on the hub, and does not wait for its decision")
	return cmd
}

// placement is what the flags describe, checked as far as that takes no hub: nothing is to be made for one that cannot be.
func (n *newPlacement) placement(namespace, name string, counted bool) (*clusterv1beta1.Placement, error) {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return nil, usageError{fmt.Errorf("a placement cannot have the name %q: %s", name, wrong[0])}
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return nil, usageError{fmt.Errorf("--namespace %q: %s", namespace, wrong[0])}
	}
	if wrong := metav1validation.ValidateLabels(n.labels, field.NewPath("--labels")); len(wrong) > 0 {
		return nil, usageError{wrong[0]}
	}
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.ClusterSets = n.sets
	p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("100%") // as the hub would say it
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
		size := intstr.Parse(n.perGroup)
		if part, err := intstr.GetScaledValueFromIntOrPercent(&size, 100, true); err != nil || part < 1 || size.Type == intstr.String && part > 100 {
			return nil, usageError{fmt.Errorf("--clusters-per-group %q is neither a number from 1 nor a percentage from 1%% to 100%%", n.perGroup)}
		}
		p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = size
	}
	if n.tolerate {
		for _, taint := range []string{clusterv1.ManagedClusterTaintUnreachable, clusterv1.ManagedClusterTaintUnavailable} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, clusterv1beta1.Toleration{Key: taint, Operator: clusterv1beta1.TolerationOpExists})
		}
	}
	return p, nil
}

// creation makes a placement, and what it needs, or tries to.
type creation struct {
	*global
	hub    *clients
	dryRun bool
	yaml   bool // objects are printed, and not lines about them
}

// options of what is made.
func (c *creation) options() metav1.CreateOptions {
	if c.dryRun {
		return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	}
	return metav1.CreateOptions{}
}

// made tells of an object that was made, or would be.
func (c *creation) made(o runtime.Object, line string) error {
	if !c.yaml {
		_, err := fmt.Fprintln(c.streams.Out, line)
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterscheme.AddToScheme(scheme)); err != nil {
		return err
	}
	text, err := printable(o, scheme)
	if err != nil {
		return err
	}
	return c.printYAML(text)
}

// render prints a placement, and what it needs on a hub that has nothing of it, without asking one.
func (c *creation) render(p *clusterv1beta1.Placement) error {
	var all []runtime.Object
	if p.Namespace != metav1.NamespaceDefault {
		all = append(all, namespaceOf(p))
	}
	for _, set := range p.Spec.ClusterSets {
		all = append(all, bindingOf(p, set))
	}
	for _, o := range append(all, p) {
		if err := c.made(o, ""); err != nil {
			return err
		}
	}
	return nil
}

func (c *creation) create(ctx context.Context, p *clusterv1beta1.Placement, timeout time.Duration) error {
	placements := c.hub.clusters.ClusterV1beta1().Placements(p.Namespace)
	exists := fmt.Errorf("placement %s of namespace %s exists already; nave placement explain %s -n %s shows what it selects", p.Name, p.Namespace, p.Name, p.Namespace)
	if _, err := placements.Get(ctx, p.Name, metav1.GetOptions{}); err == nil {
		return exists
	}
	if err := c.hub.checkSets(ctx, p); err != nil {
		return err
	}
	if err := c.ensureNamespace(ctx, p); err != nil {
		return err
	}
	bound := false
	for _, set := range p.Spec.ClusterSets {
		made, err := c.ensureBinding(ctx, p, set)
		if err != nil {
			return err
		}
		bound = bound || made
	}
	made, err := placements.Create(ctx, p, c.options())
	switch {
	case apierrors.IsAlreadyExists(err):
		return exists
	case err != nil:
		return fmt.Errorf("placement %s of namespace %s: %w", p.Name, p.Namespace, err)
	}
	if err := c.made(made, fmt.Sprintf("placement %s of namespace %s created", p.Name, p.Namespace)); err != nil || c.yaml {
		return err
	}
	decided, err := c.hub.awaitDecision(ctx, made, bound, timeout)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.streams.Out, "it selects %s\n", selection(decided))
	if said := satisfied(decided); said == nil || said.Status != metav1.ConditionTrue {
		fmt.Fprintf(c.streams.Out, "nave placement explain %s -n %s says why\n", p.Name, p.Namespace)
	}
	return nil
}

// checkSets makes sure that there are cluster sets to select from, as far as the user may see that.
func (c *clients) checkSets(ctx context.Context, p *clusterv1beta1.Placement) error {
	const which = "nave kubectl get managedclustersets shows those that it has"
	for _, set := range p.Spec.ClusterSets {
		if _, err := c.clusters.ClusterV1beta2().ManagedClusterSets().Get(ctx, set, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return fmt.Errorf("hub %s has no cluster set %s; %s", c.config.Host, set, which)
		}
	}
	if len(p.Spec.ClusterSets) > 0 {
		return nil
	}
	bindings, err := c.clusters.ClusterV1beta2().ManagedClusterSetBindings(p.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil && len(bindings.Items) == 0 {
		return fmt.Errorf("no cluster set of hub %s is bound to namespace %s, so the placement would select no cluster; say --set NAME, %s", c.config.Host, p.Namespace, which)
	}
	return nil
}

func namespaceOf(p *clusterv1beta1.Placement) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
}

// bindingOf lets placements of a namespace select from a cluster set.
func bindingOf(p *clusterv1beta1.Placement, set string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
	}
}

// ensureNamespace makes the namespace of a placement. Who may not see namespaces learns from what follows if it is missing.
func (c *creation) ensureNamespace(ctx context.Context, p *clusterv1beta1.Placement) error {
	namespaces := c.hub.kube.CoreV1().Namespaces()
	if _, err := namespaces.Get(ctx, p.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("namespace %s: %w", p.Namespace, err)
		}
		return nil
	}
	if c.dryRun {
		return fmt.Errorf("the hub has no namespace %s, so it cannot try what would be in it; --dry-run=client prints that", p.Namespace)
	}
	made, err := namespaces.Create(ctx, namespaceOf(p), c.options())
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("the hub has no namespace %s, and it cannot be made: %w", p.Namespace, err)
	}
	return c.made(made, fmt.Sprintf("namespace %s created", p.Namespace))
}

// ensureBinding binds a cluster set to the namespace of a placement, and tells whether that is new.
func (c *creation) ensureBinding(ctx context.Context, p *clusterv1beta1.Placement, set string) (bool, error) {
	bindings := c.hub.clusters.ClusterV1beta2().ManagedClusterSetBindings(p.Namespace)
	if _, err := bindings.Get(ctx, set, metav1.GetOptions{}); err == nil {
		return false, nil
	}
	made, err := bindings.Create(ctx, bindingOf(p, set), c.options())
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("bind cluster set %s to namespace %s: %w", set, p.Namespace, err)
	}
	return true, c.made(made, fmt.Sprintf("cluster set %s bound to namespace %s", set, p.Namespace))
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
