package work

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"
)

// configFor is what the work says about how to treat a manifest: of each field, the first entry that matches and sets it. How
// its state is followed is said by the entry whose rules hold: every entry has a value there, since the API fills it in.
func configFor(work *workv1.ManifestWork, m *manifest) workv1.ManifestConfigOption {
	var out workv1.ManifestConfigOption
	for _, c := range work.Spec.ManifestConfigs {
		if !matchesAll(c.ResourceIdentifier, m.id()) {
			continue
		}
		if out.UpdateStrategy == nil {
			out.UpdateStrategy = c.UpdateStrategy
		}
		rules := false
		if out.FeedbackRules == nil && c.FeedbackRules != nil {
			out.FeedbackRules, rules = c.FeedbackRules, true
		}
		if out.ConditionRules == nil && c.ConditionRules != nil {
			out.ConditionRules, rules = c.ConditionRules, true
		}
		if rules && out.FeedbackScrapeType != workv1.FeedbackWatchType {
			out.FeedbackScrapeType = c.FeedbackScrapeType
		}
	}
	return out
}

func matchesAll(pattern, id identity) bool {
	return matches(pattern.Group, id.Group) && matches(pattern.Resource, id.Resource) &&
		matches(pattern.Namespace, id.Namespace) && matches(pattern.Name, id.Name)
}

// matches compares with a pattern in which * stands for any run of characters. It takes no longer than the product of the
// two lengths, whatever the pattern.
func matches(pattern, value string) bool {
	star, again := -1, 0
	p, v := 0, 0
	for v < len(value) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, again = p, v
			p++
		case p < len(pattern) && pattern[p] == value[v]:
			p++
			v++
		case star >= 0:
			again++
			p, v = star+1, again
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// strategyFor is the strategy by which a manifest is applied.
func strategyFor(work *workv1.ManifestWork, m *manifest) workv1.UpdateStrategy {
	if s := configFor(work, m).UpdateStrategy; s != nil {
		return *s
	}
	return workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
}

func readOnly(work *workv1.ManifestWork, m *manifest) bool {
	return strategyFor(work, m).Type == workv1.UpdateStrategyTypeReadOnly
}

// owned tells whether the object goes when the work goes (spec 4.2): not if the work orphans everything, or this one, or only
// looks at it.
func owned(work *workv1.ManifestWork, m *manifest) bool {
	if readOnly(work, m) {
		return false
	}
	option := work.Spec.DeleteOption
	if option == nil {
		return true
	}
	switch option.PropagationPolicy {
	case workv1.DeletePropagationPolicyTypeOrphan:
		return false
	case workv1.DeletePropagationPolicyTypeSelectivelyOrphan:
		if option.SelectivelyOrphan == nil {
			return true
		}
		return !slices.Contains(option.SelectivelyOrphan.OrphaningRules, workv1.OrphaningRule(m.id()))
	}
	return true
}
