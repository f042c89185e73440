package cleanup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
)

const (
	// priorityAnnotation orders what goes first among objects of a kind: the lowest, from 0 to maxPriority.
	priorityAnnotation = "open-cluster-management.io/cleanup-priority"
	maxPriority        = 100

	// namesTold is how many objects an event names of those that it counts.
	namesTold = 5
)

// patience says what is to become of a cluster that is being deleted while something of it is left: it is let go now, or
// looked at again after a time, or left to its agent for as long as it takes.
func patience(mc *clusterv1.ManagedCluster, timeout time.Duration, now time.Time) (letGo bool, again time.Duration) {
	if mc.Annotations[identity.ForceRemovalAnnotation] == "true" {
		return true, 0
	}
	if timeout <= 0 || mc.DeletionTimestamp == nil {
		return false, 0
	}
	left := timeout - now.Sub(mc.DeletionTimestamp.Time)
	switch {
	case left > 0:
		return false, left
	case meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable):
		// Its agent lives and may still be at it. A change of the condition is an event.
		return false, 0
	}
	return true, 0
}

// lowest are the objects with the lowest priority that is left.
func lowest(all []metav1.Object) []metav1.Object {
	first := maxPriority
	for _, o := range all {
		first = min(first, priority(o))
	}
	return slices.DeleteFunc(slices.Clone(all), func(o metav1.Object) bool { return priority(o) != first })
}

// priority of an object whose annotation is absent or no number in range is 0.
func priority(o metav1.Object) int {
	p, err := strconv.Atoi(o.GetAnnotations()[priorityAnnotation])
	if err != nil || p < 0 || p > maxPriority {
		return 0
	}
	return p
}

// remaining is upstream's message, spelling included, which tools look for (spec 10.4).
func remaining(resource string, all []metav1.Object) string {
	pending := 0
	for _, o := range all {
		if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 {
			pending++
		}
	}
	return fmt.Sprintf("The resource %s is remaning, the remaining count is %d, the finalizer pending count is %d", resource, len(all), pending)
}

// leftBehind says for an event what of a kind was given up.
func leftBehind(resource string, all []metav1.Object) string {
	var names []string
	for _, o := range all[:min(len(all), namesTold)] {
		names = append(names, o.GetName())
	}
	if len(all) > namesTold {
		names = append(names, "…")
	}
	return fmt.Sprintf("%d %s (%s)", len(all), resource, strings.Join(names, ", "))
}
