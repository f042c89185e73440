package work

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clusterlisters "open-cluster-management.io/api/client/cluster/listers/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestWhatStandsForAWork: a hub whose address changes is the same hub, and its works are not evicted; another hub is another
// hub, also with works of the same names (spec 10.2, C25; 4.5).
func TestWhatStandsForAWork(t *testing.T) {
	const old, current = "https://old:7443", "https://new:7443"
	applied := func(server, agent, registration string) *workv1.AppliedManifestWork {
		amw := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: HubHash(server) + "-w"}, Spec: workv1.AppliedManifestWorkSpec{ManifestWorkName: "w", AgentID: agent}}
		if registration != "" {
			amw.Annotations = map[string]string{registrationAnnotation: registration}
		}
		return amw
	}
	for _, test := range []struct {
		name         string
		registration string // by which the agent knows the hub
		there        *workv1.AppliedManifestWork
		want         bool
	}{
		{"of the hub's address", "uid", applied(current, "me", "uid"), true},
		{"of the hub's address, by upstream's agent", "uid", applied(current, "other", ""), true},
		{"of the hub's address, from an earlier life of the cluster", "uid", applied(current, "me", "earlier"), true},
		{"of the same hub under another address", "uid", applied(old, "me", "uid"), true},
		{"of another hub", "uid", applied(old, "me", "other"), false},
		{"of another hub, by upstream's agent", "uid", applied(old, "me", ""), false},
		{"of the same hub, by another agent", "uid", applied(old, "other", "uid"), false},
		{"when nobody knows which hub it is", "", applied(old, "me", ""), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &Agent{Config: Config{Cluster: "c", AgentID: "me"}, hubHash: HubHash(current)}
			a.applied = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byWork: indexByWork})
			clusters := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			a.clusters = clusterlisters.NewManagedClusterLister(clusters)
			if test.registration != "" {
				require.NoError(t, clusters.Add(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid"}}))
			}
			require.NoError(t, a.applied.Add(test.there))
			require.Equal(t, test.want, a.findApplied("w") == test.there)
			require.Nil(t, a.findApplied("x"), "another work")
		})
	}
}

func TestLabelChanges(t *testing.T) {
	for _, test := range []struct {
		name       string
		have, want map[string]string
		changes    map[string]any
	}{
		{"none", map[string]string{"a": "1"}, map[string]string{"a": "1"}, map[string]any{}},
		{"all of them", map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "2", "c": "1"}, map[string]any{"a": "2", "b": nil, "c": "1"}},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.changes, labelChanges(test.have, test.want)) })
	}
}
