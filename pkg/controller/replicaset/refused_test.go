package replicaset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// lines are what was logged about works that cannot be written.
func (w *world) lines() (n int) {
	for _, entry := range w.logged.AllEntries() {
		if entry.Message == "works cannot be written" {
			n++
		}
	}
	return n
}

// TestWorksThatAreRefused: one cluster that cannot be written to does not hold up another; the set says why, the log once.
func TestWorksThatAreRefused(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.api.refuse = func(verb, cluster string) error {
		if verb == "create" && cluster == "a" {
			return errors.New("no works in " + strings.Repeat("x", 10_000))
		}
		return nil
	}
	w.selects(2, "a", "b")
	written, _ := w.step()
	require.Equal(t, []string{"b"}, written)
	for range 3 {
		require.Error(t, w.err, "it is tried again")
		require.Contains(t, w.message("PlacementRolledOut"), "cluster a: no works in x")
		require.Less(t, len(w.message("PlacementRolledOut")), maxMessage)
		w.step()
		require.NotContains(t, w.api.log, "status", "it is said")
	}
	require.Equal(t, 1, w.lines())
	w.api.refuse = nil
	written, _ = w.step()
	require.Equal(t, []string{"a"}, written)
	require.NoError(t, w.err)
	require.Equal(t, "placement p: 0 of 2 clusters have succeeded, under way: a b", w.message("PlacementRolledOut"))
}

func TestManyClustersThatAreRefused(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.api.refuse = func(string, string) error { return errors.New("no") }
	var clusters []string
	for i := range 100 {
		clusters = append(clusters, fmt.Sprintf("c%03d", i))
	}
	w.selects(100, clusters...)
	w.step()
	require.Contains(t, w.message("PlacementRolledOut"), "cluster c004: no; and 95 clusters more that could not be written to")
	said := w.message("PlacementRolledOut")
	w.step()
	require.Equal(t, said, w.message("PlacementRolledOut"), "in the same order")
	require.Less(t, len(w.err.Error()), 500)
}

// TestDeletionThatIsRefused: a set whose works cannot be deleted says so, and stays.
func TestDeletionThatIsRefused(t *testing.T) {
	for _, policy := range []workv1alpha1.CascadeDeletionPolicy{workv1alpha1.Background, workv1alpha1.Foreground} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, "{type: All}")
			w.selects(2, "a", "b")
			w.step()
			w.api.refuse = func(verb, cluster string) error {
				if verb == "delete" && cluster == "a" {
					return errors.New("it is protected")
				}
				return nil
			}
			w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) {
				set.Spec.CascadeDeletionPolicy, set.DeletionTimestamp = policy, &metav1.Time{Time: w.clock.Now()}
			})
			for range 3 {
				w.step()
				require.Error(t, w.err, "it is tried again")
				require.Contains(t, w.message("ManifestworkApplied"), "deletion waits for works that cannot be deleted: cluster a: delete work web")
				require.Contains(t, w.message("ManifestworkApplied"), "it is protected")
				require.NotEmpty(t, w.api.set.Finalizers)
			}
			require.Nil(t, w.api.in("b"))
			require.Equal(t, 1, w.lines())
			w.api.refuse = nil
			w.step()
			w.step()
			require.Nil(t, w.api.in("a"))
			require.Empty(t, w.api.set.Finalizers)
			require.NoError(t, w.err)
		})
	}
}

// TestLabelsThatAreTooMany: works could not note them.
func TestLabelsThatAreTooMany(t *testing.T) {
	w := newWorld(t, "{type: All}")
	w.selects(1, "a")
	w.step()
	w.change(func(set *workv1alpha1.ManifestWorkReplicaSet) {
		set.Labels = map[string]string{}
		for i := range 1000 {
			set.Labels[fmt.Sprintf("%s/%d", strings.Repeat("x", 100), i)] = ""
		}
	})
	w.content("two")
	w.step()
	require.Equal(t, []string{"status"}, w.api.log)
	require.NoError(t, w.err)
	require.Equal(t, "NotAsExpected", w.tells("PlacementVerified"))
	require.Contains(t, w.message("PlacementVerified"), "give it fewer labels")
	require.Contains(t, w.message("PlacementRolledOut"), "PlacementVerified says why")
}
