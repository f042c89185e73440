package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestClusterLeaves deletes a cluster that somebody holds: it is not chosen from the same moment on, another takes its place,
// and what was placed on it goes and does not come back (open-cluster-management-io/ocm#472).
func TestClusterLeaves(t *testing.T) {
	r := &replicated{newAdministrator(t), "berths"}
	r.team("berths", 4)
	r.place("berths", "p", silent+", numberOfClusters: 2")
	r.chooses("berths", "p", "berths-1", "berths-2")
	r.place("berths", "all", silent)
	// Whoever schedules by himself does not hear of it, but nothing is made on the cluster for him either.
	r.apply(`
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: by-hand, namespace: berths, annotations: {cluster.open-cluster-management.io/experimental-scheduling-disable: "true"}}
spec: {}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata: {name: by-hand-1, namespace: berths, labels: {cluster.open-cluster-management.io/placement: by-hand, cluster.open-cluster-management.io/decision-group-index: "0"}}
`)
	r.patchDecision("berths", "by-hand-1", `{"status":{"decisions":[{"clusterName":"berths-1","reason":""},{"clusterName":"berths-2","reason":""}]}}`, "status")
	r.create("ledger", strings.Replace(oneMap, "[{name: p}]", "[{name: p}, {name: by-hand}]", 1))
	r.made("berths-1", "berths-2")
	r.madeFor("by-hand", "berths-1", "berths-2")

	created := r.creations("berths-1")
	clusters := r.clusters.ClusterV1().ManagedClusters()
	r.finalizers("berths-1", func(all []string) []string { return append(all, "example.com/pilot") })
	require.NoError(t, clusters.Delete(r.ctx, "berths-1", metav1.DeleteOptions{}))

	r.chooses("berths", "p", "berths-2", "berths-3")
	r.chooses("berths", "all", "berths-2", "berths-3", "berths-4")
	r.says("berths", "p", satisfied, "AllDecisionsScheduled")
	r.made("berths-2", "berths-3")
	r.madeFor("by-hand", "berths-2")
	r.place("berths", "late", silent)
	r.chooses("berths", "late", "berths-2", "berths-3", "berths-4")
	eventually(t, "the cluster waits for nobody but who holds it", func() error {
		mc, err := clusters.Get(r.ctx, "berths-1", metav1.GetOptions{})
		if err == nil && !slices.Equal(mc.Finalizers, []string{"example.com/pilot"}) {
			err = fmt.Errorf("finalizers are %v", mc.Finalizers)
		}
		return err
	})
	// With one cluster less than it asks for, a placement says so.
	r.place("berths", "four", silent+", numberOfClusters: 4")
	r.says("berths", "four", satisfied, "NotAllDecisionsScheduled", "1 cluster decisions unscheduled", "1 are being deleted")

	r.finalizers("berths-1", func([]string) []string { return []string{} })
	eventually(t, "the cluster goes", func() error {
		_, err := clusters.Get(r.ctx, "berths-1", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
	require.Zero(t, created(), "works that were made while the cluster was being deleted")
}

// creations counts the works that are made in a cluster's namespace from now on, until it is asked.
func (r *replicated) creations(cluster string) func() int {
	r.Helper()
	works := r.works.WorkV1().ManifestWorks(cluster)
	list, err := works.List(r.ctx, metav1.ListOptions{})
	require.NoError(r, err)
	events, err := works.Watch(r.ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(r, err)
	r.Cleanup(events.Stop)
	counted := make(chan int, 1)
	go func() {
		n := 0
		for event := range events.ResultChan() {
			if event.Type == watch.Added {
				n++
			}
		}
		counted <- n
	}()
	return func() int {
		events.Stop()
		return <-counted
	}
}

// finalizers changes who holds a cluster.
func (r *replicated) finalizers(cluster string, change func([]string) []string) {
	r.Helper()
	clusters := r.clusters.ClusterV1().ManagedClusters()
	eventually(r.T, "finalizers of "+cluster, func() error {
		mc, err := clusters.Get(r.ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"finalizers":[%s]}}`, mc.ResourceVersion, quoted(change(mc.Finalizers)))
		_, err = clusters.Patch(r.ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

func quoted(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return `"` + strings.Join(all, `","`) + `"`
}
