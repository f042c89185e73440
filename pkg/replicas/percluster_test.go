package replicas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

func TestOnePerCluster(t *testing.T) {
	work := func(cluster, name string, second int, going bool) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, CreationTimestamp: metav1.Unix(int64(second), 0)}}
		if going {
			w.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)}
		}
		return w
	}
	for _, test := range []struct {
		name    string
		works   []*workv1.ManifestWork
		stays   string
		surplus []string
	}{
		{"one", []*workv1.ManifestWork{work("a", "x", 1, false)}, "x", nil},
		{"one that goes is in the way", []*workv1.ManifestWork{work("a", "x", 1, true)}, "x", nil},
		{"the older one", []*workv1.ManifestWork{work("a", "x", 2, false), work("a", "y", 1, false)}, "y", []string{"x"}},
		{"of the same age, by name", []*workv1.ManifestWork{work("a", "y", 1, false), work("a", "x", 1, false)}, "x", []string{"y"}},
		{"the younger one, if the older one goes", []*workv1.ManifestWork{work("a", "x", 1, true), work("a", "y", 2, false)}, "y", nil},
		{"one that goes already is not in excess", []*workv1.ManifestWork{work("a", "x", 1, false), work("a", "y", 2, true)}, "x", nil},
		{"the older one of two that go", []*workv1.ManifestWork{work("a", "y", 2, true), work("a", "x", 1, true)}, "x", nil},
		{"all but one", []*workv1.ManifestWork{work("a", "x", 3, false), work("a", "y", 2, false), work("a", "z", 1, false)}, "z", []string{"x", "y"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, surplus := OnePerCluster(append(test.works, work("b", "other", 0, false)))
			require.Len(t, one, 2)
			require.Equal(t, test.stays, one["a"].Name)
			require.Equal(t, "other", one["b"].Name)
			var names []string
			for _, w := range surplus {
				names = append(names, w.Name)
			}
			require.ElementsMatch(t, test.surplus, names)
		})
	}
}
