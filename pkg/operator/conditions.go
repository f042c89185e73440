package operator

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
)

const (
	validGates = "ValidFeatureGates"

	// Unsupported is a condition of ours: it is there, and true, while a spec sets fields that mean nothing in one process.
	Unsupported       = "UnsupportedConfiguration"
	reasonUnsupported = "FieldsWithoutEffect"
)

// Conditions are those that tell of the findings. features are the gates as they come to be, for people to read.
func (f Findings) Conditions(features map[featuregate.Feature]bool) []metav1.Condition {
	valid := metav1.Condition{Type: validGates, Status: metav1.ConditionTrue, Reason: "FeatureGatesAllValid", Message: "Feature gates are all valid" + switched(features)}
	if len(f.InvalidGates) > 0 {
		valid.Status, valid.Reason = metav1.ConditionFalse, "InvalidFeatureGatesExisting"
		valid.Message = "There are no such feature gates, they are left out: " + strings.Join(f.InvalidGates, ", ")
	}
	all := []metav1.Condition{valid}
	if len(f.Unsupported) > 0 {
		all = append(all, metav1.Condition{
			Type: Unsupported, Status: metav1.ConditionTrue, Reason: reasonUnsupported,
			Message: "These fields have no effect, since everything runs in one process and not in pods, or since it is not supported: " + strings.Join(f.Unsupported, ", "),
		})
	}
	return all
}

func switched(features map[featuregate.Feature]bool) string {
	var pairs []string
	for name, on := range features {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, on))
	}
	if len(pairs) == 0 {
		return ""
	}
	slices.Sort(pairs)
	return "; in effect: " + strings.Join(pairs, ", ")
}

// WithConditions is current with all of want as seen at a generation of the object. Conditions of somebody else stay;
// Unsupported goes once there is nothing to tell.
func WithConditions(current, want []metav1.Condition, generation int64) []metav1.Condition {
	next := slices.Clone(current)
	if meta.FindStatusCondition(want, Unsupported) == nil {
		meta.RemoveStatusCondition(&next, Unsupported)
	}
	for _, c := range want {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(&next, c)
	}
	return next
}
