package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"

	"nave/pkg/placement"
)

func explanation() *placement.Explanation {
	return &placement.Explanation{
		PrioritizeResults: []placement.PrioritizeResult{{Name: "Balance", Weight: 1}, {Name: "AddOn/cpu/free", Weight: -2}},
		Conditions:        []metav1.Condition{{Type: "PlacementSatisfied", Status: metav1.ConditionFalse, Reason: "NotAllDecisionsScheduled", Message: "1 cluster\ndecisions unscheduled"}},
		Warnings:          []string{"AddOnPlacementScores c/cpu expired"},
		Clusters: []placement.Explained{
			{Name: "a", Filter: "Predicate", Reason: "label region is us, not eu"},
			{Name: "b", Rank: 2, Selected: true, Score: 40, Scores: map[string]int64{"Balance": 100, "AddOn/cpu/free": 30}, Group: "0/canary"},
			{Name: "c", Rank: 1, Selected: true, Decided: true, Score: 100, Scores: map[string]int64{"Balance": 100}, Group: "1"},
			{Name: "d", Rank: 3, Decided: true, Score: -100, Filter: "NumberOfClusters", Reason: "it is number 3, and spec.numberOfClusters is 2"},
			{Name: "e", Filter: "Deletion", Reason: "it is being deleted"},
		},
	}
}

func TestWriteExplanation(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeExplanation(&out, explanation(), 0))
	require.Equal(t, `CONDITION            STATUS   REASON                     MESSAGE
PlacementSatisfied   False    NotAllDecisionsScheduled   1 cluster decisions unscheduled

warning: AddOnPlacementScores c/cpu expired

2 of 5 clusters selected; kept out: 1 by Deletion, 1 by NumberOfClusters, 1 by Predicate

RANK   CLUSTER   SELECTED       SCORE   Balance x1   AddOn/cpu/free x-2   GROUP      KEPT OUT BY        REASON
1      c         yes            100     100          -                    1          -                  -
2      b         soon           40      100          30                   0/canary   -                  -
3      d         not any more   -100    -            -                    -          NumberOfClusters   it is number 3, and spec.numberOfClusters is 2

CLUSTER   SELECTED   KEPT OUT BY   REASON
e         no         Deletion      it is being deleted
a         no         Predicate     label region is us, not eu
`, out.String())
}

// TestExplanationOfMany stays readable whatever the number of clusters.
func TestExplanationOfMany(t *testing.T) {
	x := &placement.Explanation{}
	for i := range 10_000 {
		c := placement.Explained{Name: fmt.Sprintf("c%05d", i), Filter: "Predicate"}
		if i%2 == 0 {
			c = placement.Explained{Name: c.Name, Rank: 1 + i/2, Selected: true}
		}
		x.Clusters = append(x.Clusters, c)
	}
	var out bytes.Buffer
	require.NoError(t, writeExplanation(&out, x, explainedRows))
	require.Less(t, strings.Count(out.String(), "\n"), 2*explainedRows+20)
	for _, want := range []string{"5000 of 10000 clusters selected; kept out: 5000 by Predicate\n",
		"and 4950 more that passed all filters; --limit 0", "and 4950 more that a filter keeps out; --limit 0"} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, []string{"nowhere"}, keepOnly(x, []string{"c00007", "nowhere", "c00002"}))
	require.Len(t, x.Clusters, 2)
}

func TestWritePlacements(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	two := int32(2)
	created := metav1.ObjectMeta{Namespace: "shops", Name: "app", CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Hour))}
	rows := []placementRow{
		placementRowOf(&clusterv1beta1.Placement{ObjectMeta: created}),
		placementRowOf(&clusterv1beta1.Placement{ObjectMeta: created, Spec: clusterv1beta1.PlacementSpec{NumberOfClusters: &two},
			Status: clusterv1beta1.PlacementStatus{NumberOfSelectedClusters: 1, Conditions: []metav1.Condition{
				{Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionFalse},
				{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionFalse, Reason: "NotAllDecisionsScheduled"}}}}),
	}
	var out bytes.Buffer
	require.NoError(t, writePlacements(&out, rows, "", now))
	require.Equal(t, `NAMESPACE   NAME   SATISFIED   REASON                     WANTED   SELECTED   AGE
shops       app    -           -                          all      0          3h
shops       app    no          NotAllDecisionsScheduled   2        1          3h
`, out.String())
	out.Reset()
	require.NoError(t, writePlacements(&out, []placementRow{}, "json", now))
	require.Equal(t, "[]\n", out.String())
}

func TestSelection(t *testing.T) {
	for _, test := range []struct {
		selected int32
		status   metav1.ConditionStatus
		want     string
	}{
		{0, "", "no cluster: the hub has not looked at it yet"},
		{1, metav1.ConditionTrue, "1 cluster"},
		{3, metav1.ConditionTrue, "3 clusters"},
		{0, metav1.ConditionFalse, "no cluster: nothing matches (NoManagedClusterMatched)"},
	} {
		p := &clusterv1beta1.Placement{Status: clusterv1beta1.PlacementStatus{NumberOfSelectedClusters: test.selected}}
		if test.status != "" {
			p.Status.Conditions = []metav1.Condition{{Type: clusterv1beta1.PlacementConditionSatisfied, Status: test.status, Reason: "NoManagedClusterMatched", Message: "nothing matches"}}
		}
		require.Equal(t, test.want, selection(p))
	}
}

// TestUnbound: only a hub that has not seen a binding yet is worth waiting for; whatever else is missing stays missing.
func TestUnbound(t *testing.T) {
	for _, test := range []struct {
		status metav1.ConditionStatus
		reason string
		want   bool
	}{
		{metav1.ConditionTrue, "AllDecisionsScheduled", false},
		{metav1.ConditionFalse, "NoManagedClusterSetBindings", true},
		{metav1.ConditionFalse, "NoIntersection", true},
		{metav1.ConditionFalse, "AllManagedClusterSetsEmpty", false},
		{metav1.ConditionFalse, "NoManagedClusterMatched", false},
		{metav1.ConditionFalse, "NotAllDecisionsScheduled", false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			require.Equal(t, test.want, unbound(&metav1.Condition{Status: test.status, Reason: test.reason}))
		})
	}
}
