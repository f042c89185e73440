package placement

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
)

// predicate is one of the predicates of a placement, of which a cluster has to match any.
type predicate struct {
	labels labels.Selector
	claims claimSelector
	cel    *celSelector // nil: none
}

func (c *Compiler) compilePredicates(p *Plan, spec *clusterv1beta1.PlacementSpec) error {
	for _, from := range spec.Predicates {
		required := from.RequiredClusterSelector
		selector, err := compileLabels(&required.LabelSelector)
		if err != nil {
			return misconfigured(string(Predicate), "%s", err)
		}
		claims, err := compileClaims(required.ClaimSelector)
		if err != nil {
			return misconfigured(string(Predicate), "%s", err)
		}
		expressions, err := c.compileCEL(required.CelSelector.CelExpressions)
		if err != nil {
			return misconfigured(string(Predicate), "%s", err)
		}
		p.predicates = append(p.predicates, predicate{labels: selector, claims: claims, cel: expressions})
	}
	return nil
}

func compileLabels(selector *metav1.LabelSelector) (labels.Selector, error) {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	return compiled, nil
}

// Matches tells whether a cluster matches any of the predicates; without one, every cluster does. That holds until the
// cluster changes, or a score that the plan reads.
func (p *Plan) Matches(mc *clusterv1.ManagedCluster) bool {
	budget := newBudget()
	for i := range p.predicates {
		if p.predicates[i].matches(mc, budget) {
			return true
		}
	}
	return len(p.predicates) == 0
}

// HasExpressions tells whether Matches evaluates expressions, which may take it a hundredth of a second.
func (p *Plan) HasExpressions() bool {
	return slices.ContainsFunc(p.predicates, func(by predicate) bool { return by.cel != nil })
}

func (p *predicate) matches(mc *clusterv1.ManagedCluster, budget *budget) bool {
	return p.labels.Matches(labels.Set(mc.Labels)) && p.claims.matches(mc) && p.refusedByCEL(mc, budget) == ""
}

// refusedByCEL tells why expressions are not true of a cluster, empty if they are or there is none.
func (p *predicate) refusedByCEL(mc *clusterv1.ManagedCluster, budget *budget) string {
	if p.cel == nil {
		return ""
	}
	view, err := p.cel.view.of(mc)
	if err != nil {
		return err.Error()
	}
	return p.cel.refuses(view, budget)
}

// whyNoMatch says for each predicate what about the cluster it does not match.
func (p *Plan) whyNoMatch(mc *clusterv1.ManagedCluster) string {
	reasons := make([]string, 0, len(p.predicates))
	budget := newBudget()
	for i := range p.predicates {
		reason := p.predicates[i].why(mc, budget)
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return strings.Join(reasons, "; and ")
}

// why names the first requirement that a cluster does not meet.
func (p *predicate) why(mc *clusterv1.ManagedCluster, budget *budget) string {
	requirements, _ := p.labels.Requirements()
	for _, r := range requirements {
		if !r.Matches(labels.Set(mc.Labels)) {
			return unmet("label", r, mc.Labels)
		}
	}
	claims := claimsOf(mc)
	for _, r := range p.claims {
		if !r.Matches(claims) {
			return unmet("claim", r, claims)
		}
	}
	return p.refusedByCEL(mc, budget)
}

func unmet(what string, r labels.Requirement, have labels.Set) string {
	value, ok := have[r.Key()]
	if !ok {
		return fmt.Sprintf("it has no %s %s, and %s is required", what, r.Key(), r.String())
	}
	return fmt.Sprintf("its %s %s is %q, and %s is required", what, r.Key(), value, r.String())
}

// claimSelector requires claims of a cluster as a label selector does labels.
type claimSelector []labels.Requirement

func compileClaims(from clusterv1beta1.ClusterClaimSelector) (claimSelector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: from.MatchExpressions})
	if err != nil {
		return nil, fmt.Errorf("claimSelector: %w", err)
	}
	requirements, _ := selector.Requirements()
	return claimSelector(requirements), nil
}

func (s claimSelector) matches(mc *clusterv1.ManagedCluster) bool {
	return len(s) == 0 || s.match(claimsOf(mc))
}

func (s claimSelector) match(claims labels.Set) bool {
	for i := range s {
		if !s[i].Matches(claims) {
			return false
		}
	}
	return true
}

func claimsOf(mc *clusterv1.ManagedCluster) labels.Set {
	claims := make(labels.Set, len(mc.Status.ClusterClaims))
	for _, claim := range mc.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	return claims
}
