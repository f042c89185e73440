package clusterstatus

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"

	"nave/pkg/settings"
)

const (
	// spokeOnlyLabel keeps a claim or property on the managed cluster.
	spokeOnlyLabel = "open-cluster-management.io/spoke-only"

	// maxClaimName and maxClaimValue are the hub's; one claim beyond them would make it refuse the whole status.
	maxClaimName  = 253
	maxClaimValue = 1024
)

// claim is what the managed cluster says of itself under a name: a ClusterClaim or a ClusterProperty.
type claim struct {
	name, value string
	labels      map[string]string
}

// reported are the claims for the hub, and what people should know of those that are missing.
type reported struct {
	claims   []clusterv1.ManagedClusterClaim
	warnings []warning
}

// warning is an event about claims.
type warning struct{ reason, message string }

// report chooses the claims for the hub: properties win over claims of the same name, reserved names are always there, and
// of the others the first by name (spec 2.4).
func report(claims, properties []claim, s settings.Agent) reported {
	var r reported
	var reserved, custom []clusterv1.ManagedClusterClaim
	for _, c := range merged(claims, properties) {
		if why := unfit(c); why != "" {
			r.warnings = append(r.warnings, warning{"ClusterClaimNotReported", fmt.Sprintf("Cluster claim %.*s is not reported: %s.", maxClaimName, c.name, why)})
			continue
		}
		entry := clusterv1.ManagedClusterClaim{Name: c.name, Value: c.value}
		if isReserved(c.name, s.ReservedClaimSuffixes) {
			reserved = append(reserved, entry)
		} else {
			custom = append(custom, entry)
		}
	}
	limit := max(s.MaxCustomClaims, 0)
	if n := len(custom); n > limit {
		custom = custom[:limit]
		r.warnings = append(r.warnings, warning{"CustomClusterClaimsTruncated", fmt.Sprintf(
			"%d cluster claims are found. It exceeds the max number of custom cluster claims (%d). %d custom cluster claims are not exposed.",
			n, limit, n-limit)})
	}
	r.claims = append(reserved, custom...)
	return r
}

// merged are those that may leave the cluster, by name, each name once.
func merged(claims, properties []claim) []claim {
	var all []claim
	seen := sets.New[string]()
	for _, c := range slices.Concat(properties, claims) {
		if _, hidden := c.labels[spokeOnlyLabel]; !hidden && !seen.Has(c.name) {
			seen.Insert(c.name)
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b claim) int { return strings.Compare(a.name, b.name) })
	return all
}

func isReserved(name string, suffixes []string) bool {
	return slices.Contains(clusterv1alpha1.ReservedClusterClaimNames[:], name) ||
		slices.ContainsFunc(suffixes, func(suffix string) bool { return suffix != "" && strings.HasSuffix(name, suffix) })
}

// unfit says why the hub would not take a claim. A property may be longer than a claim.
func unfit(c claim) string {
	switch {
	case c.value == "":
		return "it has no value"
	case len(c.name) > maxClaimName:
		return fmt.Sprintf("its name has %d characters, the limit is %d", len(c.name), maxClaimName)
	case len(c.value) > maxClaimValue:
		return fmt.Sprintf("its value has %d characters, the limit is %d", len(c.value), maxClaimValue)
	}
	return ""
}
