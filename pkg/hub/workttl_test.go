package hub

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"open-cluster-management.io/api/feature"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// completeWork makes a work that says since when it is complete, if it is.
func (i *administrator) completeWork(name string, ttl *int64, labels map[string]string, since time.Duration) {
	i.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`)}}}
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground, TTLSecondsAfterFinished: ttl}
	works := i.works.WorkV1().ManifestWorks("ttl")
	_, err := works.Create(i.ctx, work, metav1.CreateOptions{})
	require.NoError(i, err)
	if since < 0 {
		return
	}
	at := time.Now().Add(-since).UTC().Format(time.RFC3339)
	_, err = works.Patch(i.ctx, name, types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Complete","status":"True","reason":"ConditionRulesAggregated","message":"","lastTransitionTime":%q}]}}`, at), metav1.PatchOptions{}, "status")
	if err != nil {
		require.True(i, apierrors.IsNotFound(err), "%v", err)
	}
}

func (i *administrator) hasWork(name string) bool {
	i.Helper()
	_, err := i.works.WorkV1().ManifestWorks("ttl").Get(i.ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(i, err)
	}
	return err == nil
}

func (i *administrator) workGoes(name string) {
	i.Helper()
	eventually(i.T, "work "+name+" goes", func() error {
		if i.hasWork(name) {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

func (i *administrator) patchWork(name, patch string) {
	i.Helper()
	_, err := i.works.WorkV1().ManifestWorks("ttl").Patch(i.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(i, err)
}

// TestCompletedWorks go when their time is over. The work that goes in a step is made last, so that those that stay have had
// their turn.
func TestCompletedWorks(t *testing.T) {
	i := newAdministrator(t)
	i.makeNamespace("ttl")
	hour := new(int64(3600))
	i.follow(
		step{"time is over", func(i *administrator) {
			i.completeWork("not-complete", new(int64(0)), nil, -1)
			i.completeWork("no-ttl", nil, nil, time.Hour)
			i.completeWork("of-a-set", new(int64(0)), map[string]string{"work.open-cluster-management.io/manifestworkreplicaset": "teams.set"}, time.Hour)
			i.completeWork("later", hour, nil, 0)
			i.completeWork("hours-ago", hour, nil, 2*time.Hour)
			i.workGoes("hours-ago")
			i.completeWork("at-once", new(int64(0)), nil, 0)
			i.workGoes("at-once")
			i.completeWork("soon", new(int64(1)), nil, 0)
			i.workGoes("soon")
			for _, name := range []string{"not-complete", "no-ttl", "of-a-set", "later"} {
				require.True(i, i.hasWork(name), name)
			}
		}},
		step{"time is taken off", func(i *administrator) {
			i.patchWork("later", `{"spec":{"deleteOption":{"ttlSecondsAfterFinished":null}}}`)
			i.completeWork("next", new(int64(0)), nil, 0)
			i.workGoes("next")
			require.True(i, i.hasWork("later"))
		}},
		step{"time is given later", func(i *administrator) {
			i.patchWork("later", `{"spec":{"deleteOption":{"ttlSecondsAfterFinished":0}}}`)
			i.workGoes("later")
			i.patchWork("no-ttl", `{"spec":{"deleteOption":{"ttlSecondsAfterFinished":1}}}`)
			i.workGoes("no-ttl")
		}},
		step{"switched off, and on again", func(i *administrator) {
			i.workGate(feature.CleanUpCompletedManifestWork, operatorv1.FeatureGateModeTypeDisable)
			i.completeWork("while-off", new(int64(0)), nil, time.Hour)
			require.True(i, i.hasWork("while-off"))
			i.workGate(feature.CleanUpCompletedManifestWork, operatorv1.FeatureGateModeTypeEnable)
			i.workGoes("while-off")
		}},
	)
}
