package hub

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const profilesDefinition = "clusterprofiles.multicluster.x-k8s.io"

// shows waits until a namespace has the profiles of exactly these clusters.
func (i *administrator) shows(namespace string, want ...string) {
	i.Helper()
	eventually(i.T, "profiles in "+namespace, func() error {
		list, err := i.profiles.Namespace(namespace).List(i.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, p := range list.Items {
			got = append(got, p.GetName())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("there are %v, not %v", got, want)
		}
		return nil
	})
}

// becomes waits until a profile is as check wants it.
func (i *administrator) becomes(namespace, name string, check func(*unstructured.Unstructured) bool) {
	i.Helper()
	eventually(i.T, "profile of "+name, func() error {
		p, err := i.profiles.Namespace(namespace).Get(i.ctx, name, metav1.GetOptions{})
		if err == nil && !check(p) {
			err = fmt.Errorf("it is %v", p.Object)
		}
		return err
	})
}

// TestClusterProfiles follows the inventory through the life of clusters, sets and bindings. The steps build on each other.
func TestClusterProfiles(t *testing.T) {
	i := newAdministrator(t)
	for _, name := range []string{"team-a", "team-b"} {
		i.makeNamespace(name)
	}
	i.makeSet("prod")
	i.makeCluster("c1", "prod")
	i.makeCluster("c2", "default")
	i.bind("team-a", "prod")
	_, err := i.extensions.ApiextensionsV1().CustomResourceDefinitions().Get(i.ctx, profilesDefinition, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "the kind is not served while the gate is off: %v", err)
	i.gate(feature.ClusterProfile, operatorv1.FeatureGateModeTypeEnable)

	i.follow([]step{
		{"a profile for each bound namespace", func(i *administrator) {
			i.shows("team-a", "c1")
			i.bind("team-b", "prod")
			i.shows("team-b", "c1")
		}},
		{"one profile of a cluster in two bound sets", func(i *administrator) {
			i.bind("team-a", "global")
			i.shows("team-a", "c1", "c2")
		}},
		{"a binding whose set is not there, until it is", func(i *administrator) {
			i.makeNamespace("team-c")
			i.bind("team-c", "late")
			i.makeCluster("c3", "late")
			i.shows("team-a", "c1", "c2", "c3")
			i.shows("team-c")
			i.makeSet("late")
			i.shows("team-c", "c3")
		}},
		{"labels and status follow the cluster", labelsAndStatusFollow},
		{"what others say of the cluster stays", othersStay},
		{"a profile that somebody deleted comes back", func(i *administrator) {
			require.NoError(i, i.profiles.Namespace("team-b").Delete(i.ctx, "c1", metav1.DeleteOptions{}))
			i.shows("team-b", "c1")
		}},
		{"a profile of another manager stays", func(i *administrator) {
			foreign := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": "theirs"},
				"spec": map[string]any{"clusterManager": map[string]any{"name": "someone-else"}},
			}}
			_, err := i.profiles.Namespace("team-b").Create(i.ctx, foreign, metav1.CreateOptions{})
			require.NoError(i, err)
			i.shows("team-b", "c1", "theirs")
		}},
		{"a cluster leaves the set", func(i *administrator) {
			i.label("c1", clusterv1beta2.ClusterSetLabel, "default")
			i.shows("team-b", "theirs")
			i.label("c1", clusterv1beta2.ClusterSetLabel, "prod")
			i.shows("team-b", "c1", "theirs")
		}},
		{"the binding goes", func(i *administrator) {
			require.NoError(i, i.clusters.ClusterV1beta2().ManagedClusterSetBindings("team-a").Delete(i.ctx, "global", metav1.DeleteOptions{}))
			i.shows("team-a", "c1")
		}},
		{"the set goes", func(i *administrator) {
			require.NoError(i, i.clusters.ClusterV1beta2().ManagedClusterSets().Delete(i.ctx, "late", metav1.DeleteOptions{}))
			i.shows("team-c")
		}},
		{"none of a cluster that is leaving", func(i *administrator) {
			patch := []byte(`{"metadata":{"finalizers":["example.com/wait"]}}`)
			_, err := i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, "c1", types.MergePatchType, patch, metav1.PatchOptions{})
			require.NoError(i, err)
			require.NoError(i, i.clusters.ClusterV1().ManagedClusters().Delete(i.ctx, "c1", metav1.DeleteOptions{}))
			i.shows("team-a")
			i.shows("team-b", "theirs")
		}},
		{"the kind comes back when somebody takes it away", func(i *administrator) {
			i.label("c2", clusterv1beta2.ClusterSetLabel, "prod")
			i.shows("team-a", "c2")
			require.NoError(i, i.extensions.ApiextensionsV1().CustomResourceDefinitions().Delete(i.ctx, profilesDefinition, metav1.DeleteOptions{}))
			eventually(i.T, "profiles of others are gone with the kind", func() error {
				_, err := i.profiles.Namespace("team-b").Get(i.ctx, "theirs", metav1.GetOptions{})
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is still there (%v)", err)
				}
				return nil
			})
			i.shows("team-a", "c2")
			i.shows("team-b", "c2")
		}},
		{"none while the gate is off", func(i *administrator) {
			i.gate(feature.ClusterProfile, operatorv1.FeatureGateModeTypeDisable)
			i.shows("team-a")
			i.shows("team-b")
			i.gate(feature.ClusterProfile, operatorv1.FeatureGateModeTypeEnable)
			i.shows("team-a", "c2")
		}},
	}...)
}

func labelsAndStatusFollow(i *administrator) {
	i.becomes("team-a", "c1", func(p *unstructured.Unstructured) bool {
		l := p.GetLabels()
		return l["x-k8s.io/cluster-manager"] == "open-cluster-management" && l[clusterv1.ClusterNameLabelKey] == "c1" && l["multicluster.x-k8s.io/clusterset"] == "prod"
	})
	patch := []byte(`{"status":{"version":{"kubernetes":"v1.30.0"},"clusterClaims":[{"name":"region","value":"eu"}],"conditions":[
		{"type":"ManagedClusterJoined","status":"True","reason":"ManagedClusterJoined","message":"","lastTransitionTime":"2024-05-01T00:00:00Z"}]}}`)
	_, err := i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, "c1", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(i, err)
	i.becomes("team-a", "c1", func(p *unstructured.Unstructured) bool {
		v, _, _ := unstructured.NestedString(p.Object, "status", "version", "kubernetes")
		properties, _, _ := unstructured.NestedSlice(p.Object, "status", "properties")
		return v == "v1.30.0" && len(properties) == 1 && meta.IsStatusConditionTrue(conditionsOf(p), "Joined")
	})
	_, err = i.profiles.Namespace("team-a").Patch(i.ctx, "c1", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/labels/x-k8s.io~1cluster-manager"}]`), metav1.PatchOptions{})
	require.NoError(i, err)
	i.becomes("team-a", "c1", func(p *unstructured.Unstructured) bool {
		return p.GetLabels()["x-k8s.io/cluster-manager"] == "open-cluster-management"
	})
}

func conditionsOf(p *unstructured.Unstructured) []metav1.Condition {
	var all []metav1.Condition
	list, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
	for _, c := range list {
		fields := c.(map[string]any)
		all = append(all, metav1.Condition{Type: fields["type"].(string), Status: metav1.ConditionStatus(fields["status"].(string))})
	}
	return all
}

func othersStay(i *administrator) {
	patch := []byte(`{"status":{"accessProviders":[{"name":"proxy","cluster":{"server":"https://proxy.example","extensions":[{"name":"client.authentication.k8s.io/exec","extension":{"audience":"a"}}]}}]}}`)
	_, err := i.profiles.Namespace("team-a").Patch(i.ctx, "c1", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(i, err)
	version := []byte(`{"status":{"version":{"kubernetes":"v1.31.0"}}}`)
	_, err = i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, "c1", types.MergePatchType, version, metav1.PatchOptions{}, "status")
	require.NoError(i, err)
	i.becomes("team-a", "c1", func(p *unstructured.Unstructured) bool {
		v, _, _ := unstructured.NestedString(p.Object, "status", "version", "kubernetes")
		providers, _, _ := unstructured.NestedSlice(p.Object, "status", "accessProviders")
		return v == "v1.31.0" && len(providers) == 1 && providers[0].(map[string]any)["name"] == "proxy"
	})
}
