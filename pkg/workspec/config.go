package workspec

import workv1 "open-cluster-management.io/api/work/v1"

// ConfigFor is what a work says about how to treat an object (spec 4.2): of each field, the first entry that matches and sets it. How
// its state is followed is said by the entry whose rules hold: every entry has a value there, since the API fills it in.
func ConfigFor(work *workv1.ManifestWork, id workv1.ResourceIdentifier) workv1.ManifestConfigOption {
	var out workv1.ManifestConfigOption
	for _, c := range work.Spec.ManifestConfigs {
		if !matchesAll(c.ResourceIdentifier, id) {
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

func matchesAll(pattern, id workv1.ResourceIdentifier) bool {
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

// StrategyOf is the strategy that a configuration comes to; Update if it has none.
func StrategyOf(config workv1.ManifestConfigOption) workv1.UpdateStrategy {
	if config.UpdateStrategy != nil {
		return *config.UpdateStrategy
	}
	return workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
}
