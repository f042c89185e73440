package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"

	"nave/pkg/rollout"
	"nave/pkg/workload"
)

func TestWriteRollout(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Annotations = map[string]string{rollout.PausedAnnotation: "true"}
	set.Generation = 2
	set.Status.Conditions = []metav1.Condition{{Type: "PlacementRolledOut", Status: metav1.ConditionFalse, Reason: "Paused", Message: "held", ObservedGeneration: 2}}
	result := &rollout.Result{Done: 1, Soaking: []string{"b"}, Underway: []string{"c"}, Failed: []string{"d"}, TimedOut: []string{"e"}, Waiting: []string{"f", "g"}}
	progress := []workload.Progress{{Placement: "p", Selected: 7, Result: result, Reasons: map[string]string{"d": "no kind\nFoo"}}}
	var out bytes.Buffer
	require.NoError(t, writeRollout(&out, set, progress))
	require.Regexp(t, `^the rollout is paused\n`, out.String())
	require.Regexp(t, `(?m)^PlacementRolledOut +False +Paused +held$`, out.String())
	require.Regexp(t, `(?m)^p +7 +5 +2 +1 +1 +1 +2$`, out.String())
	require.Regexp(t, `(?m)^d +p +no kind Foo$`, out.String())
	require.Regexp(t, `(?m)^e +p +it has not succeeded within progressDeadline$`, out.String())

	for i := range 1000 {
		result.Failed = append(result.Failed, fmt.Sprintf("x%d", i))
	}
	out.Reset()
	require.NoError(t, writeRollout(&out, set, progress))
	require.Less(t, strings.Count(out.String(), "\n"), failedRows+15)
	require.Contains(t, out.String(), "and 982 more\n")
}
