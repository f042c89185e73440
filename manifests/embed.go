// Package manifests holds the YAML that nave ships.
package manifests

import "embed"

//go:generate go run nave/scripts/crds

// HubCRDs are the definitions that the hub installs in itself, as hub/*.yaml. Upstream's tools look for them as such.
//
//go:embed hub/*.yaml
var HubCRDs embed.FS

// InventoryCRDs are the definitions of the inventory of clusters, as inventory/*.yaml. The hub installs them while the
// gate ClusterProfile is on.
//
//go:embed inventory/*.yaml
var InventoryCRDs embed.FS

// SpokeCRDs are the definitions that the agent installs on its managed cluster, as spoke/*.yaml.
//
//go:embed spoke/*.yaml
var SpokeCRDs embed.FS
