// Package rights says what a person has to do so that an agent may do on its cluster what a work asks for. The roles that
// nave ships for agents gather every ClusterRole with AggregationLabel, so that to add one is enough (spec 7.2).
package rights

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AggregationLabel marks the ClusterRoles on a managed cluster that the agent is to have. It is upstream's.
const AggregationLabel = "open-cluster-management.io/aggregate-to-work"

// ofResource and ofGrant are how Kubernetes' authorization, and its roles' own rule that nobody gives what he has not, refuse.
// What else is forbidden, as by a quota or a policy, no role helps against.
var (
	ofResource = regexp.MustCompile(`User "[^"]*" cannot ([^ ]+) resource "([^"]+)" in API group "([^"]*)"`)
	ofGrant    = regexp.MustCompile(`is attempting to grant RBAC permissions not currently held|must have cluster-admin privileges to use the aggregationRule`)
)

// Explain adds to a Forbidden error of the managed cluster how to give the agent the role that it lacks. The error says
// itself which user may not do what with which resource. verbs are those that the agent needs for objects of the kind, so
// that one role is enough for all; a resource other than gvr's is given the verb of the error alone. Errors that no role
// helps against are returned as they are.
func Explain(err error, verbs []string, gvr schema.GroupVersionResource) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if ofGrant.MatchString(err.Error()) {
		return fmt.Errorf("%w; the agent may give only what it has itself; to let it give anything, run on the managed cluster: %s", err,
			command("nave-agent-grants", []string{"escalate", "bind"}, "roles.rbac.authorization.k8s.io,clusterroles.rbac.authorization.k8s.io"))
	}
	found := ofResource.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	verb, resource, group := found[1], found[2], found[3]
	if strings.HasPrefix(verb, "impersonate") { // newer API servers name what was to be done in an executor's name
		verb, resource, group = "impersonate", "serviceaccounts", ""
	}
	needed := []string{verb}
	if resource == gvr.Resource && group == gvr.Group {
		needed = append(slices.Clone(verbs), verb)
	}
	plain, sub, nested := strings.Cut(resource, "/")
	name := schema.GroupResource{Group: group, Resource: plain}.String()
	role := "nave-agent-" + name
	if nested {
		name, role = name+"/"+sub, role+"-"+sub
	}
	return fmt.Errorf("%w; to let the agent do it, run on the managed cluster: %s", err, command(role, unique(needed), name))
}

// command makes a role and has it gathered into the agent's.
func command(role string, verbs []string, resources string) string {
	return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=%[2]s --resource=%[3]s && kubectl label clusterrole %[1]s %[4]s=true",
		role, strings.Join(verbs, ","), resources, AggregationLabel)
}

// unique drops what is there already, and keeps the order.
func unique(all []string) []string {
	var kept []string
	for _, one := range all {
		if !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}
