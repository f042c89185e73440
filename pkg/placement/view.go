package placement

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// maxViews is how many clusters are kept as expressions see them. It is for one event that many placements look at; a
// placement that looks at all clusters does so once.
const maxViews = 64

// views makes clusters into what expressions read, once for all placements (spec 10.3, P2). Clusters that informers hold do
// not change, so that the pointer says which state of a cluster it is.
type views struct{ kept *lru.Cache }

func newViews() *views { return &views{lru.New(maxViews)} }

func (v *views) of(mc *clusterv1.ManagedCluster) (map[string]any, error) {
	if known, ok := v.kept.Get(mc); ok {
		return known.(map[string]any), nil
	}
	view, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mc)
	if err != nil {
		return nil, fmt.Errorf("cluster %s for CEL: %w", mc.Name, err)
	}
	v.kept.Add(mc, view)
	return view, nil
}
