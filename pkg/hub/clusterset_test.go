package hub

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

// set waits until a cluster set is as check wants it.
func (i *administrator) set(name string, check func(*clusterv1beta2.ManagedClusterSet) bool) {
	i.Helper()
	eventually(i.T, "cluster set "+name, func() error {
		set, err := i.clusters.ClusterV1beta2().ManagedClusterSets().Get(i.ctx, name, metav1.GetOptions{})
		if err == nil && !check(set) {
			err = fmt.Errorf("it is %+v", set)
		}
		return err
	})
}

func (i *administrator) patchSet(name, patch string) {
	i.Helper()
	_, err := i.clusters.ClusterV1beta2().ManagedClusterSets().Patch(i.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(i, err)
}

func (i *administrator) deleteSet(name string) {
	i.Helper()
	require.NoError(i, i.clusters.ClusterV1beta2().ManagedClusterSets().Delete(i.ctx, name, metav1.DeleteOptions{}))
}

// counts waits until a set says how many clusters it has.
func (i *administrator) counts(name, reason, message string) {
	i.Helper()
	i.set(name, func(set *clusterv1beta2.ManagedClusterSet) bool {
		c := meta.FindStatusCondition(set.Status.Conditions, clusterv1beta2.ManagedClusterSetConditionEmpty)
		return c != nil && c.Reason == reason && c.Message == message
	})
}

// bound waits until a binding says whether its set is there.
func (i *administrator) bound(namespace, name, reason string) {
	i.Helper()
	eventually(i.T, "binding "+name, func() error {
		b, err := i.clusters.ClusterV1beta2().ManagedClusterSetBindings(namespace).Get(i.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(b.Status.Conditions, clusterv1beta2.ClusterSetBindingBoundType); c == nil || c.Reason != reason {
			return fmt.Errorf("its conditions are %+v", b.Status.Conditions)
		}
		return nil
	})
}

// namespaces waits until a cluster is told which namespaces its sets want, as set/name, with a * behind those of which the
// agent has said something.
func (i *administrator) namespaces(cluster, want string) {
	i.Helper()
	eventually(i.T, "namespaces of "+cluster, func() error {
		mc, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, n := range mc.Status.ManagedNamespaces {
			got = append(got, n.ClusterSet+"/"+n.Name+strings.Repeat("*", len(n.Conditions)))
		}
		if strings.Join(got, " ") != want {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// TestClusterSets follows sets, what they count, who is bound to them and what they want on clusters.
func TestClusterSets(t *testing.T) {
	newAdministrator(t).follow([]step{
		{"sets that every hub has", func(i *administrator) {
			i.counts("default", "NoClusterMatched", "No ManagedCluster selected")
			i.counts("global", "NoClusterMatched", "No ManagedCluster selected")
			i.deleteSet("default")
			i.deleteSet("global")
			i.set("default", exclusive)
			i.set("global", everything)
		}},
		{"a selector is rolled back, labels of users stay", func(i *administrator) {
			i.patchSet("global", `{"metadata":{"labels":{"team":"a"}},"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"site":"edge"}}}}}`)
			i.set("global", func(set *clusterv1beta2.ManagedClusterSet) bool { return everything(set) && set.Labels["team"] == "a" })
		}},
		{"unless the user has taken it over", selectorTakenOver},
		{"counts follow the clusters", func(i *administrator) {
			i.makeSet("prod")
			i.makeCluster("c1", "prod")
			i.makeCluster("c2", "prod")
			i.counts("prod", "ClustersSelected", "2 ManagedClusters selected")
			i.counts("global", "ClustersSelected", "2 ManagedClusters selected")
			i.counts("default", "NoClusterMatched", "No ManagedCluster selected")
			i.label("c2", clusterv1beta2.ClusterSetLabel, "default")
			i.counts("prod", "ClustersSelected", "1 ManagedClusters selected")
			i.counts("default", "ClustersSelected", "1 ManagedClusters selected")
		}},
		{"and the labels that a set selects by", func(i *administrator) {
			i.makeSet("edge")
			i.patchSet("edge", `{"spec":{"clusterSelector":{"selectorType":"LabelSelector","labelSelector":{"matchLabels":{"site":"edge"}}}}}`)
			i.counts("edge", "NoClusterMatched", "No ManagedCluster selected")
			i.label("c1", "site", "edge")
			i.counts("edge", "ClustersSelected", "1 ManagedClusters selected")
			i.counts("prod", "ClustersSelected", "1 ManagedClusters selected")
		}},
		{"bindings follow their sets", func(i *administrator) {
			i.bind("default", "late")
			i.bound("default", "late", "ClusterSetNotFound")
			i.makeSet("late")
			i.bound("default", "late", "ClusterSetBound")
			i.deleteSet("late")
			i.bound("default", "late", "ClusterSetNotFound")
		}},
		{"namespaces follow the sets of a cluster", namespacesFollow},
		{"a cluster that goes counts no longer", func(i *administrator) {
			require.NoError(i, i.clusters.ClusterV1().ManagedClusters().Delete(i.ctx, "c2", metav1.DeleteOptions{}))
			i.counts("default", "NoClusterMatched", "No ManagedCluster selected")
		}},
		{"the gate is followed while the hub runs", func(i *administrator) {
			i.gate(feature.DefaultClusterSet, operatorv1.FeatureGateModeTypeDisable)
			i.patchSet("global", `{"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"site":"lab"}}}}}`)
			i.counts("global", "NoClusterMatched", "No ManagedCluster selected")
			i.deleteSet("default")
			i.gate(feature.DefaultClusterSet, operatorv1.FeatureGateModeTypeEnable)
			i.set("default", exclusive)
			i.set("global", everything)
		}},
	}...)
}

func exclusive(set *clusterv1beta2.ManagedClusterSet) bool {
	return set.Spec.ClusterSelector.SelectorType == clusterv1beta2.ExclusiveClusterSetLabel
}

func everything(set *clusterv1beta2.ManagedClusterSet) bool {
	s := set.Spec.ClusterSelector
	return s.SelectorType == clusterv1beta2.LabelSelector && s.LabelSelector != nil && len(s.LabelSelector.MatchLabels)+len(s.LabelSelector.MatchExpressions) == 0
}

func selectorTakenOver(i *administrator) {
	i.patchSet("global", `{"metadata":{"annotations":{"cluster.open-cluster-management.io/autoupdate":"false"}},"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"site":"edge"}}}}}`)
	// What follows takes longer than a roll-back would.
	i.makeCluster("elsewhere", "default")
	i.counts("default", "ClustersSelected", "1 ManagedClusters selected")
	i.counts("global", "NoClusterMatched", "No ManagedCluster selected")
	i.set("global", func(set *clusterv1beta2.ManagedClusterSet) bool { return !everything(set) })
	i.patchSet("global", `{"metadata":{"annotations":{"cluster.open-cluster-management.io/autoupdate":null}}}`)
	i.set("global", everything)
	i.counts("global", "ClustersSelected", "1 ManagedClusters selected")
	require.NoError(i, i.clusters.ClusterV1().ManagedClusters().Delete(i.ctx, "elsewhere", metav1.DeleteOptions{}))
	eventually(i.T, "a cluster without an agent goes", func() error {
		_, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, "elsewhere", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there (%v)", err)
		}
		return nil
	})
}

func namespacesFollow(i *administrator) {
	i.patchSet("prod", `{"spec":{"managedNamespaces":[{"name":"shop"},{"name":"audit"}]}}`)
	i.namespaces("c1", "prod/audit prod/shop")
	i.patchSet("edge", `{"spec":{"managedNamespaces":[{"name":"shop"}]}}`)
	i.namespaces("c1", "edge/shop prod/audit prod/shop")

	mc, err := i.clusters.ClusterV1().ManagedClusters().Get(i.ctx, "c1", metav1.GetOptions{})
	require.NoError(i, err)
	mc.Status.ManagedNamespaces[1].Conditions = []metav1.Condition{{Type: "NamespaceAvailable", Status: metav1.ConditionTrue, Reason: "Applied", LastTransitionTime: metav1.Now()}}
	_, err = i.clusters.ClusterV1().ManagedClusters().UpdateStatus(i.ctx, mc, metav1.UpdateOptions{})
	require.NoError(i, err)
	i.deleteSet("edge")
	i.namespaces("c1", "prod/audit* prod/shop")

	_, err = i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, "c1", types.MergePatchType, []byte(`{"status":{"managedNamespaces":[]}}`), metav1.PatchOptions{}, "status")
	require.NoError(i, err)
	i.namespaces("c1", "prod/audit prod/shop")
	i.label("c1", clusterv1beta2.ClusterSetLabel, "default")
	i.namespaces("c1", "")
	i.label("c1", clusterv1beta2.ClusterSetLabel, "prod")
	i.namespaces("c1", "prod/audit prod/shop")
}
