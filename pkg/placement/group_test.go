package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func TestGroups(t *testing.T) {
	strategy := func(per string, groups ...string) string {
		text := "decisionStrategy:\n  groupStrategy:\n"
		if per != "" {
			text += "    clustersPerDecisionGroup: " + per + "\n"
		}
		if len(groups) > 0 {
			text += "    decisionGroups:\n"
		}
		for _, g := range groups {
			name, selector, _ := strings.Cut(g, " ")
			text += "    - {groupName: " + name + ", groupClusterSelector: {" + selector + "}}\n"
		}
		return text
	}
	const (
		canaries  = "canary labelSelector: {matchLabels: {canary: x}}"
		prod      = "prod labelSelector: {matchExpressions: [{key: tier, operator: In, values: [prod]}]}"
		everybody = "everybody labelSelector: {}"
		cloudy    = "cloudy claimSelector: {matchExpressions: [{key: cloud, operator: Exists}]}"
		both      = "both labelSelector: {matchLabels: {tier: prod}}, claimSelector: {matchExpressions: [{key: cloud, operator: In, values: [x]}]}"
	)
	for _, test := range []struct {
		name, spec, clusters string // a cluster is name, name:label=value or name:claim, separated by commas
		groups               string
	}{
		{"without a strategy all are one", "{}", "a b c", "0:a,b,c"},
		{"none are selected", "{}", "", "0:"},
		{"none are selected, of named groups", strategy("2", canaries), "", "0:"},

		{"a number", strategy("2"), "a b c d e", "0:a,b 1:c,d 2:e"},
		{"a number that divides them", strategy("2"), "a b c d", "0:a,b 1:c,d"},
		{"one", strategy("1"), "a b c", "0:a 1:b 2:c"},
		{"as many as there are", strategy("3"), "a b c", "0:a,b,c"},
		{"more than there are", strategy("30"), "a b c", "0:a,b,c"},
		{"zero is all", strategy("0"), "a b c", "0:a,b,c"},
		{"less than zero is all", strategy("-1"), "a b c", "0:a,b,c"},
		{"an empty text is all", strategy(`""`), "a b c", "0:a,b,c"},

		{"a percentage", strategy("40%"), "a b c d e", "0:a,b 1:c,d 2:e"},
		{"a percentage rounds up", strategy("50%"), "a b c", "0:a,b 1:c"},
		{"the smallest percentage is one cluster", strategy("1%"), "a b c", "0:a 1:b 2:c"},
		{"100%", strategy("100%"), "a b c", "0:a,b,c"},
		{"more than 100%", strategy("250%"), "a b c", "0:a,b,c"},
		{"0% is all", strategy("0%"), "a b c", "0:a,b,c"},
		{"less than 0% is all", strategy("-20%"), "a b c", "0:a,b,c"},

		{"a named group, then the rest", strategy("", canaries), "a b:canary=x c", "0/canary:b 1:a,c"},
		{"a named group of all", strategy("", everybody), "a b", "0/everybody:a,b"},
		{"a named group that nobody is in takes no number", strategy("", canaries, prod), "a b:tier=prod", "0/prod:b 1:a"},
		{"the first one that claims a cluster has it", strategy("", prod, canaries), "a:tier=prod,canary=x b:canary=x c:tier=prod", "0/prod:a,c 1/canary:b"},
		{"the other way round", strategy("", canaries, prod), "a:tier=prod,canary=x b:canary=x c:tier=prod", "0/canary:a,b 1/prod:c"},
		{"one of all leaves nothing to those after it", strategy("", everybody, canaries), "a b:canary=x", "0/everybody:a,b"},
		{"named groups are cut as well", strategy("2", canaries), "a:canary=x b c:canary=x d e f:canary=x", "0/canary:a,c 1/canary:f 2:b,d 3:e"},
		{"the percentage is of all that are selected", strategy("50%", canaries), "a:canary=x b:canary=x c:canary=x d", "0/canary:a,b 1/canary:c 2:d"},
		{"by claims", strategy("", cloudy), "a:cloud b c:cloud", "0/cloudy:a,c 1:b"},
		{"by labels and claims", strategy("", both), "a:cloud,tier=prod b:tier=prod c:cloud", "0/both:a 1:b,c"},
		{"two groups of one name", strategy("", canaries, strings.Replace(prod, "prod", "canary", 1)), "a:tier=prod b:canary=x c", "0/canary:b 1/canary:a 2:c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var selected []*clusterv1.ManagedCluster
			for _, text := range strings.Fields(test.clusters) {
				name, has, _ := strings.Cut(text, ":")
				mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
				for _, word := range strings.Split(has, ",") {
					if key, value, ok := strings.Cut(word, "="); ok {
						mc.Labels[key] = value
					} else if word != "" {
						mc.Status.ClusterClaims = append(mc.Status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: word, Value: "x"})
					}
				}
				selected = append(selected, mc)
			}
			var groups []string
			for i, g := range planOf(t, test.spec).Groups(selected) {
				require.EqualValues(t, i, g.Index)
				name := fmt.Sprint(i)
				if g.Name != "" {
					name += "/" + g.Name
				}
				groups = append(groups, name+":"+strings.Join(g.Clusters, ","))
			}
			require.Equal(t, test.groups, strings.Join(groups, " "))
		})
	}
}
