package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/yaml"
)

// propertyDefinition is about-api's definition of ClusterProperty, as far as it matters here.
const propertyDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/1111"}
spec:
  group: about.k8s.io
  scope: Cluster
  names: {kind: ClusterProperty, listKind: ClusterPropertyList, plural: clusterproperties, singular: clusterproperty}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {value: {type: string}}}}
`

// joinBeside joins the second cluster once more, under another name and with settings of its own.
func (b *bench) joinBeside(t *testing.T, ctx context.Context, name, variable, value string) {
	t.Helper()
	token, stderr, code := b.run(t, "token", "create", "--data-dir", b.hubData(t), "--auto-accept")
	require.Zero(t, code, stderr)
	t.Setenv(variable, value)
	startAgent(t, b, second, strings.TrimSpace(token), name, t.TempDir())
	t.Cleanup(func() { _, _, _ = b.run(t, "cluster", "remove", "--data-dir", b.hubData(t), name) })
	eventually(t, ctx, name+" is available", func() error {
		mc, err := b.managedCluster(ctx, name)
		if err != nil {
			return err
		}
		return conditionIs(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, 0)
	})
}

// TestClusterProperties are noticed although their definition comes after the agent, and win over claims.
func TestClusterProperties(t *testing.T) {
	b, ctx := start(t)
	b.joinBeside(t, ctx, "properties", "NAVE_FEATURE_GATES", "ClusterProperty=true")
	config, err := b.Cluster(second)
	require.NoError(t, err)
	config.QPS = -1
	spoke, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	claims, err := clusterclient.NewForConfig(config)
	require.NoError(t, err)
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "shop.example"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "claim"}}
	_, err = claims.ClusterV1alpha1().ClusterClaims().Create(ctx, claim, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = claims.ClusterV1alpha1().ClusterClaims().Delete(context.Background(), claim.Name, metav1.DeleteOptions{})
	})
	onHub := func(want string) func() error {
		return func() error {
			mc, err := b.managedCluster(ctx, "properties")
			if err != nil {
				return err
			}
			for _, c := range mc.Status.ClusterClaims {
				if c.Name == claim.Name && c.Value == want {
					return nil
				}
			}
			return fmt.Errorf("claims are %v", mc.Status.ClusterClaims)
		}
	}
	eventually(t, ctx, "the claim is on the hub", onHub("claim"))

	definition := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(propertyDefinition), &definition.Object))
	definitions := spoke.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err = definitions.Create(ctx, definition, metav1.CreateOptions{})
	require.NoError(t, err)
	remove := func(ctx context.Context) error {
		return definitions.Delete(ctx, definition.GetName(), metav1.DeleteOptions{})
	}
	t.Cleanup(func() { _ = remove(context.Background()) })
	properties := spoke.Resource(schema.GroupVersionResource{Group: "about.k8s.io", Version: "v1alpha1", Resource: "clusterproperties"})
	eventually(t, ctx, "there are properties", func() error {
		_, err := properties.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "about.k8s.io/v1alpha1", "kind": "ClusterProperty",
			"metadata": map[string]any{"name": claim.Name}, "spec": map[string]any{"value": "property"},
		}}, metav1.CreateOptions{})
		return err
	})
	eventually(t, ctx, "the property wins", onHub("property"))
	require.NoError(t, remove(ctx))
	eventually(t, ctx, "the claim is back", onHub("claim"))
}

// TestManagedNamespaces are made on the clusters of a set, and are never deleted.
func TestManagedNamespaces(t *testing.T) {
	b, ctx := start(t)
	sets, namespaces := b.clusters.ClusterV1beta2().ManagedClusterSets(), b.spokes[first].CoreV1().Namespaces()
	label := []byte(`{"metadata":{"labels":{"teams":"yes"}}}`)
	_, err := b.clusters.ClusterV1().ManagedClusters().Patch(ctx, first, types.MergePatchType, label, metav1.PatchOptions{})
	require.NoError(t, err)
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "teams"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.LabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"teams": "yes"}},
		},
		ManagedNamespaces: []clusterv1.ManagedNamespaceConfig{{Name: "team-a"}},
	}}
	_, err = sets.Create(ctx, set, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = sets.Delete(context.Background(), set.Name, metav1.DeleteOptions{})
		_ = namespaces.Delete(context.Background(), "team-a", metav1.DeleteOptions{})
	})
	marked := func(value string) func() error {
		return func() error {
			ns, err := namespaces.Get(ctx, "team-a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for key, v := range ns.Labels {
				if strings.HasPrefix(key, "clusterset.open-cluster-management.io/") && v == value && ns.DeletionTimestamp == nil {
					return nil
				}
			}
			return fmt.Errorf("labels are %v, deleted at %v", ns.Labels, ns.DeletionTimestamp)
		}
	}
	eventually(t, ctx, "the namespace is there", marked("true"))
	eventually(t, ctx, "which the hub knows", func() error {
		mc, err := b.managedCluster(ctx, first)
		if err != nil {
			return err
		}
		if len(mc.Status.ManagedNamespaces) != 1 {
			return fmt.Errorf("namespaces are %v", mc.Status.ManagedNamespaces)
		}
		return conditionIs(mc.Status.ManagedNamespaces[0].Conditions, "NamespaceAvailable", metav1.ConditionTrue, 0)
	})
	require.NoError(t, sets.Delete(ctx, set.Name, metav1.DeleteOptions{}))
	eventually(t, ctx, "the namespace is let go", marked("false"))
}

// TestWrongClock: while the hub finds the cluster's clock wrong nobody says that the cluster is available, and afterwards it
// is, with nothing done.
func TestWrongClock(t *testing.T) {
	b, ctx := start(t)
	clusters := b.clusters.ClusterV1().ManagedClusters()
	lease := func(seconds int) {
		_, err := clusters.Patch(context.Background(), second, types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"leaseDurationSeconds":%d}}`, seconds)), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	eventually(t, ctx, "the hub says that the clock is wrong", func() error {
		mc, err := b.managedCluster(ctx, second)
		if err != nil {
			return err
		}
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionFalse, Reason: "ManagedClusterClockOutOfSync"})
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, Reason: "ManagedClusterLeaseUpdateStopped"})
		_, err = clusters.UpdateStatus(ctx, mc, metav1.UpdateOptions{})
		return err
	})
	lease(1) // the next heartbeat, by which the hub sees that the clock is right, comes soon
	t.Cleanup(func() { lease(60) })
	eventually(t, ctx, "the cluster is available again", func() error {
		mc, err := b.managedCluster(ctx, second)
		if err != nil {
			return err
		}
		conditions := mc.Status.Conditions
		return errors.Join(
			conditionIs(conditions, clusterv1.ManagedClusterConditionClockSynced, metav1.ConditionTrue, 0),
			conditionIs(conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, 0),
		)
	})
}
