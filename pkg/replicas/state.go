package replicas

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/rollout"
)

// StatusOf tells how far a work is with the content of a template. One that is being deleted is in the way of a new one until
// it is gone, so it counts as progressing.
func StatusOf(work *workv1.ManifestWork, template *workv1.ManifestWorkSpec) rollout.Status {
	return Judge(work, HasContent(work, Content(&work.Spec), Content(template)), Ruled(template))
}

// Judge is StatusOf for a caller that knows whether the work has the content, and whether the template has rules.
//
// Whoever gives rules for the condition Progressing decides by them: a work has succeeded when it is not progressing any more,
// and failed when it is progressing and degraded, both once all of it is applied (spec 3.2). Without such rules upstream never
// takes any work for done (spec 10.2, C2). Here its own conditions then say it: it has succeeded when all of it is applied and
// available, and failed when something of it cannot be applied. Only what is said of the newest generation counts.
func Judge(work *workv1.ManifestWork, current, ruled bool) rollout.Status {
	switch {
	case work.DeletionTimestamp != nil:
		return rollout.Status{State: rollout.Progressing, Since: work.DeletionTimestamp.Time}
	case !current:
		return rollout.Status{State: rollout.ToApply}
	}
	said := said{work: work, since: written(work)}
	state := said.state(ruled)
	return rollout.Status{State: state, Since: said.since}
}

// Ruled tells whether a template has a rule that says when a work is progressing.
func Ruled(template *workv1.ManifestWorkSpec) bool {
	return slices.ContainsFunc(template.ManifestConfigs, func(config workv1.ManifestConfigOption) bool {
		return slices.ContainsFunc(config.ConditionRules, func(rule workv1.ConditionRule) bool {
			return rule.Condition == workv1.WorkProgressing
		})
	})
}

// said is what a work's conditions say, and since when those that were decisive say so.
type said struct {
	work  *workv1.ManifestWork
	since time.Time
}

func (s *said) state(ruled bool) rollout.State {
	ruled = ruled || meta.FindStatusCondition(s.work.Status.Conditions, workv1.WorkProgressing) != nil
	applied := s.of(workv1.WorkApplied)
	switch {
	case applied == metav1.ConditionFalse && !ruled:
		return rollout.Failed
	case applied != metav1.ConditionTrue:
		return rollout.Progressing
	case ruled:
		return s.byRules()
	case s.of(workv1.WorkDegraded) == metav1.ConditionTrue:
		return rollout.Failed
	case s.of(workv1.WorkAvailable) == metav1.ConditionTrue:
		return rollout.Succeeded
	}
	return rollout.Progressing
}

func (s *said) byRules() rollout.State {
	if degraded := meta.FindStatusCondition(s.work.Status.Conditions, workv1.WorkDegraded); degraded != nil && !s.current(degraded) {
		return rollout.Progressing
	}
	switch s.of(workv1.WorkProgressing) {
	case metav1.ConditionFalse:
		return rollout.Succeeded
	case metav1.ConditionTrue:
		if s.of(workv1.WorkDegraded) == metav1.ConditionTrue {
			return rollout.Failed
		}
	}
	return rollout.Progressing
}

// of is the status of a condition that is about the newest generation, empty if there is none.
func (s *said) of(kind string) metav1.ConditionStatus {
	c := meta.FindStatusCondition(s.work.Status.Conditions, kind)
	if c == nil || !s.current(c) {
		return ""
	}
	if at := c.LastTransitionTime.Time; at.After(s.since) {
		s.since = at
	}
	return c.Status
}

func (s *said) current(c *metav1.Condition) bool { return c.ObservedGeneration == s.work.Generation }
