package replicas

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"sigs.k8s.io/yaml"

	"nave/pkg/rollout"
)

// decision is the n-th decision of placement p, in a group.
func decision(n, group int, name string, clusters ...string) *clusterv1beta1.PlacementDecision {
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Name: "p-decision-" + strconv.Itoa(n),
		Labels: map[string]string{
			clusterv1beta1.PlacementLabel: "p", clusterv1beta1.DecisionGroupIndexLabel: strconv.Itoa(group), clusterv1beta1.DecisionGroupNameLabel: name,
		},
	}}
	for _, cluster := range clusters {
		d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
	}
	return d
}

// ownedBy says of which placement a decision is.
func ownedBy(uid types.UID, d *clusterv1beta1.PlacementDecision) *clusterv1beta1.PlacementDecision {
	yes := true
	d.OwnerReferences = []metav1.OwnerReference{{UID: uid, Controller: &yes}}
	return d
}

// placed is placement p with uid "u" and a status.
func placed(t *testing.T, status string) *clusterv1beta1.Placement {
	t.Helper()
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(status), &p.Status))
	return p
}

const twoGroups = `
numberOfSelectedClusters: 3
conditions: [{type: PlacementSatisfied}]
decisionGroups:
- {decisionGroupIndex: 0, decisionGroupName: canary, decisions: [p-decision-1], clusterCount: 1}
- {decisionGroupIndex: 1, decisionGroupName: "", decisions: [p-decision-2, p-decision-3], clusterCount: 2}
`

func TestSelectionOf(t *testing.T) {
	require.True(t, SelectionOf(nil, []*clusterv1beta1.PlacementDecision{decision(1, 0, "", "a")}).Missing)
	all := []*clusterv1beta1.PlacementDecision{decision(3, 1, "", "c"), ownedBy("u", decision(1, 0, "canary", "a")), decision(2, 1, "", "b"), ownedBy("former", decision(4, 0, "", "gone"))}
	s := SelectionOf(placed(t, twoGroups), all)
	require.True(t, s.Whole)
	require.False(t, s.Missing)
	require.Equal(t, 3, s.Total)
	require.Len(t, s.Groups, 2)
	require.Equal(t, rollout.Group{Index: 0, Name: "canary", Clusters: []string{"a"}}, s.Groups[0])
	require.ElementsMatch(t, []string{"b", "c"}, s.Groups[1].Clusters)

	unlabelled := decision(1, 0, "", "a", "", "b")
	delete(unlabelled.Labels, clusterv1beta1.DecisionGroupIndexLabel)
	s = SelectionOf(placed(t, "{}"), []*clusterv1beta1.PlacementDecision{unlabelled})
	require.Equal(t, []rollout.Group{{Clusters: []string{"a", "b"}}}, s.Groups)
}

func TestSelectionIsWhole(t *testing.T) {
	type decisions = []*clusterv1beta1.PlacementDecision
	canary, first, second := decision(1, 0, "canary", "a"), decision(2, 1, "", "b"), decision(3, 1, "", "c")
	for _, test := range []struct {
		name      string
		status    string
		decisions decisions
		want      bool
	}{
		{"those that the status tells of", twoGroups, decisions{canary, first, second}, true},
		{"no status yet", "{}", decisions{canary, first, second}, false},
		{"no status and nothing selected", "{}", nil, false},
		{"one has not come yet", twoGroups, decisions{first, second}, false},
		{"one more than told of", twoGroups, decisions{canary, first, second, decision(4, 1, "")}, false},
		{"one is empty yet", twoGroups, decisions{canary, first, decision(3, 1, "")}, false},
		{"a cluster is elsewhere yet", twoGroups, decisions{decision(1, 0, "canary", "b"), decision(2, 1, "", "a", "c"), decision(3, 1, "")}, true},
		{"a cluster is in both of its groups", twoGroups, decisions{decision(1, 0, "canary", "a", "b"), first, second}, false},
		{"a decision is of another group yet", twoGroups, decisions{canary, decision(2, 0, "canary", "b"), second}, false},
		{"a group has another name yet", twoGroups, decisions{decision(1, 0, "ring", "a"), first, second}, false},
		{"groups have changed places", twoGroups, decisions{decision(1, 1, "", "a"), decision(2, 0, "canary", "b"), decision(3, 0, "canary", "c")}, false},
		{"a decision of a former placement", twoGroups, decisions{ownedBy("former", decision(1, 0, "canary", "a")), first, second}, false},
		{"nothing is selected", `{conditions: [{type: PlacementSatisfied}], decisionGroups: [{decisions: [p-decision-1]}]}`, decisions{decision(1, 0, "")}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, SelectionOf(placed(t, test.status), test.decisions).Whole)
		})
	}
	other := placed(t, "{}")
	other.Annotations = map[string]string{clusterv1beta1.PlacementDisableAnnotation: "true"}
	require.True(t, SelectionOf(other, decisions{first}).Whole, "whoever schedules it may not keep the status")
	require.False(t, SelectionOf(other, nil).Whole)
}

func TestRefsOf(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`{placementRefs: [{name: p, rolloutStrategy: {type: All}}, {name: q}, {name: p}]}`), &set.Spec))
	require.Equal(t, set.Spec.PlacementRefs[:2], RefsOf(set))
}
