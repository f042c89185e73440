package scheduling

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

// Reasons of the conditions of a placement, upstream's (spec 5.4).
const (
	reasonNoBindings     = "NoManagedClusterSetBindings"
	reasonNoIntersection = "NoIntersection"
	reasonSetsEmpty      = "AllManagedClusterSetsEmpty"
	reasonNoneMatched    = "NoManagedClusterMatched"
	reasonScheduled      = "AllDecisionsScheduled"
	reasonNotScheduled   = "NotAllDecisionsScheduled"
	reasonMisconfigured  = "Misconfigured"
	reasonConfigured     = "Succeedconfigured"
)

// maxNamed is how many sets or taints a message names; of the rest it gives the number.
const maxNamed = 5

// schedulingDisabled is told of a placement that is new while somebody else schedules it, since clients expect conditions.
const schedulingDisabled = "scheduling is switched off by annotation " + clusterv1beta1.PlacementDisableAnnotation

// conditionsOf are the conditions of a placement before its own ones are set: others' stay, and the two that upstream's
// clients read come first and in upstream's order, as clusteradm shows whichever is the first.
func conditionsOf(p *clusterv1beta1.Placement, misconfigured, satisfied metav1.Condition) []metav1.Condition {
	var all []metav1.Condition
	for _, want := range []metav1.Condition{misconfigured, satisfied} {
		if before := meta.FindStatusCondition(p.Status.Conditions, want.Type); before != nil {
			all = append(all, *before)
		}
		want.ObservedGeneration = p.Generation
		meta.SetStatusCondition(&all, want)
	}
	for _, other := range p.Status.Conditions {
		if meta.FindStatusCondition(all, other.Type) == nil {
			all = append(all, other)
		}
	}
	return all
}

func configured(wrong *placement.Misconfigured) metav1.Condition {
	if wrong == nil {
		return metav1.Condition{Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionFalse,
			Reason: reasonConfigured, Message: "Placement configurations check pass"}
	}
	return metav1.Condition{Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionTrue, Reason: reasonMisconfigured, Message: wrong.Error()}
}

func unsatisfied(reason, format string, arguments ...any) metav1.Condition {
	return metav1.Condition{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// undecided is what a placement says that cannot be evaluated.
func undecided(wrong *placement.Misconfigured, selected int) metav1.Condition {
	return unsatisfied(reasonNotScheduled, "%s; nothing new is selected until this is mended, and the %d clusters that were selected before stay so", wrong.Error(), selected)
}

// satisfied says whether a placement has the clusters that it asks for, and if not, what would give it them. The texts begin
// as upstream's do.
func (c *Controller) satisfied(t *target, e *evaluation, now time.Time) metav1.Condition {
	s, want := e.scope, t.object.Spec.ClusterSets
	switch {
	case len(s.bound) == 0 && len(s.bindings) > 0:
		return unsatisfied(reasonNoBindings, "No valid ManagedClusterSetBindings found in placement namespace: "+
			"there is no ManagedClusterSet %s; create it, or bind one that exists", named(s.bindings))
	case len(s.bound) == 0:
		return unsatisfied(reasonNoBindings, "No valid ManagedClusterSetBindings found in placement namespace: "+
			"create a ManagedClusterSetBinding in namespace %s, named as the set", t.namespace)
	case len(s.eligible) == 0:
		return unsatisfied(reasonNoIntersection, "None of ManagedClusterSets %s is bound to placement namespace: bound is %s; bind one of the former, or name one of the latter",
			named(want), named(s.bound))
	case e.refusals.clusters == 0:
		return unsatisfied(reasonSetsEmpty, "All ManagedClusterSets %s have no member ManagedCluster: add clusters to one of them", named(s.eligible))
	case e.refusals.leaving == e.refusals.clusters:
		return unsatisfied(reasonSetsEmpty, "All ManagedClusterSets %s have no member ManagedCluster: all %d are being deleted", named(s.eligible), e.refusals.leaving)
	case len(e.candidates) == 0:
		return unsatisfied(reasonNoneMatched, "%s", c.nothingMatched(t, e, now))
	case e.selection.Unscheduled > 0:
		return unsatisfied(reasonNotScheduled, "%d cluster decisions unscheduled: %s", e.selection.Unscheduled, c.tooFew(t, e, now))
	case len(e.selection.HeldBack) > 0 && t.object.Spec.NumberOfClusters == nil:
		return unsatisfied(reasonNotScheduled, "%d cluster decisions unscheduled: %s", len(e.selection.HeldBack), heldBack(e))
	}
	return metav1.Condition{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue,
		Reason: reasonScheduled, Message: "All cluster decisions scheduled"}
}

func (c *Controller) nothingMatched(t *target, e *evaluation, now time.Time) string {
	if e.refusals.tainted == 0 {
		return fmt.Sprintf("No ManagedCluster matches any of the cluster predicate: none of %d clusters does; "+
			"widen spec.predicates or label the clusters", e.refusals.mismatched)
	}
	text := fmt.Sprintf("No ManagedCluster is left: %s", c.untolerated(t, e, now))
	if e.refusals.mismatched > 0 {
		text += fmt.Sprintf("; %d more clusters match none of the predicates", e.refusals.mismatched)
	}
	return text
}

// untolerated says which taints keep clusters out that match.
func (c *Controller) untolerated(t *target, e *evaluation, now time.Time) string {
	var taints []string
	for i, taint := range c.refusing(t, now) {
		if i == maxNamed {
			taints = append(taints, "and others")
			break
		}
		taints = append(taints, fmt.Sprintf("%s (%d)", taint.what, taint.n))
	}
	return fmt.Sprintf("%d clusters match the predicates but have taints that spec.tolerations does not tolerate: %s; tolerate them, or remove them from the clusters",
		e.refusals.tainted, strings.Join(taints, ", "))
}

// tooFew says where the clusters are that a placement asks for and does not get.
func (c *Controller) tooFew(t *target, e *evaluation, now time.Time) string {
	parts := []string{fmt.Sprintf("%d of %d clusters in the sets can be selected", len(e.selected), e.refusals.clusters)}
	if len(e.selection.HeldBack) > 0 {
		parts = append(parts, heldBack(e))
	}
	if e.refusals.mismatched > 0 {
		parts = append(parts, fmt.Sprintf("%d match none of the predicates", e.refusals.mismatched))
	}
	if e.refusals.tainted > 0 {
		parts = append(parts, c.untolerated(t, e, now))
	}
	if e.refusals.leaving > 0 {
		parts = append(parts, fmt.Sprintf("%d are being deleted", e.refusals.leaving))
	}
	return strings.Join(parts, "; ") + fmt.Sprintf("; add clusters, or lower spec.numberOfClusters to %d", len(e.selected))
}

func heldBack(e *evaluation) string {
	return fmt.Sprintf("%d are kept out by spread constraints with DoNotSchedule", len(e.selection.HeldBack))
}

// named lists names as upstream's messages do, but not more than a reader takes in.
func named(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("[%s and %d more]", strings.Join(names[:maxNamed], ","), len(names)-maxNamed)
	}
	return "[" + strings.Join(names, ",") + "]"
}
