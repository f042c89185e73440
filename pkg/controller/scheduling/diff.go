package scheduling

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// changes are the decisions that have to be written. A cluster that moves from one decision to another is in its new one
// before it leaves its old one: to be in both for a moment is harmless, to be in none would take its workload away.
type changes struct {
	arrivals   []*clusterv1beta1.PlacementDecision // first
	departures []*clusterv1beta1.PlacementDecision // then
	surplus    []*clusterv1beta1.PlacementDecision // to be deleted at last
}

func (c changes) any() bool { return len(c.arrivals)+len(c.departures)+len(c.surplus) > 0 }

// diff compares the decisions that there are with those that are wanted.
func diff(there map[string]*clusterv1beta1.PlacementDecision, wanted []*clusterv1beta1.PlacementDecision) changes {
	var all changes
	var pending []*clusterv1beta1.PlacementDecision
	names := make(map[string]bool, len(wanted))
	for _, d := range wanted {
		names[d.Name] = true
		if !sameDecision(there[d.Name], d) {
			pending = append(pending, d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !names[name] {
			all.surplus = append(all.surplus, there[name])
		}
	}
	movers := moving(there, pending, all.surplus)
	for _, d := range pending {
		leaving, arriving := movesOf(there[d.Name], d, movers)
		if len(leaving) == 0 {
			all.arrivals = append(all.arrivals, d)
			continue
		}
		if arriving {
			both := d.DeepCopy()
			both.Status.Decisions = append(both.Status.Decisions, leaving...)
			all.arrivals = append(all.arrivals, both)
		}
		all.departures = append(all.departures, d)
	}
	return all
}

// moving are the clusters that are in one of the decisions that change, and are to be in another one of them.
func moving(there map[string]*clusterv1beta1.PlacementDecision, pending, surplus []*clusterv1beta1.PlacementDecision) map[string]bool {
	in := map[string]bool{}
	for _, d := range pending {
		for _, name := range clustersOf(there[d.Name]) {
			in[name] = true
		}
	}
	for _, d := range surplus {
		for _, name := range clustersOf(d) {
			in[name] = true
		}
	}
	movers := map[string]bool{}
	for _, d := range pending {
		already := nameSet(there[d.Name])
		for _, name := range clustersOf(d) {
			if in[name] && !already[name] {
				movers[name] = true
			}
		}
	}
	return movers
}

// movesOf are the movers that leave a decision, and whether any arrives.
func movesOf(before, after *clusterv1beta1.PlacementDecision, movers map[string]bool) (leaving []clusterv1beta1.ClusterDecision, arriving bool) {
	if len(movers) == 0 {
		return nil, false
	}
	was, is := nameSet(before), nameSet(after)
	for _, d := range after.Status.Decisions {
		arriving = arriving || movers[d.ClusterName] && !was[d.ClusterName]
	}
	if before == nil {
		return nil, arriving
	}
	for _, d := range before.Status.Decisions {
		if movers[d.ClusterName] && !is[d.ClusterName] {
			leaving = append(leaving, d)
		}
	}
	return leaving, arriving
}

func nameSet(d *clusterv1beta1.PlacementDecision) map[string]bool {
	all := map[string]bool{}
	for _, name := range clustersOf(d) {
		all[name] = true
	}
	return all
}

// sameDecision tells whether a decision is what it is to be, in all that this controller decides.
func sameDecision(is, want *clusterv1beta1.PlacementDecision) bool {
	if is == nil || !slices.Equal(is.Status.Decisions, want.Status.Decisions) {
		return false
	}
	for key, value := range want.Labels {
		if have, ok := is.Labels[key]; !ok || have != value {
			return false
		}
	}
	owner := metav1.GetControllerOf(is)
	return owner != nil && owner.UID == metav1.GetControllerOf(want).UID
}
