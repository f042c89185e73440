// Package version says what this binary is and what is built into it.
package version

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"text/tabwriter"
)

// number is the release, set by the linker (-X nave/pkg/version.number=…), since the module's own version is known only
// to those who build it as a dependency.
var number string

// development is the version of a binary that was built from a checkout.
const development = "v0.0.0-dev"

// Modules whose versions a person asks for: they decide what the hub's API can do.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	ocmModule        = "open-cluster-management.io/api"
)

// Info describes a binary. Fields that cannot be known are "unknown".
type Info struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`     // git revision, with "-dirty" if the tree had changes
	Built      string `json:"built"`      // time of the commit, RFC 3339, so that the same source gives the same binary
	Go         string `json:"go"`         // version of the compiler
	Platform   string `json:"platform"`   // operating system/architecture
	Kubernetes string `json:"kubernetes"` // embedded control plane and kubectl
	Etcd       string `json:"etcd"`       // embedded store
	OCM        string `json:"ocm"`        // Open Cluster Management API
}

// Current describes the running binary.
func Current() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return from(number, build)
}

func from(number string, build *debug.BuildInfo) Info {
	i := Info{
		Version:    number,
		Commit:     setting(build, "vcs.revision"),
		Built:      setting(build, "vcs.time"),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: module(build, kubernetesModule),
		Etcd:       module(build, etcdModule),
		OCM:        module(build, ocmModule),
	}
	if i.Version == "" {
		i.Version = development
	}
	if setting(build, "vcs.modified") == "true" {
		i.Commit += "-dirty"
	}
	return i
}

// unknown stands for what the build did not record.
const unknown = "unknown"

func setting(build *debug.BuildInfo, key string) string {
	for _, s := range build.Settings {
		if s.Key == key && s.Value != "" {
			return s.Value
		}
	}
	return unknown
}

func module(build *debug.BuildInfo, path string) string {
	for _, m := range build.Deps {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			return m.Replace.Version
		}
		return m.Version
	}
	return unknown
}

// Print writes the description for a person, one fact a line.
func (i Info) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"nave", i.Version},
		{"commit", i.Commit},
		{"built", i.Built},
		{"go", i.Go},
		{"platform", i.Platform},
		{"kubernetes", i.Kubernetes},
		{"etcd", i.Etcd},
		{"ocm api", i.OCM},
	} {
		// Errors of a tabwriter all come back from Flush.
		_, _ = fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
	}
	return table.Flush()
}
