package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// TestMisconfigured has what can be wrong with a placement, but for what TestWrongExpressions and TestWrongSpread have. The
// texts are what PlacementMisconfigured says.
func TestMisconfigured(t *testing.T) {
	for _, test := range []struct{ name, spec, message string }{
		{"a label operator that there is not", selectors("labelSelector: {matchExpressions: [{key: a, operator: Nonsense}]}"),
			`Predicate:labelSelector: "Nonsense" is not a valid label selector operator`},
		{"a label In of nothing", selectors("labelSelector: {matchExpressions: [{key: a, operator: In}]}"),
			"Predicate:labelSelector: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"},
		{"a label that Exists with a value", selectors("labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}"),
			`Predicate:labelSelector: values: Invalid value: ["b"]: values set must be empty for exists and does not exist`},
		{"a claim operator that there is not", selectors("claimSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}"),
			`Predicate:claimSelector: "Gt" is not a valid label selector operator`},
		{"a claim NotIn of nothing", selectors("claimSelector: {matchExpressions: [{key: a, operator: NotIn}]}"),
			"Predicate:claimSelector: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"},
		{"the second predicate", selectors(east, "claimSelector: {matchExpressions: [{key: a, operator: Nonsense}]}"),
			`Predicate:claimSelector: "Nonsense" is not a valid label selector operator`},

		{"any key with a value", "tolerations: [{value: a}]", "TaintToleration:If the key is empty, operator must be Exists."},
		{"any value with a value", "tolerations: [{key: a, operator: Exists, value: b}]", "TaintToleration:If the operator is Exists, the value should be empty."},

		{"a mode that there is not", "prioritizerPolicy: {mode: Sometimes}", "Prioritizer:incorrect prioritizer policy mode: Sometimes"},
		{"no coordinate", "prioritizerPolicy: {configurations: [{weight: 1}]}", "Prioritizer:scoreCoordinate field is required"},
		{"a prioritizer that there is not", policy("Additive", "Fastest=1"), "Prioritizer:incorrect builtin prioritizer: Fastest"},
		{"a prioritizer that there is not, with weight 0", policy("Exact", "Fastest=0"), "Prioritizer:incorrect builtin prioritizer: Fastest"},
		{"no prioritizer", "prioritizerPolicy: {configurations: [{scoreCoordinate: {type: BuiltIn}}]}", "Prioritizer:incorrect builtin prioritizer: "},
		{"an add-on's score of no add-on", "prioritizerPolicy: {configurations: [{scoreCoordinate: {type: AddOn}}]}", "Prioritizer:addOn should not be empty"},

		{"a group size that is a text", "decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: many}}",
			"DecisionStrategy:clustersPerDecisionGroup: invalid value for IntOrString: invalid type: string is not a percentage"},
		{"a group size that is a number as text", "decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: '3'}}",
			"DecisionStrategy:clustersPerDecisionGroup: invalid value for IntOrString: invalid type: string is not a percentage"},
		{"a percentage of no number", "decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: many%}}",
			`DecisionStrategy:clustersPerDecisionGroup: invalid value for IntOrString: invalid value "many%": strconv.Atoi: parsing "many": invalid syntax`},
		{"labels of a group", "decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Nonsense}]}}}]}}",
			`DecisionStrategy:decision group canary: labelSelector: "Nonsense" is not a valid label selector operator`},
		{"claims of a group", "decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: canary, groupClusterSelector: {claimSelector: {matchExpressions: [{key: a, operator: Nonsense}]}}}]}}",
			`DecisionStrategy:decision group canary: claimSelector: "Nonsense" is not a valid label selector operator`},

		{"a rate that is none", "scoreRateLimit: often", `ScoreRateLimit:"often" is no duration, such as 1m`},
		{"a rate of less than nothing", "scoreRateLimit: -1m", `ScoreRateLimit:"-1m" is no duration, such as 1m`},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := compiler(t, nil).Compile(&clusterv1beta1.Placement{Spec: *read[clusterv1beta1.PlacementSpec](t, test.spec)})
			require.Nil(t, plan)
			var wrong *Misconfigured
			require.ErrorAs(t, err, &wrong)
			require.EqualError(t, err, test.message)
		})
	}
}

func TestHowScoresAreShown(t *testing.T) {
	for spec, want := range map[string]struct {
		sorted bool
		every  time.Duration
	}{
		"{}": {false, time.Minute},
		"{sortBy: ClusterName, scoreRateLimit: 10s}": {false, 10 * time.Second},
		"{sortBy: Score, scoreRateLimit: 0s}":        {true, 0},
	} {
		plan := planOf(t, spec)
		require.Equal(t, want.sorted, plan.SortByScore(), spec)
		require.Equal(t, want.every, plan.ScoreInterval(), spec)
	}
}
