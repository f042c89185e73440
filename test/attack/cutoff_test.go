package attack

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"nave/pkg/identity"
)

// ended waits until a watch ends.
func ended(ctx context.Context, t *testing.T, w watch.Interface) {
	t.Helper()
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		case <-ctx.Done():
			t.Fatal("the watch goes on")
		}
	}
}

func TestWatchOfARejectedCluster(t *testing.T) {
	admin, ctx := start(t)
	agent, _ := admin.join(ctx, t, "rejected-watch")
	other, _ := admin.join(ctx, t, "rejected-watch-not")
	addons, err := agent.addons.AddonV1beta1().ManagedClusterAddOns("rejected-watch").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	untouched, err := other.addons.AddonV1beta1().ManagedClusterAddOns("rejected-watch-not").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	defer untouched.Stop()

	admin.setAccepted(ctx, t, "rejected-watch", false)
	ended(ctx, t, addons)
	_, err = agent.addons.AddonV1beta1().ManagedClusterAddOns("rejected-watch").List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "cluster rejected-watch is not accepted by this hub")
	_, err = agent.ask(ctx, t, request{agent: identity.Agent{Cluster: "rejected-watch", Name: "agent1"}})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	mc, err := agent.clusters.ClusterV1().ManagedClusters().Get(ctx, "rejected-watch", metav1.GetOptions{})
	require.NoError(t, err, "it can see that it was rejected")
	require.False(t, mc.Spec.HubAcceptsClient)
	select {
	case _, open := <-untouched.ResultChan():
		require.True(t, open, "the watch of another cluster goes on")
	default:
	}

	admin.setAccepted(ctx, t, "rejected-watch", true)
	require.Eventually(t, func() bool {
		_, err := agent.addons.AddonV1beta1().ManagedClusterAddOns("rejected-watch").List(ctx, metav1.ListOptions{})
		return err == nil
	}, patience, tick, "accepted again, it works again with the same certificate")
}

// TestConnectionOfADeletedCluster uses the very connection on which the agent was let in before.
func TestConnectionOfADeletedCluster(t *testing.T) {
	admin, ctx := start(t)
	agent, _ := admin.join(ctx, t, "deleted-connection")
	transport, err := rest.TransportFor(agent.config)
	require.NoError(t, err)
	client := &http.Client{Transport: transport}
	get := func() (status int, reused bool) {
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn:          func(info httptrace.GotConnInfo) { reused = info.Reused },
			TLSHandshakeDone: func(state tls.ConnectionState, _ error) { require.Equal(t, "h2", state.NegotiatedProtocol) },
		})
		r, err := http.NewRequestWithContext(traced, http.MethodGet, agent.config.Host+"/apis/cluster.open-cluster-management.io/v1/managedclusters/deleted-connection", nil)
		require.NoError(t, err)
		response, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, reused
	}
	status, _ := get()
	require.Equal(t, http.StatusOK, status)
	clusters, err := agent.clusters.ClusterV1().ManagedClusters().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=deleted-connection"})
	require.NoError(t, err)

	admin.remove(ctx, t, "deleted-connection")
	ended(ctx, t, clusters)
	status, reused := get()
	require.Equal(t, http.StatusUnauthorized, status)
	require.True(t, reused, "it is the same connection")
	_, err = agent.clusters.ClusterV1().ManagedClusters().Get(ctx, "deleted-connection", metav1.GetOptions{})
	require.ErrorContains(t, err, "managed cluster deleted-connection is not registered with this hub any more")
}

func TestStaleCertificateOfAnEarlierLife(t *testing.T) {
	admin, ctx := start(t)
	agent, _ := admin.join(ctx, t, "stale")
	admin.remove(ctx, t, "stale")
	admin.accepted(ctx, t, "stale")
	_, err := agent.clusters.ClusterV1().ManagedClusters().Get(ctx, "stale", metav1.GetOptions{})
	require.True(t, apierrors.IsUnauthorized(err), "%v", err)
	require.ErrorContains(t, err, "was removed and registered anew since this certificate was issued")
	admin.issue(ctx, t, identity.Agent{Cluster: "stale", Name: "agent1"})
}
