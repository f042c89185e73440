package placement

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// Group is a decision group: clusters that are rolled out to together (spec 5.3).
type Group struct {
	Index    int32
	Name     string   // empty for those that no selector claims
	Clusters []string // in the order of names
}

// grouping is how selected clusters are divided.
type grouping struct {
	size  intstr.IntOrString
	named []namedGroup
}

type namedGroup struct {
	name string
	predicate
}

func (p *Plan) compileGroups(spec *clusterv1beta1.PlacementSpec) error {
	const plugin = "DecisionStrategy"
	from := spec.DecisionStrategy.GroupStrategy
	if _, err := groupSize(from.ClustersPerDecisionGroup, 1); err != nil {
		return misconfigured(plugin, "%s", err)
	}
	p.groups.size = from.ClustersPerDecisionGroup
	for _, g := range from.DecisionGroups {
		selector, err := compileLabels(&g.ClusterSelector.LabelSelector)
		if err != nil {
			return misconfigured(plugin, "decision group %s: %s", g.GroupName, err)
		}
		claims, err := compileClaims(g.ClusterSelector.ClaimSelector)
		if err != nil {
			return misconfigured(plugin, "decision group %s: %s", g.GroupName, err)
		}
		p.groups.named = append(p.groups.named, namedGroup{g.GroupName, predicate{labels: selector, claims: claims}})
	}
	return nil
}

// groupSize is how many of so many clusters a group has at most: a number or a percentage of them, all if that is no limit.
func groupSize(per intstr.IntOrString, total int) (int, error) {
	if per == (intstr.IntOrString{Type: intstr.String}) {
		return total, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&per, total, true)
	if err != nil {
		return 0, fmt.Errorf("clustersPerDecisionGroup: %w", err)
	}
	if n <= 0 || n > total {
		n = total
	}
	return n, nil
}

// Groups divides selected clusters, which are in the order of their names. There is always one group.
func (p *Plan) Groups(selected []*clusterv1.ManagedCluster) []Group {
	size, err := groupSize(p.groups.size, len(selected))
	if err != nil {
		size = len(selected) // it was checked when the plan was made
	}
	var all []Group
	cut := func(name string, clusters []string) {
		for len(clusters) > 0 {
			n := min(size, len(clusters))
			all = append(all, Group{Index: int32(len(all)), Name: name, Clusters: clusters[:n:n]})
			clusters = clusters[n:]
		}
	}
	rest := selected
	for i := range p.groups.named {
		g := &p.groups.named[i]
		var in []string
		var out []*clusterv1.ManagedCluster
		for _, mc := range rest {
			if g.labels.Matches(labels.Set(mc.Labels)) && g.claims.matches(mc) {
				in = append(in, mc.Name)
			} else {
				out = append(out, mc)
			}
		}
		cut(g.name, in)
		rest = out
	}
	names := make([]string, len(rest))
	for i, mc := range rest {
		names[i] = mc.Name
	}
	cut("", names)
	if len(all) == 0 {
		return []Group{{}}
	}
	return all
}
