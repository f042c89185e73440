package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

func (g *global) placementCommand() *cobra.Command {
	return group("placement", "Placements of the hub: which clusters are selected, and why", g.placementList(), g.placementExplain(), g.placementCreate())
}

// namespacedAccess is the hub and the namespace whose objects a verb is about.
type namespacedAccess struct {
	access
	namespace string
}

func (n *namespacedAccess) addFlags(flags *pflag.FlagSet, what string) {
	n.access.addFlags(flags)
	flags.StringVarP(&n.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of "+what)
}

// onePlacement is the argument of verbs about one placement.
func onePlacement(cmd *cobra.Command, arguments []string) error {
	return exactly(1, "the name of a placement")(cmd, arguments)
}

// satisfied is the condition that says whether a placement has what it wants; nil if the hub has not looked at it yet.
func satisfied(p *clusterv1beta1.Placement) *metav1.Condition {
	return meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
}

// wanted is how many clusters a placement is to select, for people.
func wanted(p *clusterv1beta1.Placement) string {
	if p.Spec.NumberOfClusters == nil {
		return "all"
	}
	return fmt.Sprint(*p.Spec.NumberOfClusters)
}

// selection says what a placement selects, and what it lacks.
func selection(p *clusterv1beta1.Placement) string {
	count := fmt.Sprintf("%d clusters", p.Status.NumberOfSelectedClusters)
	switch p.Status.NumberOfSelectedClusters {
	case 0:
		count = "no cluster"
	case 1:
		count = "1 cluster"
	}
	c := satisfied(p)
	switch {
	case c == nil:
		return count + ": the hub has not looked at it yet"
	case c.Status == metav1.ConditionTrue:
		return count
	}
	return fmt.Sprintf("%s: %s (%s)", count, oneLineOf(c.Message), c.Reason)
}
