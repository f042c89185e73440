package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// TestRemoveReplicaSet has a set that goes at once, and a work of it that an agent still holds.
func TestRemoveReplicaSet(t *testing.T) {
	b := newBench(t)
	r := b.replicaSet("till")
	require.ErrorContains(t, r.Remove(t.Context()), "namespace "+r.Namespace+" has no replica set till")

	objects := []Object{configMapOf(t, "a", 10)}
	_, err := b.applier(func(a *Applier) { a.Set = "till" }).ApplyReplicaSet(t.Context(), Target{Namespace: r.Namespace, Placement: "p"}, objects)
	require.NoError(t, err)
	work := b.replica(r, "p", b.cluster+"-a", "till-a", objects)
	works := b.hub.WorkV1().ManifestWorks(work.Namespace)
	_, err = works.Patch(t.Context(), work.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["test.dev/holds"]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	set, err := r.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, workv1alpha1.Background, set.Spec.CascadeDeletionPolicy)

	require.NoError(t, r.Remove(t.Context()))
	require.ErrorContains(t, r.AwaitGone(t.Context(), 10*impatience), "replica set till of namespace "+r.Namespace+" is not gone after 3s: work till-a of cluster "+work.Namespace+
		" waits: its agent has not said anything yet; it is held by test.dev/holds; it goes on, see nave work list -A -o wide")
	_, err = r.Get(t.Context())
	require.ErrorAs(t, err, &MissingError{}, "the set itself did not wait")
	require.NoError(t, r.Remove(t.Context()), "what is left of a set may be waited for")
	_, err = works.Patch(t.Context(), work.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, r.AwaitGone(t.Context(), patience))
	require.ErrorAs(t, r.Remove(t.Context()), &MissingError{})
}
