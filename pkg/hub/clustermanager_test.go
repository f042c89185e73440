package hub

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

// startHub runs a hub on an empty directory until the test ends, and returns its administrator's access.
func startHub(t *testing.T) (*rest.Config, context.Context) {
	t.Helper()
	return startHubOn(t, t.TempDir())
}

// startHubOn is startHub on what an earlier one has left in a directory.
func startHubOn(t *testing.T, dir string) (*rest.Config, context.Context) {
	t.Helper()
	c := config(dir, "127.0.0.1:0")
	run(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	t.Cleanup(cancel)
	access, err := clientcmd.BuildConfigFromFlags("", AdminKubeconfig(c.DataDir))
	require.NoError(t, err)
	return access, ctx
}

func TestClusterManager(t *testing.T) {
	access, ctx := startHub(t)
	managers := operatorclient.NewForConfigOrDie(access).OperatorV1().ClusterManagers()
	clusters := clusterclient.NewForConfigOrDie(access).ClusterV1().ManagedClusters()
	manager := func() *operatorv1.ClusterManager {
		cm, err := managers.Get(ctx, "cluster-manager", metav1.GetOptions{})
		require.NoError(t, err)
		return cm
	}
	set := func(spec string) {
		_, err := managers.Patch(ctx, "cluster-manager", types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { cm := manager(); return cm.Status.ObservedGeneration == cm.Generation }, patience, tick)
	}

	t.Run("a fresh hub is well", func(t *testing.T) {
		crd, err := apiextensions.NewForConfigOrDie(access).ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "clustermanagers.operator.open-cluster-management.io", metav1.GetOptions{})
		require.NoError(t, err)
		require.Condition(t, func() bool {
			for _, c := range crd.Status.Conditions {
				if c.Type == apiextensionsv1.Established {
					return c.Status == apiextensionsv1.ConditionTrue
				}
			}
			return false
		})
		for kind, want := range map[string]metav1.ConditionStatus{
			"Applied": metav1.ConditionTrue, "Progressing": metav1.ConditionFalse, "HubRegistrationDegraded": metav1.ConditionFalse,
			"MigrationSucceeded": metav1.ConditionTrue, "ValidFeatureGates": metav1.ConditionTrue,
		} {
			c := meta.FindStatusCondition(manager().Status.Conditions, kind)
			require.NotNil(t, c, kind)
			require.Equal(t, want, c.Status, kind)
		}
		require.Nil(t, meta.FindStatusCondition(manager().Status.Conditions, "UnsupportedConfiguration"))
	})

	t.Run("a gate and its users take effect while the hub runs", func(t *testing.T) {
		_, err := clusters.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "waits"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		set(`{"registrationConfiguration":{"featureGates":[{"feature":"ManagedClusterAutoApproval","mode":"Enable"}],"autoApproveUsers":["` + adminUser + `"]}}`)
		require.Eventually(t, func() bool {
			mc, err := clusters.Get(ctx, "waits", metav1.GetOptions{})
			return err == nil && mc.Spec.HubAcceptsClient
		}, patience, tick)
	})

	t.Run("what has no effect is told until it goes", func(t *testing.T) {
		set(`{"registrationConfiguration":{"featureGates":[{"feature":"Telepathy","mode":"Enable"}]},"nodePlacement":{"nodeSelector":{"a":"b"}}}`)
		conditions := manager().Status.Conditions
		require.Equal(t, "InvalidFeatureGatesExisting", meta.FindStatusCondition(conditions, "ValidFeatureGates").Reason)
		require.Contains(t, meta.FindStatusCondition(conditions, "UnsupportedConfiguration").Message, "nodePlacement")
		set(`{"registrationConfiguration":null,"nodePlacement":null}`)
		conditions = manager().Status.Conditions
		require.Equal(t, "FeatureGatesAllValid", meta.FindStatusCondition(conditions, "ValidFeatureGates").Reason)
		require.Nil(t, meta.FindStatusCondition(conditions, "UnsupportedConfiguration"))
	})

	t.Run("it stays, and alone", func(t *testing.T) {
		require.ErrorContains(t, managers.Delete(ctx, "cluster-manager", metav1.DeleteOptions{}), "stop nave hub")
		require.ErrorContains(t, managers.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}), "stop nave hub")
		definitions := apiextensions.NewForConfigOrDie(access).ApiextensionsV1().CustomResourceDefinitions()
		require.ErrorContains(t, definitions.Delete(ctx, "clustermanagers.operator.open-cluster-management.io", metav1.DeleteOptions{}), "stop nave hub")
		_, err := managers.Create(ctx, &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "second"}}, metav1.CreateOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.NotEmpty(t, manager().UID)
	})
}

const tick = 50 * time.Millisecond
