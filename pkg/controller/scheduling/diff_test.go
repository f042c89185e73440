package scheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

func decisionWith(name string, clusters ...string) *clusterv1beta1.PlacementDecision {
	yes := true
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{clusterv1beta1.PlacementLabel: "p"},
		OwnerReferences: []metav1.OwnerReference{{UID: "placement", Controller: &yes}},
	}}
	d.Status.Decisions = decisionsOf(clusters, nil)
	return d
}

func mapOf(all ...*clusterv1beta1.PlacementDecision) map[string]*clusterv1beta1.PlacementDecision {
	m := map[string]*clusterv1beta1.PlacementDecision{}
	for _, d := range all {
		m[d.Name] = d
	}
	return m
}

func texts(all []*clusterv1beta1.PlacementDecision) []string {
	var lines []string
	for _, d := range all {
		lines = append(lines, fmt.Sprint(d.Name, clustersOf(d)))
	}
	return lines
}

func TestDiff(t *testing.T) {
	relabelled, disowned := decisionWith("1", "a"), decisionWith("1", "a")
	relabelled.Labels[clusterv1beta1.PlacementLabel] = "other"
	disowned.OwnerReferences = nil
	marked := decisionWith("1", "a")
	marked.Labels["team"] = "blue"
	for _, test := range []struct {
		name                          string
		there, wanted                 []*clusterv1beta1.PlacementDecision
		arrivals, departures, surplus []string
	}{
		{"nothing", nil, nil, nil, nil, nil},
		{"as it is", []*clusterv1beta1.PlacementDecision{decisionWith("1", "a")}, []*clusterv1beta1.PlacementDecision{decisionWith("1", "a")}, nil, nil, nil},
		{"labels of others", []*clusterv1beta1.PlacementDecision{marked}, []*clusterv1beta1.PlacementDecision{decisionWith("1", "a")}, nil, nil, nil},
		{"new", nil, []*clusterv1beta1.PlacementDecision{decisionWith("1", "a")}, []string{"1[a]"}, nil, nil},
		{"in and out at once", []*clusterv1beta1.PlacementDecision{decisionWith("1", "a", "b")}, []*clusterv1beta1.PlacementDecision{decisionWith("1", "a", "c")},
			[]string{"1[a c]"}, nil, nil},
		{"our label is gone", []*clusterv1beta1.PlacementDecision{relabelled}, []*clusterv1beta1.PlacementDecision{decisionWith("1", "a")}, []string{"1[a]"}, nil, nil},
		{"our reference is gone", []*clusterv1beta1.PlacementDecision{disowned}, []*clusterv1beta1.PlacementDecision{decisionWith("1", "a")}, []string{"1[a]"}, nil, nil},
		{"one moves", []*clusterv1beta1.PlacementDecision{decisionWith("1", "a", "b"), decisionWith("2", "c")},
			[]*clusterv1beta1.PlacementDecision{decisionWith("1", "a"), decisionWith("2", "b", "c")}, []string{"2[b c]"}, []string{"1[a]"}, nil},
		{"two change places", []*clusterv1beta1.PlacementDecision{decisionWith("1", "a"), decisionWith("2", "b")},
			[]*clusterv1beta1.PlacementDecision{decisionWith("1", "b"), decisionWith("2", "a")}, []string{"1[b a]", "2[a b]"}, []string{"1[b]", "2[a]"}, nil},
		{"one less", []*clusterv1beta1.PlacementDecision{decisionWith("1", "a"), decisionWith("2", "b")},
			[]*clusterv1beta1.PlacementDecision{decisionWith("1", "a", "b")}, []string{"1[a b]"}, nil, []string{"2[b]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := diff(mapOf(test.there...), test.wanted)
			require.Equal(t, [][]string{test.arrivals, test.departures, test.surplus}, [][]string{texts(c.arrivals), texts(c.departures), texts(c.surplus)})
			require.Equal(t, test.arrivals != nil || test.departures != nil || test.surplus != nil, c.any())
		})
	}
}

// TestNoClusterIsEverOut writes random changes step by step: a cluster that is selected before and after is so all the time.
func TestNoClusterIsEverOut(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	deal := func() []*clusterv1beta1.PlacementDecision {
		hands := make([][]string, 1+random.IntN(4))
		for _, name := range names(0, 12) {
			if random.IntN(4) > 0 {
				hand := random.IntN(len(hands))
				hands[hand] = append(hands[hand], name)
			}
		}
		var all []*clusterv1beta1.PlacementDecision
		for i, clusters := range hands {
			all = append(all, decisionWith(strconv.Itoa(i), clusters...))
		}
		return all
	}
	for range 2000 {
		before, after := deal(), deal()
		state, stays := mapOf(before...), map[string]bool{}
		for name := range clustersIn(mapOf(before...)) {
			stays[name] = clustersIn(mapOf(after...))[name]
		}
		c := diff(state, after)
		check := func() {
			in := clustersIn(state)
			for name, stayed := range stays {
				require.True(t, !stayed || in[name], "%s is out: %v to %v", name, texts(before), texts(after))
			}
		}
		for _, d := range slices.Concat(c.arrivals, c.departures) {
			state[d.Name] = d
			check()
		}
		for _, d := range c.surplus {
			delete(state, d.Name)
			check()
		}
		require.False(t, diff(state, after).any())
	}
}

func clustersIn(all map[string]*clusterv1beta1.PlacementDecision) map[string]bool {
	in := map[string]bool{}
	for _, d := range all {
		for _, name := range clustersOf(d) {
			in[name] = true
		}
	}
	return in
}
