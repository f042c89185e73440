package work

import (
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workspec"
)

// strategy is how the manifest is applied.
func (m *manifest) strategy() workv1.UpdateStrategy { return workspec.StrategyOf(m.config) }

// readOnly tells whether the work only looks at the object.
func (m *manifest) readOnly() bool { return m.strategy().Type == workv1.UpdateStrategyTypeReadOnly }

// goesAlong tells whether an object goes when its work goes (spec 4.2): not if the work orphans everything, or this one.
func goesAlong(option *workv1.DeleteOption, id identity) bool {
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
		return !slices.Contains(option.SelectivelyOrphan.OrphaningRules, workv1.OrphaningRule(id))
	}
	return true
}
