package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

const (
	satisfied     = clusterv1beta1.PlacementConditionSatisfied
	misconfigured = clusterv1beta1.PlacementConditionMisconfigured
)

// TestPlacements are what users of placements have stumbled over, each with clusters of its own.
func TestPlacements(t *testing.T) {
	newAdministrator(t).follow(
		step{"nothing is bound", placementWithoutBinding},
		step{"why nothing is chosen", placementReasons},
		step{"everything is tainted", placementTainted},
		step{"effects of taints", taintEffects},
		step{"ages of taints", taintAges},
		step{"tolerations that mean nothing", wrongTolerations},
		step{"misconfigured", misconfiguredPlacement},
		step{"decisions that others change", decisionsRepaired},
		step{"a placement goes", placementGoes},
		step{"very many clusters", manyDecisions},
	)
}

// A namespace has a placement and no binding, then one to no set, then the right one (open-cluster-management-io/ocm#55).
func placementWithoutBinding(i *administrator) {
	i.team("unbound", 4)
	i.makeNamespace("newcomers")
	i.place("newcomers", "everyone", silent)
	i.says("newcomers", "everyone", satisfied, "NoManagedClusterSetBindings", "create a ManagedClusterSetBinding in namespace newcomers")
	i.chooses("newcomers", "everyone")
	require.Len(i, i.decisions("newcomers", "everyone"), 1, "clients wait for one, even if it is empty")

	i.bind("newcomers", "no-such-set")
	i.bound("newcomers", "no-such-set", "ClusterSetNotFound")
	i.says("newcomers", "everyone", satisfied, "NoManagedClusterSetBindings", "there is no ManagedClusterSet [no-such-set]")
	i.chooses("newcomers", "everyone")

	i.bind("newcomers", "unbound")
	i.chooses("newcomers", "everyone", "unbound-1", "unbound-2", "unbound-3", "unbound-4")
	i.says("newcomers", "everyone", satisfied, "AllDecisionsScheduled")
	p := i.placement("newcomers", "everyone")
	require.EqualValues(i, 1, p.Generation, "nobody touched it")
	require.EqualValues(i, 4, p.Status.NumberOfSelectedClusters)
	require.Equal(i, misconfigured, p.Status.Conditions[0].Type, "clusteradm shows the first two")

	// What was promised to a set that was not there is kept when it comes.
	i.makeSet("no-such-set")
	i.bound("newcomers", "no-such-set", "ClusterSetBound")
	i.cluster("such-1", "no-such-set", "")
	i.chooses("newcomers", "everyone", "such-1", "unbound-1", "unbound-2", "unbound-3", "unbound-4")
	i.deleteSet("no-such-set")
	i.chooses("newcomers", "everyone", "unbound-1", "unbound-2", "unbound-3", "unbound-4")
	for _, binding := range []string{"unbound", "no-such-set"} {
		require.NoError(i, i.clusters.ClusterV1beta2().ManagedClusterSetBindings("newcomers").Delete(i.ctx, binding, metav1.DeleteOptions{}))
	}
	i.chooses("newcomers", "everyone")
	i.says("newcomers", "everyone", satisfied, "NoManagedClusterSetBindings")
}

// The reasons for which a placement is not satisfied are API (open-cluster-management-io/ocm#55).
func placementReasons(i *administrator) {
	i.team("reasons", 3)
	i.apply(`
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: reasons-empty}
spec: {clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
`)
	i.bind("reasons", "reasons-empty")
	for _, test := range []struct {
		name, spec, reason string
		texts              []string
	}{
		{"elsewhere", `clusterSets: [default, global]`, "NoIntersection", []string{"None of ManagedClusterSets [default,global] is bound to placement namespace", "bound is [reasons,reasons-empty]"}},
		{"empty", `clusterSets: [reasons-empty]`, "AllManagedClusterSetsEmpty", []string{"All ManagedClusterSets [reasons-empty] have no member ManagedCluster"}},
		{"unmatched", silent + `, predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {moon: full}}}}]`, "NoManagedClusterMatched",
			[]string{"No ManagedCluster matches any of the cluster predicate", "none of 3 clusters does"}},
		{"too-many", silent + `, numberOfClusters: 5`, "NotAllDecisionsScheduled", []string{"2 cluster decisions unscheduled"}},
		{"enough", silent + `, numberOfClusters: 3`, "AllDecisionsScheduled", []string{"All cluster decisions scheduled"}},
	} {
		i.place("reasons", test.name, test.spec)
		i.says("reasons", test.name, satisfied, test.reason, test.texts...)
		i.says("reasons", test.name, misconfigured, "Succeedconfigured")
		require.NotEmpty(i, i.decisions("reasons", test.name), test.name)
	}
	i.chooses("reasons", "too-many", "reasons-1", "reasons-2", "reasons-3")
	// Each of them goes over into another by what happens around the placement.
	i.bind("reasons", "default")
	i.cluster("reasons-4", "reasons", "")
	i.cluster("reasons-5", "reasons-empty", "")
	i.label("reasons-3", "moon", "full")
	i.says("reasons", "elsewhere", satisfied, "AllManagedClusterSetsEmpty", "All ManagedClusterSets [default] have no member ManagedCluster")
	i.says("reasons", "empty", satisfied, "NoManagedClusterMatched", "1 clusters match the predicates but have taints", "unreachable:NoSelect (1)")
	i.chooses("reasons", "unmatched", "reasons-3")
	i.chooses("reasons", "too-many", "reasons-1", "reasons-2", "reasons-3", "reasons-4", "reasons-5")
	i.says("reasons", "too-many", satisfied, "AllDecisionsScheduled")
}

// An empty decision says by which taints clusters that match are kept out (open-cluster-management-io/placement#112).
func placementTainted(i *administrator) {
	i.team("tainted", 0)
	const window = `{key: maintenance.example.com/window, effect: NoSelect}`
	for n := range 4 {
		i.cluster(fmt.Sprintf("tainted-%d", n+1), "tainted", window)
	}
	i.place("tainted", "nobody", silent)
	i.says("tainted", "nobody", satisfied, "NoManagedClusterMatched", "4 clusters match the predicates but have taints", "maintenance.example.com/window:NoSelect (4)", "spec.tolerations")
	i.chooses("tainted", "nobody")

	i.cluster("tainted-3", "tainted", window+`, {key: example.com/gpu, value: old, effect: NoSelectIfNew}`)
	i.cluster("tainted-4", "tainted", `{key: example.com/gpu, value: old, effect: NoSelectIfNew}`)
	i.label("tainted-1", "moon", "full")
	i.says("tainted", "nobody", satisfied, "NoManagedClusterMatched", "4 clusters match", "maintenance.example.com/window:NoSelect (3)", "example.com/gpu=old:NoSelectIfNew (1)")
	i.place("tainted", "dark", silent+`, predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: moon, operator: DoesNotExist}]}}}]`)
	i.says("tainted", "dark", satisfied, "NoManagedClusterMatched", "3 clusters match the predicates", "1 more clusters match none of the predicates")
	i.place("tainted", "two", `numberOfClusters: 2, tolerations: [{key: maintenance.example.com/window, operator: Exists}]`)
	i.says("tainted", "two", satisfied, "NoManagedClusterMatched", "unreachable:NoSelect")

	i.place("tainted", "nobody", strings.TrimSuffix(silent, "]")+`, {key: maintenance.example.com/window, operator: Exists, effect: NoSelect}]`)
	i.chooses("tainted", "nobody", "tainted-1", "tainted-2")
	i.place("tainted", "nobody", strings.TrimSuffix(silent, "]")+`, {key: maintenance.example.com/window, operator: Exists}, {key: example.com/gpu, value: old, operator: Equal}]`)
	i.chooses("tainted", "nobody", "tainted-1", "tainted-2", "tainted-3", "tainted-4")
	i.says("tainted", "nobody", satisfied, "AllDecisionsScheduled")
	i.place("tainted", "any", `tolerations: [{operator: Exists}]`)
	i.chooses("tainted", "any", "tainted-1", "tainted-2", "tainted-3", "tainted-4")
}

// NoSelect drives away, NoSelectIfNew keeps new ones out, PreferNoSelect is no reason while there is room
// (open-cluster-management-io/enhancements#22).
func taintEffects(i *administrator) {
	i.team("docks", 4)
	i.place("docks", "keep", silent)
	i.chooses("docks", "keep", "docks-1", "docks-2", "docks-3", "docks-4")
	for n, effect := range []string{"NoSelectIfNew", "PreferNoSelect", "NoSelect"} {
		i.cluster(fmt.Sprintf("docks-%d", n+1), "docks", "{key: example.com/dock, value: closed, effect: "+effect+"}")
	}
	i.place("docks", "late", silent)
	i.chooses("docks", "keep", "docks-1", "docks-2", "docks-4")
	i.chooses("docks", "late", "docks-2", "docks-4")
	i.says("docks", "late", satisfied, "AllDecisionsScheduled")

	i.place("docks", "few", silent+", numberOfClusters: 1")
	i.chooses("docks", "few", "docks-4")
	// One that may only stay cannot come back once it has left.
	i.label("docks-1", "cluster.open-cluster-management.io/clusterset", "default")
	i.chooses("docks", "keep", "docks-2", "docks-4")
	i.label("docks-1", "cluster.open-cluster-management.io/clusterset", "docks")
	i.cluster("docks-3", "docks", "{key: example.com/dock, value: closed, effect: NoSelectIfNew}")
	i.cluster("docks-5", "docks", "")
	i.chooses("docks", "keep", "docks-2", "docks-4", "docks-5")
	i.cluster("docks-1", "docks", "")
	i.chooses("docks", "keep", "docks-1", "docks-2", "docks-4", "docks-5")
}

// The hub says when a taint was added, and keeps that while the taint is as it was
// (open-cluster-management-io/enhancements#22).
func taintAges(i *administrator) {
	i.team("ages", 0)
	const dock, old = "{key: example.com/dock, effect: NoSelect}", `{key: example.com/dock, effect: NoSelect, timeAdded: "2020-01-01T00:00:00Z"}`
	age := func() metav1.Time {
		mc, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, "ages-1", metav1.GetOptions{})
		require.NoError(i, err)
		n := slices.IndexFunc(mc.Spec.Taints, func(t clusterv1.Taint) bool { return t.Key == "example.com/dock" })
		require.GreaterOrEqual(i, n, 0)
		return mc.Spec.Taints[n].TimeAdded
	}
	start := time.Now().Truncate(time.Second)
	i.cluster("ages-1", "ages", old)
	first := age()
	require.False(i, first.Time.Before(start), "what is new is stamped, whatever was sent: %s", first)
	i.cluster("ages-1", "ages", dock+", {key: example.com/crane, effect: PreferNoSelect}")
	i.label("ages-1", "crane", "yes")
	require.Equal(i, first, age(), "another taint, another label")
	i.refused(clusterDocument("ages-1", "ages", old), `It is not allowed to set TimeAdded of Taint "example.com/dock".`)
	i.refused(clusterDocument("ages-1", "ages", dock+`, {key: example.com/new, effect: NoSelect, timeAdded: "2020-01-01T00:00:00Z"}`), `It is not allowed to set TimeAdded of Taint "example.com/new".`)
	_, err := i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, "ages-1", types.MergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"example.com/dock","effect":"NoSelect","timeAdded":"2020-01-01T00:00:00Z"}]}}`), metav1.PatchOptions{})
	require.True(i, apierrors.IsBadRequest(err), "%v", err)
	require.Equal(i, first, age())
}

// What a toleration cannot mean is told (open-cluster-management-io/enhancements#22).
func wrongTolerations(i *administrator) {
	i.team("tolerations", 1)
	for _, test := range []struct{ name, toleration, text string }{
		{"bad-key", `{operator: Equal, value: x}`, "TaintToleration:If the key is empty, operator must be Exists."},
		{"no-operator", `{value: x}`, "TaintToleration:If the key is empty, operator must be Exists."},
		{"bad-value", `{key: example.com/dock, operator: Exists, value: closed}`, "TaintToleration:If the operator is Exists, the value should be empty."},
	} {
		i.place("tolerations", test.name, `tolerations: [`+test.toleration+`]`)
		i.says("tolerations", test.name, misconfigured, "Misconfigured", test.text)
		i.says("tolerations", test.name, satisfied, "NotAllDecisionsScheduled", test.text)
		i.chooses("tolerations", test.name)
		i.place("tolerations", test.name, silent)
		i.says("tolerations", test.name, misconfigured, "Succeedconfigured")
		i.chooses("tolerations", test.name, "tolerations-1")
	}
}

// A mistake in a placement takes nothing off the clusters that it had chosen; clusters that go by themselves go.
func misconfiguredPlacement(i *administrator) {
	i.team("mistaken", 3)
	i.place("mistaken", "p", silent)
	i.chooses("mistaken", "p", "mistaken-1", "mistaken-2", "mistaken-3")
	for _, test := range []struct{ spec, text string }{
		{`tolerations: [{operator: Equal, value: x}]`, "If the key is empty"},
		{silent + `, predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}}}]`, "Predicate:"},
		{silent + `, predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.("]}}}]`, "Predicate:"},
		{silent + `, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: BuiltIn, builtIn: Fastest}}]}`, "incorrect builtin prioritizer: Fastest"},
		{silent + `, decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: near, groupClusterSelector: {labelSelector: {matchExpressions: [{key: a, operator: Near}]}}}]}}`, "DecisionStrategy:decision group near"},
	} {
		i.place("mistaken", "p", test.spec)
		i.says("mistaken", "p", misconfigured, "Misconfigured", test.text)
		i.says("mistaken", "p", satisfied, "NotAllDecisionsScheduled", "the 3 clusters that were selected before stay so")
		i.chooses("mistaken", "p", "mistaken-1", "mistaken-2", "mistaken-3")
		require.EqualValues(i, 3, i.placement("mistaken", "p").Status.NumberOfSelectedClusters)
	}
	i.patchDecision("mistaken", "p-decision-1", `{"status":{"decisions":[{"clusterName":"mistaken-2","reason":""}]}}`, "status")
	i.chooses("mistaken", "p", "mistaken-1", "mistaken-2", "mistaken-3")
	require.NoError(i, i.clusters.ClusterV1beta1().PlacementDecisions("mistaken").Delete(i.ctx, "p-decision-1", metav1.DeleteOptions{}))
	i.chooses("mistaken", "p", "mistaken-1", "mistaken-2", "mistaken-3")
	i.cluster("mistaken-4", "mistaken", "")
	require.NoError(i, i.clusters.ClusterV1().ManagedClusters().Delete(i.ctx, "mistaken-1", metav1.DeleteOptions{}))
	i.chooses("mistaken", "p", "mistaken-2", "mistaken-3")
	i.place("mistaken", "p", silent)
	i.chooses("mistaken", "p", "mistaken-2", "mistaken-3", "mistaken-4")
	i.says("mistaken", "p", misconfigured, "Succeedconfigured")
}

func (i *administrator) patchDecision(namespace, name, patch string, subresources ...string) {
	i.Helper()
	_, err := i.clusters.ClusterV1beta1().PlacementDecisions(namespace).Patch(i.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	require.NoError(i, err)
}

// Decisions that somebody edits or deletes come back as they were.
func decisionsRepaired(i *administrator) {
	i.team("repaired", 3)
	i.place("repaired", "p", silent)
	all := []string{"repaired-1", "repaired-2", "repaired-3"}
	i.chooses("repaired", "p", all...)
	const name = "p-decision-1"
	decisions := i.clusters.ClusterV1beta1().PlacementDecisions("repaired")
	for _, test := range []struct {
		what, patch, subresource string
	}{
		{"one cluster less", `{"status":{"decisions":[{"clusterName":"repaired-2","reason":""}]}}`, "status"},
		{"none", `{"status":{"decisions":[]}}`, "status"},
		{"one that is none", `{"status":{"decisions":[{"clusterName":"repaired-1","reason":""},{"clusterName":"nobody","reason":""}]}}`, "status"},
		{"another group", `{"metadata":{"labels":{"cluster.open-cluster-management.io/decision-group-index":"7","cluster.open-cluster-management.io/decision-group-name":"x"}}}`, ""},
		{"no label", `{"metadata":{"labels":{"cluster.open-cluster-management.io/placement":null}}}`, ""},
		{"another placement's label", `{"metadata":{"labels":{"cluster.open-cluster-management.io/placement":"q"}}}`, ""},
		{"no owner", `{"metadata":{"ownerReferences":null}}`, ""},
	} {
		patch := []byte(test.patch)
		var subresources []string
		if test.subresource != "" {
			subresources = append(subresources, test.subresource)
		}
		after, err := decisions.Patch(i.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		require.NoError(i, err, test.what)
		i.repaired(test.what, after.ResourceVersion, all)
	}
	require.NoError(i, decisions.Delete(i.ctx, name, metav1.DeleteOptions{}))
	i.repaired("deleted", "", all)
	extra := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: "p-decision-2", Labels: map[string]string{clusterv1beta1.PlacementLabel: "p"}}}
	_, err := decisions.Create(i.ctx, extra, metav1.CreateOptions{})
	require.NoError(i, err)
	i.goes("repaired", "p-decision-2")
	i.repaired("one too many", "", all)
}

// repaired waits until the only decision of placement repaired/p is another one than that of a version, and as it should be.
func (i *administrator) repaired(what, version string, clusters []string) {
	i.Helper()
	eventually(i.T, what, func() error {
		d, err := i.clusters.ClusterV1beta1().PlacementDecisions("repaired").Get(i.ctx, "p-decision-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		owner := metav1.GetControllerOf(d)
		if d.ResourceVersion == version || owner == nil || owner.UID != i.placement("repaired", "p").UID {
			return fmt.Errorf("version %s with owner %v", d.ResourceVersion, owner)
		}
		if l := d.Labels; l[clusterv1beta1.PlacementLabel] != "p" || l[clusterv1beta1.DecisionGroupIndexLabel] != "0" || l[clusterv1beta1.DecisionGroupNameLabel] != "" {
			return fmt.Errorf("labels %v", l)
		}
		if chosen := i.chosen("repaired", "p"); !slices.Equal(chosen, clusters) {
			return fmt.Errorf("clusters %v", chosen)
		}
		return nil
	})
}

func (i *administrator) goes(namespace, decision string) {
	i.Helper()
	eventually(i.T, "decision "+decision+" goes", func() error {
		_, err := i.clusters.ClusterV1beta1().PlacementDecisions(namespace).Get(i.ctx, decision, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
}

// With a placement its decisions go, and one that is made under its name has its own.
func placementGoes(i *administrator) {
	i.team("leaving", 2)
	i.place("leaving", "p", silent+", decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 1}}")
	i.chooses("leaving", "p", "leaving-1", "leaving-2")
	require.Len(i, i.decisions("leaving", "p"), 2)
	placements := i.clusters.ClusterV1beta1().Placements("leaving")
	require.NoError(i, placements.Delete(i.ctx, "p", metav1.DeleteOptions{}))
	i.goes("leaving", "p-decision-1")
	i.goes("leaving", "p-decision-2")

	i.place("leaving", "p", silent)
	i.chooses("leaving", "p", "leaving-1", "leaving-2")
	require.NoError(i, placements.Delete(i.ctx, "p", metav1.DeleteOptions{}))
	i.place("leaving", "p", silent+", numberOfClusters: 1") // before the collector has come round
	again := i.placement("leaving", "p").UID
	eventually(i.T, "the new placement has its own decision", func() error {
		all := i.decisions("leaving", "p")
		if len(all) != 1 || len(all[0].Status.Decisions) != 1 || len(all[0].OwnerReferences) != 1 || all[0].OwnerReferences[0].UID != again {
			return fmt.Errorf("there are %+v", all)
		}
		return nil
	})
}

// A PlacementDecision has 100 clusters at most; names and labels are upstream's. One cluster more changes one of them.
func manyDecisions(i *administrator) {
	i.team("many", 0)
	for n := range 150 {
		i.makeCluster(fmt.Sprintf("many-%d", n+1), "many")
	}
	i.place("many", "p", silent+`, decisionStrategy: {groupStrategy: {decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {ring: inner}}}}]}}`)
	var names []string
	for n := range 150 {
		names = append(names, fmt.Sprintf("many-%d", n+1))
	}
	slices.Sort(names)
	i.chooses("many", "p", names...)
	require.Equal(i, []string{"p-decision-1 0/ 100", "p-decision-2 0/ 50"}, i.layout("many", "p"))
	eventually(i.T, "the status tells of both", func() error {
		s := i.placement("many", "p").Status
		if len(s.DecisionGroups) != 1 || s.DecisionGroups[0].ClustersCount != 150 || !slices.Equal(s.DecisionGroups[0].Decisions, []string{"p-decision-1", "p-decision-2"}) {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	before := i.versions("many", "p")
	i.makeCluster("many-0", "many")
	names = append([]string{"many-0"}, names...)
	i.chooses("many", "p", names...)
	require.Equal(i, before["p-decision-1"], i.versions("many", "p")["p-decision-1"], "it is full, and stays as it is")
	i.label("many-7", "ring", "inner")
	i.label("many-77", "ring", "inner")
	eventually(i.T, "the group comes first", func() error {
		if is := i.layout("many", "p"); !slices.Contains(is, "p-decision-3 0/canary 2") || len(is) != 3 {
			return fmt.Errorf("there are %v", is)
		}
		return nil
	})
	i.chooses("many", "p", names...)
	i.place("many", "p", silent)
	eventually(i.T, "it is one group again", func() error {
		if is := i.layout("many", "p"); len(is) != 2 {
			return fmt.Errorf("there are %v", is)
		}
		return nil
	})
	i.chooses("many", "p", names...)
}

// versions are the resource versions of the decisions of a placement.
func (i *administrator) versions(namespace, name string) map[string]string {
	i.Helper()
	all := map[string]string{}
	for _, d := range i.decisions(namespace, name) {
		all[d.Name] = d.ResourceVersion
	}
	return all
}

// layout are the decisions of a placement as name, group and number of clusters.
func (i *administrator) layout(namespace, name string) []string {
	i.Helper()
	var all []string
	for _, d := range i.decisions(namespace, name) {
		all = append(all, fmt.Sprintf("%s %s/%s %d", d.Name, d.Labels[clusterv1beta1.DecisionGroupIndexLabel], d.Labels[clusterv1beta1.DecisionGroupNameLabel], len(d.Status.Decisions)))
	}
	slices.Sort(all)
	return all
}
