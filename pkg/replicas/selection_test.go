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

func TestRefsOf(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`{placementRefs: [{name: p, rolloutStrategy: {type: All}}, {name: q}, {name: p}]}`), &set.Spec))
	require.Equal(t, set.Spec.PlacementRefs[:2], RefsOf(set))
}
