package conditions

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// reasonAggregated is the reason of a work's conditions that sum up those of its manifests.
const reasonAggregated = "ConditionRulesAggregated"

// sum counts conditions of one type.
type sum struct {
	yes, no, unknown int
	message          string // of the last one
}

// Aggregate gives the work's conditions by those that rules gave its manifests (spec 4.6), in the order of their types: False
// if any is, else Unknown if any is, else True. A work is progressing, though, as long as any of its manifests is.
func Aggregate(manifests [][]metav1.Condition) []metav1.Condition {
	sums := map[string]*sum{}
	for _, conditions := range manifests {
		for _, c := range conditions {
			if sums[c.Type] == nil {
				sums[c.Type] = &sum{}
			}
			sums[c.Type].add(c)
		}
	}
	var all []metav1.Condition
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		s := sums[kind]
		c := metav1.Condition{Type: kind, Status: s.status(kind), Reason: reasonAggregated, Message: s.message}
		if n := s.yes + s.no + s.unknown; n > 1 || c.Message == "" {
			c.Message = fmt.Sprintf("Aggregated from %d manifest conditions", n)
		}
		all = append(all, c)
	}
	return all
}

func (s *sum) add(c metav1.Condition) {
	switch c.Status {
	case metav1.ConditionTrue:
		s.yes++
	case metav1.ConditionFalse:
		s.no++
	default:
		s.unknown++
	}
	s.message = c.Message
}

func (s *sum) status(kind string) metav1.ConditionStatus {
	switch {
	case kind == workv1.WorkProgressing && s.yes > 0:
		return metav1.ConditionTrue
	case kind == workv1.WorkProgressing && s.unknown > 0:
		return metav1.ConditionUnknown
	case s.no > 0:
		return metav1.ConditionFalse
	case s.unknown > 0:
		return metav1.ConditionUnknown
	}
	return metav1.ConditionTrue
}
