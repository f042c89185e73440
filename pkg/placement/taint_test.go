package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

func TestTaints(t *testing.T) {
	for _, test := range []struct {
		name, tolerations, taints string
		want                      Verdict // but for the taint
	}{
		{"no taint", "[]", "[]", Verdict{}},
		{"NoSelect", "[]", "[{key: a, effect: NoSelect}]", Verdict{Refused: TaintToleration}},
		{"NoSelectIfNew", "[]", "[{key: a, effect: NoSelectIfNew}]", Verdict{Keep: true}},
		{"PreferNoSelect", "[]", "[{key: a, effect: PreferNoSelect}]", Verdict{Avoid: 1}},
		{"by value", "[{key: a, value: v}]", "[{key: a, value: v, effect: NoSelect}]", Verdict{}},
		{"another value", "[{key: a, operator: Equal, value: w}]", "[{key: a, value: v, effect: NoSelect}]", Verdict{Refused: TaintToleration}},
		{"any value", "[{key: a, operator: Exists}]", "[{key: a, value: v, effect: NoSelect}]", Verdict{}},
		{"any key", "[{operator: Exists}]", "[{key: a, value: v, effect: NoSelect}, {key: b, effect: NoSelectIfNew}]", Verdict{}},
		{"another effect", "[{key: a, operator: Exists, effect: NoSelectIfNew}]", "[{key: a, effect: NoSelect}]", Verdict{Refused: TaintToleration}},
		{"two of one key", "[{key: a, operator: Exists, effect: NoSelect}]", "[{key: a, effect: NoSelect}, {key: a, effect: NoSelectIfNew}]", Verdict{Keep: true}},
		{"for a time", "[{key: a, operator: Exists, tolerationSeconds: 60}]", "[{key: a, effect: NoSelect}]", Verdict{Until: noon().Add(30 * time.Second)}},
		{"time is over", "[{key: a, operator: Exists, tolerationSeconds: 30}]", "[{key: a, effect: NoSelect}]", Verdict{Refused: TaintToleration}},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := planOf(t, "tolerations: "+test.tolerations)
			mc := &clusterv1.ManagedCluster{Spec: *read[clusterv1.ManagedClusterSpec](t, "taints: "+test.taints)}
			for i := range mc.Spec.Taints {
				mc.Spec.Taints[i].TimeAdded = metav1.Time{Time: noon().Add(-30 * time.Second)}
			}
			got := plan.Judge(mc, noon())
			got.Taint = nil
			require.Equal(t, test.want, got)
		})
	}
}

func TestWrongTolerations(t *testing.T) {
	for tolerations, message := range map[string]string{
		"[{value: x}]": "TaintToleration:If the key is empty, operator must be Exists.",
		"[{key: a, operator: Exists, value: closed}]": "TaintToleration:If the operator is Exists, the value should be empty.",
	} {
		spec := read[clusterv1beta1.PlacementSpec](t, "tolerations: "+tolerations)
		_, err := compiler(t, nil).Compile(&clusterv1beta1.Placement{Spec: *spec})
		require.EqualError(t, err, message)
	}
}
