package hub

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
)

const profilesDefinition = "clusterprofiles.multicluster.x-k8s.io"

// inventory is a hub, and what the test of profiles does with it.
type inventory struct {
	*testing.T
	ctx        context.Context
	kube       *kubernetes.Clientset
	clusters   *clusterclient.Clientset
	operator   *operatorclient.Clientset
	extensions *apiextensions.Clientset
	profiles   dynamic.NamespaceableResourceInterface
}

func newInventory(t *testing.T) *inventory {
	t.Helper()
	access, ctx := startHub(t)
	client := dynamic.NewForConfigOrDie(access)
	return &inventory{
		T: t, ctx: ctx,
		kube:       kubernetes.NewForConfigOrDie(access),
		clusters:   clusterclient.NewForConfigOrDie(access),
		operator:   operatorclient.NewForConfigOrDie(access),
		extensions: apiextensions.NewForConfigOrDie(access),
		profiles:   client.Resource(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}),
	}
}

// gate switches the feature while the hub runs, through the ClusterManager.
func (i *inventory) gate(mode string) {
	i.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"registrationConfiguration":{"featureGates":[{"feature":"ClusterProfile","mode":%q}]}}}`, mode)
	_, err := i.operator.OperatorV1().ClusterManagers().Patch(i.ctx, "cluster-manager", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(i, err)
}

func (i *inventory) makeCluster(name, set string) {
	i.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1beta2.ClusterSetLabel: set}}}
	_, err := i.clusters.ClusterV1().ManagedClusters().Create(i.ctx, mc, metav1.CreateOptions{})
	require.NoError(i, err)
}

func (i *inventory) makeSet(name string) {
	i.Helper()
	_, err := i.clusters.ClusterV1beta2().ManagedClusterSets().Create(i.ctx, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(i, err)
}

func (i *inventory) makeNamespace(name string) {
	i.Helper()
	_, err := i.kube.CoreV1().Namespaces().Create(i.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(i, err)
}

func (i *inventory) bind(namespace, set string) {
	i.Helper()
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set}}
	_, err := i.clusters.ClusterV1beta2().ManagedClusterSetBindings(namespace).Create(i.ctx, binding, metav1.CreateOptions{})
	require.NoError(i, err)
}

// shows waits until a namespace has the profiles of exactly these clusters.
func (i *inventory) shows(namespace string, want ...string) {
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
func (i *inventory) becomes(namespace, name string, check func(*unstructured.Unstructured) bool) {
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
	i := newInventory(t)
	for _, name := range []string{"team-a", "team-b"} {
		i.makeNamespace(name)
	}
	i.makeSet("prod")
	i.makeCluster("c1", "prod")
	i.makeCluster("c2", "default")
	i.bind("team-a", "prod")
	_, err := i.extensions.ApiextensionsV1().CustomResourceDefinitions().Get(i.ctx, profilesDefinition, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "the kind is not served while the gate is off: %v", err)
	i.gate("Enable")

	for _, step := range []struct {
		name string
		do   func(*inventory)
	}{
		{"a profile for each bound namespace", func(i *inventory) {
			i.shows("team-a", "c1")
			i.bind("team-b", "prod")
			i.shows("team-b", "c1")
		}},
		{"one profile of a cluster in two bound sets", func(i *inventory) {
			i.bind("team-a", "global")
			i.shows("team-a", "c1", "c2")
		}},
		{"a binding whose set is not there, until it is", func(i *inventory) {
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
		{"a profile that somebody deleted comes back", func(i *inventory) {
			require.NoError(i, i.profiles.Namespace("team-b").Delete(i.ctx, "c1", metav1.DeleteOptions{}))
			i.shows("team-b", "c1")
		}},
		{"a profile of another manager stays", func(i *inventory) {
			foreign := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": "theirs"},
				"spec": map[string]any{"clusterManager": map[string]any{"name": "someone-else"}},
			}}
			_, err := i.profiles.Namespace("team-b").Create(i.ctx, foreign, metav1.CreateOptions{})
			require.NoError(i, err)
			i.shows("team-b", "c1", "theirs")
		}},
		{"a cluster leaves the set", func(i *inventory) {
			i.label("c1", clusterv1beta2.ClusterSetLabel, "default")
			i.shows("team-b", "theirs")
			i.label("c1", clusterv1beta2.ClusterSetLabel, "prod")
			i.shows("team-b", "c1", "theirs")
		}},
		{"the binding goes", func(i *inventory) {
			require.NoError(i, i.clusters.ClusterV1beta2().ManagedClusterSetBindings("team-a").Delete(i.ctx, "global", metav1.DeleteOptions{}))
			i.shows("team-a", "c1")
		}},
		{"the set goes", func(i *inventory) {
			require.NoError(i, i.clusters.ClusterV1beta2().ManagedClusterSets().Delete(i.ctx, "late", metav1.DeleteOptions{}))
			i.shows("team-c")
		}},
		{"none of a cluster that is leaving", func(i *inventory) {
			patch := []byte(`{"metadata":{"finalizers":["example.com/wait"]}}`)
			_, err := i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, "c1", types.MergePatchType, patch, metav1.PatchOptions{})
			require.NoError(i, err)
			require.NoError(i, i.clusters.ClusterV1().ManagedClusters().Delete(i.ctx, "c1", metav1.DeleteOptions{}))
			i.shows("team-a")
			i.shows("team-b", "theirs")
		}},
		{"the kind comes back when somebody takes it away", func(i *inventory) {
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
		{"none while the gate is off", func(i *inventory) {
			i.gate("Disable")
			i.shows("team-a")
			i.shows("team-b")
			i.gate("Enable")
			i.shows("team-a", "c2")
		}},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			of := *i
			of.T = t
			step.do(&of)
		}) {
			break
		}
	}
}

// label changes a label of a managed cluster.
func (i *inventory) label(cluster, key, value string) {
	i.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := i.clusters.ClusterV1().ManagedClusters().Patch(i.ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(i, err)
}

func labelsAndStatusFollow(i *inventory) {
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

func othersStay(i *inventory) {
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
