package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/workload"
)

func targetOf(t *testing.T, arguments string) *workload.Target {
	t.Helper()
	var by byPlacement
	flags := pflag.NewFlagSet("apply", pflag.ContinueOnError)
	by.addFlags(flags)
	require.NoError(t, flags.Parse(strings.Fields("--placement p "+arguments)))
	to, err := by.target(flags, nil)
	require.NoError(t, err)
	return to
}

func TestTarget(t *testing.T) {
	none := targetOf(t, "-n shops --foreground")
	require.Equal(t, &workload.Target{Namespace: "shops", Placement: "p", Foreground: true}, none, "what is not said is not changed")
	for _, test := range []struct {
		arguments string
		kind      clusterv1alpha1.RolloutType
		mandatory []clusterv1alpha1.MandatoryDecisionGroup
	}{
		{"--rollout all", clusterv1alpha1.All, nil},
		{"--progress-deadline 5m", clusterv1alpha1.All, nil},
		{"--rollout progressive", clusterv1alpha1.Progressive, nil},
		{"--rollout progressive --mandatory-groups=", clusterv1alpha1.Progressive, []clusterv1alpha1.MandatoryDecisionGroup{}},
		{"--rollout progressive-per-group --mandatory-groups canary,1", clusterv1alpha1.ProgressivePerGroup, []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}, {GroupIndex: 1}}},
	} {
		t.Run(test.arguments, func(t *testing.T) {
			to := targetOf(t, test.arguments)
			require.Equal(t, test.kind, to.Rollout.Type)
			require.Equal(t, test.mandatory, to.Mandatory)
		})
	}
}

func TestCheckMandatory(t *testing.T) {
	named := &clusterv1beta1.Placement{}
	named.Name, named.Namespace = "p", "shops"
	named.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{GroupName: "canary"}, {GroupName: "late"}}
	named.Status.DecisionGroups = make([]clusterv1beta1.DecisionGroupStatus, 3)
	nameless := &clusterv1beta1.Placement{}
	for _, test := range []struct {
		placement *clusterv1beta1.Placement
		groups    string
		err       string
	}{
		{named, "canary", ""},
		{named, "canary,2,0", ""},
		{named, "canry", "placement p of namespace shops has no decision group canry, it has canary, late"},
		{named, "3", "has no decision group 3, there are 3 of them, from 0"},
		{nameless, "7", ""}, // nobody has looked at it yet
		{nameless, "canary", "no decision group of placement  of namespace  has a name"},
	} {
		t.Run(test.groups, func(t *testing.T) {
			err := checkMandatory(test.placement, mandatory(strings.Split(test.groups, ",")))
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
		})
	}
}

func TestCaution(t *testing.T) {
	const progressive = "--rollout progressive "
	for _, test := range []struct {
		arguments string
		want      bool
	}{
		{"", false},
		{"--rollout all", false},
		{"--rollout progressive-per-group --max-failures 5", false},
		{progressive + "--max-concurrency 2", false},
		{progressive + "--max-failures 2", false},
		{progressive + "--max-concurrency 2 --max-failures 1", false},
		{progressive + "--max-concurrency 2 --max-failures 2", true},
		{progressive + "--max-concurrency 25% --max-failures 10%", false},
		{progressive + "--max-concurrency 10% --max-failures 25%", true},
		{progressive + "--max-concurrency 5 --max-failures 10%", true},
		{progressive + "--max-concurrency 1 --max-failures 2 --progress-deadline None", true},
		{progressive + "--max-concurrency 1 --max-failures 2 --progress-deadline 5m", false},
	} {
		t.Run(test.arguments, func(t *testing.T) {
			require.Equal(t, test.want, caution(targetOf(t, test.arguments).Rollout) != "")
		})
	}
}
