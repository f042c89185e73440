package cleanup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"nave/pkg/identity"
)

func object(name, priority string, deleting bool) metav1.Object {
	o := &metav1.ObjectMeta{Name: name, Finalizers: []string{"f"}}
	if priority != "" {
		o.Annotations = map[string]string{priorityAnnotation: priority}
	}
	if deleting {
		now := metav1.Now()
		o.DeletionTimestamp = &now
	}
	return o
}

func TestLowest(t *testing.T) {
	for _, test := range []struct {
		name string
		all  []metav1.Object
		want []string
	}{
		{"no priorities", []metav1.Object{object("a", "", false), object("b", "", false)}, []string{"a", "b"}},
		{"lowest first", []metav1.Object{object("a", "10", false), object("b", "5", false), object("c", "5", false)}, []string{"b", "c"}},
		{"none counts as 0", []metav1.Object{object("a", "1", false), object("b", "", false)}, []string{"b"}},
		{"nonsense counts as 0", []metav1.Object{object("a", "1", false), object("b", "soon", false), object("c", "101", false), object("d", "-1", false)}, []string{"b", "c", "d"}},
		{"the highest there is", []metav1.Object{object("a", "100", false)}, []string{"a"}},
		{"what is going already holds its rank", []metav1.Object{object("a", "1", true), object("b", "2", false)}, []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			for _, o := range lowest(test.all) {
				names = append(names, o.GetName())
			}
			require.Equal(t, test.want, names)
		})
	}
}

func TestRemaining(t *testing.T) {
	require.Equal(t, "The resource manifestworks is remaning, the remaining count is 2, the finalizer pending count is 1",
		remaining("manifestworks", []metav1.Object{object("a", "", true), object("b", "", false)}))
}

func TestPatience(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	available := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: status}}
	}
	for _, test := range []struct {
		name       string
		forced     bool
		timeout    time.Duration
		deleting   time.Duration // since when
		conditions []metav1.Condition
		letGo      bool
		again      time.Duration
	}{
		{"no timeout", false, 0, 1000 * time.Hour, available(metav1.ConditionUnknown), false, 0},
		{"not yet", false, time.Hour, 20 * time.Minute, available(metav1.ConditionUnknown), false, 40 * time.Minute},
		{"over, and its agent is silent", false, time.Hour, time.Hour, available(metav1.ConditionUnknown), true, 0},
		{"over, and it never had an agent", false, time.Hour, time.Hour, nil, true, 0},
		{"over, and its agent is at it", false, time.Hour, 2 * time.Hour, available(metav1.ConditionTrue), false, 0},
		{"by force", true, 0, 0, available(metav1.ConditionTrue), true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			since := metav1.NewTime(now.Add(-test.deleting))
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &since}, Status: clusterv1.ManagedClusterStatus{Conditions: test.conditions}}
			if test.forced {
				mc.Annotations = map[string]string{identity.ForceRemovalAnnotation: "true"}
			}
			letGo, again := patience(mc, test.timeout, now)
			require.Equal(t, test.letGo, letGo)
			require.Equal(t, test.again, again)
		})
	}
}

func TestLeftBehind(t *testing.T) {
	var all []metav1.Object
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all = append(all, object(name, "", false))
	}
	require.Equal(t, "2 manifestworks (a, b)", leftBehind("manifestworks", all[:2]))
	require.Equal(t, "6 manifestworks (a, b, c, d, e, …)", leftBehind("manifestworks", all))
}
