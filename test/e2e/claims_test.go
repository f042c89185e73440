package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
)

// hasEvent fails until the hub has an event with this reason about a cluster.
func (b *bench) hasEvent(ctx context.Context, cluster, reason string) error {
	list, err := b.hub.EventsV1().Events(cluster).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var reasons []string
	for _, e := range list.Items {
		if e.Reason == reason && e.Regarding.Kind == "ManagedCluster" && e.Regarding.Name == cluster {
			return nil
		}
		reasons = append(reasons, e.Reason)
	}
	return fmt.Errorf("events are %q", reasons)
}

// TestClaims: claims of the cluster are on the hub, all reserved ones and the first twenty of the others.
func TestClaims(t *testing.T) {
	b, ctx := start(t)
	config, err := b.Cluster(first)
	require.NoError(t, err)
	config.QPS = -1
	client, err := clusterclient.NewForConfig(config)
	require.NoError(t, err)
	claims := client.ClusterV1alpha1().ClusterClaims()
	create := func(name string, labels map[string]string) {
		_, err := claims.Create(ctx, &clusterv1alpha1.ClusterClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "value"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			if err := claims.Delete(context.Background(), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		})
	}
	create("id.k8s.io", nil)
	create("hidden.example", map[string]string{"open-cluster-management.io/spoke-only": ""})
	var want []string
	for i := range 21 {
		name := fmt.Sprintf("claim-%02d.example", i)
		create(name, nil)
		want = append(want, name)
	}
	onHub := func(want []string) func() error {
		return func() error {
			mc, err := b.managedCluster(ctx, first)
			if err != nil {
				return err
			}
			var got []string
			for _, c := range mc.Status.ClusterClaims {
				got = append(got, c.Name)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				return fmt.Errorf("claims are %q", got)
			}
			return nil
		}
	}
	eventually(t, ctx, "the claims are on the hub, cut off", onHub(append([]string{"id.k8s.io"}, want[:20]...)))
	eventually(t, ctx, "which is told", func() error { return b.hasEvent(ctx, first, "CustomClusterClaimsTruncated") })
	require.NoError(t, claims.Delete(ctx, want[0], metav1.DeleteOptions{}))
	eventually(t, ctx, "there is room for the last one", onHub(append([]string{"id.k8s.io"}, want[1:]...)))
	require.NoError(t, b.hasEvent(ctx, first, "Available"))
}
