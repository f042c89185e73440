package clusterstatus

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nave/pkg/settings"
)

func TestReport(t *testing.T) {
	hidden := map[string]string{spokeOnlyLabel: ""}
	for _, test := range []struct {
		name               string
		claims, properties []claim
		max                int
		suffixes           []string
		want               string // NAME=VALUE of each
		warnings           []string
	}{
		{"nothing", nil, nil, 20, nil, "", nil},
		{"reserved ones first, each part by name", []claim{{"b", "1", nil}, {"product.open-cluster-management.io", "2", nil}, {"a", "3", nil}, {"id.k8s.io", "4", nil}}, nil, 20, nil,
			"id.k8s.io=4 product.open-cluster-management.io=2 a=3 b=1", nil},
		{"custom ones are cut off", []claim{{"c", "1", nil}, {"b", "1", nil}, {"a", "1", nil}, {"id.k8s.io", "1", nil}}, nil, 2, nil,
			"id.k8s.io=1 a=1 b=1", []string{"CustomClusterClaimsTruncated"}},
		{"none of the custom ones", []claim{{"a", "1", nil}}, nil, 0, nil, "", []string{"CustomClusterClaimsTruncated"}},
		{"reserved endings are not cut off", []claim{{"x.shop.example", "1", nil}, {"shop.example.org", "1", nil}}, nil, 0, []string{"shop.example", ""},
			"x.shop.example=1", []string{"CustomClusterClaimsTruncated"}},
		{"a property wins", []claim{{"a", "claim", nil}, {"b", "claim", nil}}, []claim{{"a", "property", nil}}, 20, nil, "a=property b=claim", nil},
		{"some stay on the cluster", []claim{{"a", "1", hidden}, {"b", "claim", nil}}, []claim{{"b", "2", hidden}}, 20, nil, "b=claim", nil},
		{"what the hub would refuse", []claim{{"a", "", nil}, {"b", strings.Repeat("x", 1025), nil}, {strings.Repeat("c", 254), "1", nil}, {"d", strings.Repeat("x", 1024), nil}}, nil, 20, nil,
			"d=" + strings.Repeat("x", 1024), []string{"ClusterClaimNotReported", "ClusterClaimNotReported", "ClusterClaimNotReported"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := report(test.claims, test.properties, settings.Agent{MaxCustomClaims: test.max, ReservedClaimSuffixes: test.suffixes})
			var got, reasons []string
			for _, c := range r.claims {
				got = append(got, c.Name+"="+c.Value)
			}
			for _, w := range r.warnings {
				reasons = append(reasons, w.reason)
			}
			require.Equal(t, test.want, strings.Join(got, " "))
			require.Equal(t, test.warnings, reasons)
		})
	}
}
