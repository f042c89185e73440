package replicaset

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
)

const (
	// reasonPaused is that of PlacementRolledOut while somebody holds the rollout. Upstream has no such thing.
	reasonPaused = "Paused"

	maxNamed = 5 // clusters that a message names

	maxMessage = 4 << 10 // bytes of a condition's message, which may have 32 KiB at most
	maxTrouble = 512     // bytes of one error in it
)

// status is that of the set (spec 3.2), with what could not be written.
func (e *evaluation) status(troubles []string) workv1alpha1.ManifestWorkReplicaSetStatus {
	status := workv1alpha1.ManifestWorkReplicaSetStatus{PlacementsSummary: []workv1alpha1.PlacementSummary{}}
	for _, p := range e.placements {
		status.PlacementsSummary = append(status.PlacementsSummary, workv1alpha1.PlacementSummary{
			Name: p.name, Summary: p.sum,
			AvailableDecisionGroups: fmt.Sprintf("%d (%d / %d clusters applied)", len(p.chosen.Groups), p.sum.Total, p.chosen.Total),
		})
		add(&status.Summary, p.sum)
	}
	status.Conditions = slices.Clone(e.set.Status.Conditions)
	verified := e.verified(status.Summary)
	for _, condition := range []metav1.Condition{verified, e.rolledOut(troubles), appliedOf(status.Summary, verified)} {
		condition.ObservedGeneration, condition.Message = e.set.Generation, clipped(condition.Message, maxMessage)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

func add(to *workv1alpha1.ManifestWorkReplicaSetSummary, s workv1alpha1.ManifestWorkReplicaSetSummary) {
	to.Total += s.Total
	to.Progressing += s.Progressing
	to.Available += s.Available
	to.Degraded += s.Degraded
	to.Applied += s.Applied
	to.DesiredTotal += s.DesiredTotal
	to.Updated += s.Updated
}

// count counts a work that has the content of the template, by what is said of it.
func count(sum *workv1alpha1.ManifestWorkReplicaSetSummary, r *record) {
	sum.Total++
	sum.Updated++
	for _, of := range []struct {
		kind  string
		count *int
	}{
		{workv1.WorkApplied, &sum.Applied}, {workv1.WorkAvailable, &sum.Available}, {workv1.WorkProgressing, &sum.Progressing}, {workv1.WorkDegraded, &sum.Degraded},
	} {
		if holds(r.ManifestWork, of.kind) {
			*of.count++
		}
	}
}

// holds tells whether a condition is true of what a work is now. Some agents do not say of what they speak.
func holds(work *workv1.ManifestWork, kind string) bool {
	c := meta.FindStatusCondition(work.Status.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && (c.ObservedGeneration == 0 || c.ObservedGeneration == work.Generation)
}

// verified says whether the placements are there and select clusters.
func (e *evaluation) verified(sum workv1alpha1.ManifestWorkReplicaSetSummary) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: workv1alpha1.ManifestWorkReplicaSetConditionPlacementVerified, Status: status, Reason: reason, Message: message}
	}
	for _, p := range e.placements {
		if p.chosen.Missing {
			return is(metav1.ConditionFalse, workv1alpha1.ReasonPlacementDecisionNotFound,
				fmt.Sprintf("placement %s/%s does not exist: create it; the %d works that were made for it stay until then", e.set.Namespace, p.name, p.works))
		}
	}
	for _, p := range e.placements {
		if p.wrong != nil {
			return is(metav1.ConditionFalse, workv1alpha1.ReasonNotAsExpected, fmt.Sprintf("placement %s: %s", p.name, p.wrong))
		}
	}
	if sum.Total+sum.DesiredTotal == 0 {
		return is(metav1.ConditionFalse, workv1alpha1.ReasonPlacementDecisionEmpty, "the placements select no cluster: nave placement explain says why")
	}
	return is(metav1.ConditionTrue, workv1alpha1.ReasonAsExpected, fmt.Sprintf("%d clusters are selected", sum.DesiredTotal))
}

// rolledOut says how far the rollout is.
func (e *evaluation) rolledOut(troubles []string) metav1.Condition {
	condition := metav1.Condition{Type: workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut, Status: metav1.ConditionFalse, Reason: workv1alpha1.ReasonProgressing}
	complete := true
	var texts []string
	for _, p := range e.placements {
		switch {
		case p.chosen.Missing || p.wrong != nil:
			complete = false
			texts = append(texts, fmt.Sprintf("placement %s: nothing new goes to its clusters, PlacementVerified says why", p.name))
		case !p.result.Complete() || !p.chosen.Whole:
			complete = false
			texts = append(texts, fmt.Sprintf("placement %s: %s", p.name, p.tell()))
		}
	}
	texts = append(texts, troubles...)
	switch {
	case complete && len(troubles) == 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, workv1alpha1.ReasonComplete, "all selected clusters have succeeded"
		return condition
	case rollout.Paused(e.set.Annotations):
		condition.Reason = reasonPaused
		texts = append([]string{"no cluster gets new content while annotation " + rollout.PausedAnnotation + " is \"true\""}, texts...)
	}
	condition.Message = strings.Join(texts, "; ")
	return condition
}

// tell says how far the rollout to a placement is.
func (p *progress) tell() string {
	r := p.result
	parts := []string{fmt.Sprintf("%d of %d clusters have succeeded", r.Done, p.chosen.Total)}
	for _, some := range []struct {
		what  string
		names []string
	}{
		{"failed", r.Failed}, {"not done in time", r.TimedOut}, {"under way", r.Underway},
		{"succeeded, for minSuccessTime", r.Soaking}, {"waiting", append(slices.Clone(r.Apply), r.Waiting...)},
	} {
		if len(some.names) > 0 {
			parts = append(parts, some.what+": "+named(some.names))
		}
	}
	if !p.chosen.Whole {
		parts = append(parts, "not all decisions of it are known yet, and until then no other cluster gets the content")
	}
	if r.Stalled {
		parts = append(parts, "failed clusters have all places of maxConcurrency, and without a progressDeadline they keep them; mend them, raise maxConcurrency or set progressDeadline")
	}
	if r.Breached {
		parts = append(parts, "too many have failed, so no other cluster gets the content; mend it or raise maxFailures")
	}
	return strings.Join(parts, ", ")
}

func named(names []string) string {
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], " "), len(names)-maxNamed)
	}
	return strings.Join(names, " ")
}

// appliedOf sums the works up.
func appliedOf(sum workv1alpha1.ManifestWorkReplicaSetSummary, verified metav1.Condition) metav1.Condition {
	condition := metav1.Condition{Type: workv1alpha1.ManifestWorkReplicaSetConditionManifestworkApplied, Status: metav1.ConditionFalse}
	switch {
	case sum.Total == 0 && verified.Reason == workv1alpha1.ReasonPlacementDecisionEmpty:
		condition.Reason = workv1alpha1.ReasonPlacementDecisionEmpty
	case sum.Total == 0:
		condition.Reason = workv1alpha1.ReasonNotAsExpected
	case sum.Available == sum.Total && sum.Progressing == 0 && sum.Degraded == 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, workv1alpha1.ReasonAsExpected
	case sum.Progressing > 0 && sum.Degraded == 0:
		condition.Reason = workv1alpha1.ReasonProcessing
	default:
		condition.Reason = workv1alpha1.ReasonNotAsExpected
	}
	condition.Message = fmt.Sprintf("of %d works %d are applied, %d available, %d progressing, %d degraded", sum.Total, sum.Applied, sum.Available, sum.Progressing, sum.Degraded)
	return condition
}

// leaving is the status of a set whose deletion waits for the works in some clusters.
func leaving(set *workv1alpha1.ManifestWorkReplicaSet, clusters, troubles []string) workv1alpha1.ManifestWorkReplicaSetStatus {
	status := *set.Status.DeepCopy()
	status.Summary = workv1alpha1.ManifestWorkReplicaSetSummary{}
	for i := range status.PlacementsSummary {
		status.PlacementsSummary[i].Summary = workv1alpha1.ManifestWorkReplicaSetSummary{}
	}
	message := "deletion waits until the works are gone from clusters " + named(clusters)
	if len(troubles) > 0 {
		message = "deletion waits for works that cannot be deleted: " + strings.Join(troubles, "; ")
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: workv1alpha1.ManifestWorkReplicaSetConditionManifestworkApplied, Status: metav1.ConditionFalse, Reason: workv1alpha1.ReasonNotAsExpected,
		Message: message, ObservedGeneration: set.Generation,
	})
	return status
}

// reasonOf is how far the conditions of a set say that its rollout is, for comparison.
func reasonOf(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, workv1alpha1.ManifestWorkReplicaSetConditionPlacementRolledOut); c != nil {
		return c.Reason
	}
	return ""
}

// brief are the first few of many errors.
func brief(errs []error) []string {
	var all []string
	for _, err := range errs[:min(len(errs), maxNamed)] {
		all = append(all, clipped(err.Error(), maxTrouble))
	}
	if more := len(errs) - maxNamed; more > 0 {
		all = append(all, fmt.Sprintf("and %d clusters more that could not be written to", more))
	}
	return all
}

// clipped is a text with not more than so many bytes, and a sign if it had more.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
