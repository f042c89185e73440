package workload

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"sigs.k8s.io/yaml"
)

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// TestTarget has sets in the state before, what the flags say as target, and what the set's placements are to be.
func TestTarget(t *testing.T) {
	const p1, p2 = `{name: p1, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 1, mandatoryDecisionGroups: [{groupName: canary}]}}}`,
		`{name: p2, rolloutStrategy: {type: All, all: {progressDeadline: 5m}}}`
	progressive := `{type: Progressive, progressive: {maxConcurrency: 25%}}`
	for _, test := range []struct {
		name      string
		before    string // empty: there is no such set
		placement string
		rollout   string // empty: no flag says it
		mandatory []clusterv1alpha1.MandatoryDecisionGroup
		force     bool
		want      string // or
		err       string
	}{
		{name: "new", placement: "p1", want: `[{name: p1, rolloutStrategy: {type: All, all: {}}}]`},
		{name: "new, with a rollout", placement: "p1", rollout: progressive, want: `[{name: p1, rolloutStrategy: ` + progressive + `}]`},
		{name: "new, with a canary", placement: "p1", rollout: progressive, mandatory: []clusterv1alpha1.MandatoryDecisionGroup{{GroupIndex: 1}},
			want: `[{name: p1, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 25%, mandatoryDecisionGroups: [{groupIndex: 1}]}}}]`},
		{name: "no flag: nothing of the rollout changes", before: `[` + p1 + `]`, placement: "p1", want: `[` + p1 + `]`},
		{name: "another rollout still begins with the canary", before: `[` + p1 + `]`, placement: "p1", rollout: progressive,
			want: `[{name: p1, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 25%, mandatoryDecisionGroups: [{groupName: canary}]}}}]`},
		{name: "and one by groups", before: `[` + p1 + `]`, placement: "p1", rollout: `{type: ProgressivePerGroup, progressivePerGroup: {}}`,
			want: `[{name: p1, rolloutStrategy: {type: ProgressivePerGroup, progressivePerGroup: {mandatoryDecisionGroups: [{groupName: canary}]}}}]`},
		{name: "unless it is to begin with none", before: `[` + p1 + `]`, placement: "p1", rollout: progressive, mandatory: []clusterv1alpha1.MandatoryDecisionGroup{},
			want: `[{name: p1, rolloutStrategy: ` + progressive + `}]`},
		{name: "all at once has none", before: `[` + p1 + `]`, placement: "p1", rollout: `{type: All, all: {}}`, want: `[{name: p1, rolloutStrategy: {type: All, all: {}}}]`},
		{name: "what others have added stays", before: `[` + p1 + `, ` + p2 + `]`, placement: "p2", rollout: `{type: All, all: {}}`,
			want: `[` + p1 + `, {name: p2, rolloutStrategy: {type: All, all: {}}}]`},
		{name: "another placement", before: `[` + p1 + `]`, placement: "p2",
			err: "replica set app of namespace shops goes to placement p1, and not to p2; choose another name for what goes there, or move the set there with --force"},
		{name: "another placement than several", before: `[` + p1 + `, ` + p2 + `]`, placement: "p3", err: "goes to placement p1, p2, and not to p3"},
		{name: "moved", before: `[` + p1 + `]`, placement: "p2", force: true, want: `[{name: p2, rolloutStrategy: {type: All, all: {}}}]`},
		{name: "taken over with its placements", before: `[` + p1 + `, ` + p2 + `]`, placement: "p1", force: true, want: `[` + p1 + `, ` + p2 + `]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := Target{Namespace: "shops", Placement: test.placement, Mandatory: test.mandatory}
			if test.rollout != "" {
				target.Rollout = &clusterv1alpha1.RolloutStrategy{}
				require.NoError(t, yaml.UnmarshalStrict([]byte(test.rollout), target.Rollout))
			}
			var before *workv1alpha1.ManifestWorkReplicaSet
			if test.before != "" {
				before = &workv1alpha1.ManifestWorkReplicaSet{}
				before.Name = "app"
				require.NoError(t, yaml.UnmarshalStrict([]byte(test.before), &before.Spec.PlacementRefs))
			}
			refs, err := target.refs(before, test.force)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			var want []workv1alpha1.LocalPlacementReference
			require.NoError(t, yaml.UnmarshalStrict([]byte(test.want), &want))
			require.JSONEq(t, jsonOf(t, want), jsonOf(t, refs))
		})
	}
}
