package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/spoke/work/conditions"
)

const (
	// conditionFeedback of a manifest says whether values were had by its feedback rules.
	conditionFeedback = "StatusFeedbackSynced"

	// conditionSupported of a work says what it asks for that the agent does not do; it is there only then.
	conditionSupported = "Supported"

	// maxValuesBytes bounds the values of a whole work, each with its name. The hub would refuse a status that is larger than
	// an object may be, and with it all that it says.
	maxValuesBytes = 256 << 10

	// ruleReason begins the reasons of conditions that come from a work's rules, as upstream has them.
	ruleReason = "ConditionRule"
)

// status is the work's status by what came of its manifests (spec 4.2, 4.6). Conditions of others, and the transition times
// of what did not change, are kept.
func status(work *workv1.ManifestWork, before workv1.ManifestWorkStatus, results []result, now time.Time) workv1.ManifestWorkStatus {
	next := *before.DeepCopy()
	known := byObject(before.ResourceStatus.Manifests)
	next.ResourceStatus.Manifests = make([]workv1.ManifestCondition, len(results))
	var ruled [][]metav1.Condition
	room := maxValuesBytes
	for i, r := range results {
		r.findings = r.findings.within(&room)
		identity := resourceMeta(r.manifest)
		m := manifestStatus(work, r, identity, known[objectOf(identity)], now)
		next.ResourceStatus.Manifests[i] = m
		ruled = append(ruled, fromRules(m.Conditions))
	}
	kept := slices.DeleteFunc(conditions.Aggregate(ruled), func(c metav1.Condition) bool { return c.Type == workv1.WorkAvailable })
	next.Conditions = slices.DeleteFunc(next.Conditions, func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Reason, ruleReason) && meta.FindStatusCondition(kept, c.Type) == nil
	})
	for _, c := range append(kept, workConditions(results, next.ResourceStatus.Manifests)...) {
		c.ObservedGeneration = work.Generation
		meta.SetStatusCondition(&next.Conditions, c)
	}
	setSupported(work, &next.Conditions)
	return next
}

// within are findings whose values fit into the room that is left for those of a work, which they take. Values that do not fit
// are left out, and it is said.
func (f *findings) within(room *int) *findings {
	if f == nil {
		return nil
	}
	size := 0
	for _, v := range f.values {
		size += len(v.Name) + sizeOf(v.Value)
	}
	if size <= *room {
		*room -= size
		return f
	}
	fewer := *f
	fewer.values = nil
	fewer.feedback = fmt.Sprintf("the values of all manifests of the work together exceed the limit of %d bytes; these are left out", maxValuesBytes)
	return &fewer
}

// sizeOf is about how many bytes a value has in a status.
func sizeOf(v workv1.FieldValue) int {
	const frame = 64 // its type, a number, and what is around them
	switch {
	case v.String != nil:
		return frame + len(*v.String)
	case v.JsonRaw != nil:
		return frame + len(*v.JsonRaw)
	}
	return frame
}

// objectOf is what two reports about the same object have in common, wherever in the work it stood.
func objectOf(m workv1.ManifestResourceMeta) workv1.ManifestResourceMeta {
	m.Ordinal, m.Resource = 0, ""
	return m
}

func byObject(all []workv1.ManifestCondition) map[workv1.ManifestResourceMeta]workv1.ManifestCondition {
	known := make(map[workv1.ManifestResourceMeta]workv1.ManifestCondition, len(all))
	for _, m := range all {
		known[objectOf(m.ResourceMeta)] = m
	}
	return known
}

func resourceMeta(m *manifest) workv1.ManifestResourceMeta {
	gvk := m.object.GroupVersionKind()
	return workv1.ManifestResourceMeta{
		Ordinal: int32(m.ordinal), Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Resource: m.gvr.Resource, Namespace: m.object.GetNamespace(), Name: m.object.GetName(),
	}
}

// manifestStatus is what is said of one manifest, given what was said before.
func manifestStatus(work *workv1.ManifestWork, r result, identity workv1.ManifestResourceMeta, before workv1.ManifestCondition, now time.Time) workv1.ManifestCondition {
	next := workv1.ManifestCondition{ResourceMeta: identity, Conditions: slices.Clone(before.Conditions), StatusFeedbacks: before.StatusFeedbacks}
	ruled := ruleConditions(r, before)
	next.Conditions = slices.DeleteFunc(next.Conditions, func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Reason, ruleReason) && meta.FindStatusCondition(ruled, c.Type) == nil
	})
	feedback, values := feedbackCondition(r, before)
	if !equality.Semantic.DeepEqual(values, before.StatusFeedbacks.Values) {
		meta.RemoveStatusCondition(&next.Conditions, conditionFeedback) // its transition time says when values changed
	}
	next.StatusFeedbacks.Values = values
	for _, c := range append([]metav1.Condition{appliedCondition(r), availableCondition(r), feedback}, ruled...) {
		c.ObservedGeneration, c.LastTransitionTime = work.Generation, metav1.NewTime(now)
		if c.Type == workv1.ManifestAvailable && meta.FindStatusCondition(ruled, c.Type) != nil && !strings.HasPrefix(c.Reason, ruleReason) {
			continue // a rule of the work's own says when it is available
		}
		meta.SetStatusCondition(&next.Conditions, c)
	}
	return next
}

func appliedCondition(r result) metav1.Condition {
	c := metav1.Condition{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete", Message: "Apply manifest complete"}
	var badField *ignoreFieldError
	switch {
	case errors.As(r.err, &badField):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "AppliedManifestSSAIgnoreFieldError", "Failed to process ignoreFields: "+r.err.Error()
	case r.err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "AppliedManifestFailed", "Failed to apply manifest: "+r.err.Error()
	}
	c.Message = shorten(c.Message)
	return c
}

// shorten keeps a message within what a condition may hold.
func shorten(message string) string {
	const most = 4 << 10 // of the 32 KiB that the API allows: a work may have thousands of manifests
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + " …"
}

func availableCondition(r result) metav1.Condition {
	c := metav1.Condition{Type: workv1.ManifestAvailable}
	switch {
	case r.exists:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "ResourceAvailable", "Resource is available"
	case errors.Is(r.err, errUnseen):
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "FetchingResourceFailed", shorten(r.err.Error())
	case r.gvr.Resource == "" || r.object.GetName() == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "IncompleteResourceMeta", "Resource meta is incomplete"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "ResourceNotAvailable", "Resource is not available"
	}
	return c
}

// feedbackCondition says whether the object's values were had. One that has completed and is gone keeps the last ones.
func feedbackCondition(r result, before workv1.ManifestCondition) (metav1.Condition, []workv1.FeedbackValue) {
	c := metav1.Condition{Type: conditionFeedback, Status: metav1.ConditionTrue, Reason: "NoStatusFeedbackSynced"}
	if r.findings == nil || !r.findings.wanted {
		return c, nil
	}
	if last := meta.FindStatusCondition(before.Conditions, conditionFeedback); r.findings.missing && r.done && last != nil {
		return *last, before.StatusFeedbacks.Values
	}
	if r.findings.feedback != "" {
		c.Status, c.Reason = metav1.ConditionFalse, "StatusFeedbackSyncFailed"
		c.Message = shorten("Sync status feedback failed with error " + r.findings.feedback)
		return c, r.findings.values
	}
	c.Reason = "StatusFeedbackSynced"
	return c, r.findings.values
}

// ruleConditions are what a work's rules say of an object. One that completed and is gone says what it said at last.
func ruleConditions(r result, before workv1.ManifestCondition) []metav1.Condition {
	var all []metav1.Condition
	switch {
	case r.findings == nil:
		return nil
	case r.findings.missing && r.done:
		all = fromRules(before.Conditions)
	default:
		all = slices.Clone(r.findings.conditions)
	}
	return slices.DeleteFunc(all, func(c metav1.Condition) bool {
		reason, _ := unusable(c.Type)
		return reason != ""
	})
}

func fromRules(all []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range all {
		if strings.HasPrefix(c.Reason, ruleReason) {
			out = append(out, c)
		}
	}
	return out
}

// unusable says why the agent does not evaluate a rule for a condition of that name; "" if it does. Available is none of those
// that it sets and that a rule would only fight with: a work may well say by a rule when an object is available. A hub refuses
// the whole status of a work if the name is none.
func unusable(kind string) (reason, why string) {
	switch kind {
	case workv1.ManifestApplied, conditionFeedback, conditionSupported, workv1.WorkDeleting:
		return "ReservedCondition", "which the agent itself sets"
	}
	if errs := validation.IsQualifiedName(kind); len(errs) > 0 {
		return "InvalidCondition", "which cannot be the name of a condition: " + errs[0]
	}
	return "", ""
}

// workConditions sum up the manifests. A rule of the work's own for Available counts as what it says.
func workConditions(results []result, manifests []workv1.ManifestCondition) []metav1.Condition {
	failed, missing, unknown := 0, 0, 0
	for i, r := range results {
		if r.err != nil {
			failed++
		}
		switch c := meta.FindStatusCondition(manifests[i].Conditions, workv1.ManifestAvailable); c.Status {
		case metav1.ConditionFalse:
			missing++
		case metav1.ConditionUnknown:
			unknown++
		}
	}
	applied := metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete", Message: "Apply manifest work complete"}
	if failed > 0 {
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, "AppliedManifestWorkFailed", "Failed to apply manifest work"
	}
	available := metav1.Condition{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, Reason: "ResourcesAvailable", Message: "All resources are available"}
	switch {
	case missing > 0:
		available.Status, available.Reason = metav1.ConditionFalse, "ResourcesNotAvailable"
		available.Message = fmt.Sprintf("%d of %d resources are not available", missing, len(results))
	case unknown > 0:
		available.Status, available.Reason = metav1.ConditionUnknown, "ResourcesStatusUnknown"
		available.Message = fmt.Sprintf("%d of %d resources have unknown status", unknown, len(results))
	}
	return []metav1.Condition{applied, available}
}

// setSupported names what a work asks for and does not get.
func setSupported(work *workv1.ManifestWork, all *[]metav1.Condition) {
	for _, c := range work.Spec.ManifestConfigs {
		for _, rule := range c.ConditionRules {
			reason, why := unusable(rule.Condition)
			if reason == "" {
				continue
			}
			meta.SetStatusCondition(all, metav1.Condition{
				Type: conditionSupported, Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: work.Generation,
				Message: shorten(fmt.Sprintf("a condition rule of %s %s names the condition %q, %s; it is not evaluated, give it another name",
					c.ResourceIdentifier.Resource, c.ResourceIdentifier.Name, rule.Condition, why)),
			})
			return
		}
	}
	meta.RemoveStatusCondition(all, conditionSupported)
}
