package workload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

func TestReplicaSet(t *testing.T) {
	b := newBench(t)
	objects, err := parse("app.yaml", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`))
	require.NoError(t, err)
	apply := func(a *Applier, objects []Object) (string, error) {
		done, err := a.ApplyReplicaSet(t.Context(), Target{Namespace: b.cluster, Placement: "p", Foreground: true}, objects)
		if err != nil {
			return "", err
		}
		return done.Verb, nil
	}
	verb, err := apply(b.applier(func(a *Applier) { a.DryRun = true }), objects)
	require.NoError(t, err)
	require.Equal(t, Created, verb)
	for _, want := range []string{Created, Unchanged} {
		verb, err := apply(b.applier(), objects)
		require.NoError(t, err)
		require.Equal(t, want, verb)
	}
	verb, err = apply(b.applier(func(a *Applier) { a.Options.Orphan = true }), objects)
	require.NoError(t, err)
	require.Equal(t, Changed, verb)
	set, err := b.hub.WorkV1alpha1().ManifestWorkReplicaSets(b.cluster).Get(t.Context(), "app", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "p", set.Spec.PlacementRefs[0].Name)
	require.Equal(t, workv1alpha1.Foreground, set.Spec.CascadeDeletionPolicy)
	require.Empty(t, set.Labels, "labels would be copied to works")

	_, err = apply(b.applier(func(a *Applier) { a.MaxBytes = 10 }), objects)
	require.ErrorContains(t, err, "more than the 10 of --max-size")
	large, err := parse("large.yaml", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"`+strings.Repeat("a", 600<<10)+`"}}`))
	require.NoError(t, err)
	_, err = apply(b.applier(), large)
	require.ErrorContains(t, err, "cannot be split into several works")

	foreign := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: b.cluster}, Spec: set.Spec}
	_, err = b.hub.WorkV1alpha1().ManifestWorkReplicaSets(b.cluster).Create(t.Context(), foreign, metav1.CreateOptions{})
	require.NoError(t, err)
	theirs := b.applier(func(a *Applier) { a.Set = "theirs" })
	_, err = apply(theirs, objects)
	require.ErrorContains(t, err, "was not made by nave work apply")
	theirs.Force = true
	_, err = apply(theirs, objects)
	require.NoError(t, err)

	_, err = b.applier().ApplyReplicaSet(t.Context(), Target{Namespace: b.cluster, Placement: "other"}, objects)
	require.ErrorContains(t, err, "goes to placement p, and not to other")
	_, err = b.applier(func(a *Applier) { a.Force = true }).ApplyReplicaSet(t.Context(), Target{Namespace: b.cluster, Placement: "other"}, objects)
	require.NoError(t, err)
	set, err = b.hub.WorkV1alpha1().ManifestWorkReplicaSets(b.cluster).Get(t.Context(), "app", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, set.Spec.PlacementRefs, 1)
	require.Equal(t, "other", set.Spec.PlacementRefs[0].Name)
	require.Equal(t, workv1alpha1.Background, set.Spec.CascadeDeletionPolicy, "what a flag said goes with it")
}
