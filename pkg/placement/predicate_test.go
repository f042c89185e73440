package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// fleet is a few clusters for selectors.
func fleet(t *testing.T) []*clusterv1.ManagedCluster {
	t.Helper()
	var all []*clusterv1.ManagedCluster
	for _, text := range []string{
		"metadata: {name: a, labels: {zone: east, ring: inner}}\nstatus: {clusterClaims: [{name: platform, value: AWS}, {name: region, value: eu-1}]}",
		"metadata: {name: b, labels: {zone: east}}\nstatus: {clusterClaims: [{name: platform, value: GCP}]}",
		"metadata: {name: c, labels: {zone: west, ring: outer}}\nstatus: {clusterClaims: [{name: platform, value: a value that no label may have}]}",
		"metadata: {name: d}",
	} {
		all = append(all, read[clusterv1.ManagedCluster](t, text))
	}
	return all
}

// selectors is a spec with predicates, each the fields of a requiredClusterSelector.
func selectors(all ...string) string {
	text := "predicates:\n"
	for _, one := range all {
		text += "- requiredClusterSelector: {" + one + "}\n"
	}
	return text
}

const (
	east   = "labelSelector: {matchLabels: {zone: east}}"
	west   = "labelSelector: {matchLabels: {zone: west}}"
	onAWS  = "claimSelector: {matchExpressions: [{key: platform, operator: In, values: [AWS]}]}"
	ringed = `celSelector: {celExpressions: ["has(managedCluster.metadata.labels.ring)"]}`
)

func TestSelectors(t *testing.T) {
	clusters := fleet(t)
	expression := func(kind, key, operator, values string) string {
		return kind + "Selector: {matchExpressions: [{key: " + key + ", operator: " + operator + ", values: [" + values + "]}]}"
	}
	for _, test := range []struct{ name, spec, matched string }{
		{"no predicates", "{}", "a b c d"},
		{"an empty list", "predicates: []", "a b c d"},
		{"a predicate that requires nothing", selectors(""), "a b c d"},
		{"empty selectors", selectors("labelSelector: {}, claimSelector: {}, celSelector: {}"), "a b c d"},

		{"labels", selectors(east), "a b"},
		{"two labels", selectors("labelSelector: {matchLabels: {zone: east, ring: inner}}"), "a"},
		{"label In", selectors(expression("label", "zone", "In", "west, north")), "c"},
		{"label NotIn, which a missing one is", selectors(expression("label", "ring", "NotIn", "inner")), "b c d"},
		{"label Exists", selectors(expression("label", "ring", "Exists", "")), "a c"},
		{"label DoesNotExist", selectors(expression("label", "ring", "DoesNotExist", "")), "b d"},
		{"labels and expressions", selectors("labelSelector: {matchLabels: {zone: east}, matchExpressions: [{key: ring, operator: DoesNotExist}]}"), "b"},

		{"claim In", selectors(expression("claim", "platform", "In", "AWS, GCP")), "a b"},
		{"claim NotIn, which a missing one is", selectors(expression("claim", "platform", "NotIn", "AWS")), "b c d"},
		{"claim Exists, whatever its value", selectors(expression("claim", "platform", "Exists", "")), "a b c"},
		{"claim DoesNotExist", selectors(expression("claim", "platform", "DoesNotExist", "")), "d"},
		{"two claims", selectors("claimSelector: {matchExpressions: [{key: platform, operator: Exists}, {key: region, operator: Exists}]}"), "a"},
		{"a label is no claim", selectors(expression("claim", "zone", "Exists", "")), ""},

		{"an expression", selectors(ringed), "a c"},
		{"two expressions", selectors(`celSelector: {celExpressions: ["has(managedCluster.metadata.labels.ring)", "managedCluster.metadata.labels.zone == 'west'"]}`), "c"},

		{"one predicate: labels and claims", selectors(east + ", " + onAWS), "a"},
		{"one predicate: labels and expressions", selectors(east + ", " + ringed), "a"},
		{"one predicate: claims and expressions", selectors("claimSelector: {matchExpressions: [{key: platform, operator: Exists}]}, " + ringed), "a c"},
		{"one predicate: all three, of which one is not met", selectors(west + ", " + onAWS + ", " + ringed), ""},
		{"two predicates: either", selectors(west, onAWS), "a c"},
		{"two predicates that both match", selectors(east, onAWS), "a b"},
		{"one of them requires nothing", selectors(west, ""), "a b c d"},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := planOf(t, test.spec)
			var matched []string
			for _, mc := range clusters {
				v := plan.Judge(mc, noon())
				require.Equal(t, v.Refused == "", plan.Why(mc, noon()) == "", "what is refused is told why: %s", mc.Name)
				if v.Refused == "" {
					matched = append(matched, mc.Name)
				} else {
					require.Equal(t, Predicate, v.Refused)
				}
			}
			require.Equal(t, test.matched, strings.Join(matched, " "))
		})
	}
}

func TestWhyNoMatch(t *testing.T) {
	clusters := fleet(t)
	for _, test := range []struct{ name, spec, cluster, why string }{
		{"another value", selectors(west), "a", `its label zone is "east", and zone=west is required`},
		{"no label", selectors(west), "d", "it has no label zone, and zone=west is required"},
		{"a label too many", selectors("labelSelector: {matchExpressions: [{key: ring, operator: DoesNotExist}]}"), "a", `its label ring is "inner", and !ring is required`},
		{"another claim", selectors(onAWS), "b", `its claim platform is "GCP", and platform in (AWS) is required`},
		{"no claim", selectors(onAWS), "d", "it has no claim platform, and platform in (AWS) is required"},
		{"an expression", selectors(ringed), "b", `expression "has(managedCluster.metadata.labels.ring)" is false`},
		{"the first of a predicate that is not met", selectors(east + ", " + onAWS), "b", `its claim platform is "GCP", and platform in (AWS) is required`},
		{"each predicate's reason", selectors(west, onAWS), "b", `its label zone is "east", and zone=west is required; and its claim platform is "GCP", and platform in (AWS) is required`},
		{"one reason of two predicates is told once", selectors(west+", "+onAWS, west), "b", `its label zone is "east", and zone=west is required`},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := slices.IndexFunc(clusters, func(mc *clusterv1.ManagedCluster) bool { return mc.Name == test.cluster })
			require.Equal(t, test.why, planOf(t, test.spec).Why(clusters[i], noon()))
		})
	}
}
