package replicaset

import (
	"testing"

	"github.com/stretchr/testify/require"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestWorksThatPoliciesChange: what a policy of the hub's users makes of a work counts as what the set asks for, also for a hub
// that has just started; what somebody else makes of it does not.
func TestWorksThatPoliciesChange(t *testing.T) {
	stamp := 0
	for _, test := range []struct {
		name   string
		policy func(cluster string, work *workv1.ManifestWork)
	}{
		{"for each cluster something else", func(cluster string, work *workv1.ManifestWork) {
			work.Spec.Workload.Manifests[0].Raw = append([]byte(`{"cluster":"`+cluster+`",`), work.Spec.Workload.Manifests[0].Raw[1:]...)
		}},
		{"always the same", func(_ string, work *workv1.ManifestWork) {
			work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
		}},
		{"nothing gets through", func(_ string, work *workv1.ManifestWork) { work.Spec.Workload.Manifests = nil }},
		{"each time something else", func(_ string, work *workv1.ManifestWork) {
			stamp++
			work.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: new(int64(stamp))}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "{type: Progressive, progressive: {maxConcurrency: 1}}")
			w.api.mutate = test.policy
			w.selects(2, "a", "b")
			rollOut := func() {
				for range 2 {
					w.step()
					for _, cluster := range []string{"a", "b"} {
						if work := w.api.in(cluster); work != nil {
							w.says(cluster, yes, yes, work.Generation)
						}
					}
				}
				w.step()
				require.Equal(t, "Complete", w.tells("PlacementRolledOut"), w.message("PlacementRolledOut"))
			}
			rollOut()
			w.content("two")
			rollOut()
			w.step()
			require.Empty(t, w.api.log)
			w.restart()
			w.step()
			require.Empty(t, w.api.log, "nothing has changed")

			w.elsewhere("a", func(work *workv1.ManifestWork) bool {
				work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{})
				return true
			})
			written, _ := w.step()
			require.Equal(t, []string{"a"}, written)
		})
	}
}
