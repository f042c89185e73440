// Package manifests holds the YAML that nave ships.
package manifests

import "embed"

//go:generate go run nave/scripts/crds

// SpokeCRDs are the definitions that the agent installs on its managed cluster, as spoke/*.yaml.
//
//go:embed spoke/*.yaml
var SpokeCRDs embed.FS
