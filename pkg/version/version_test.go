package version

import (
	"bytes"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFrom(t *testing.T) {
	full := &debug.BuildInfo{
		Deps: []*debug.Module{
			{Path: kubernetesModule, Version: "v1.37.2"},
			{Path: etcdModule, Version: "v3.0.0", Replace: &debug.Module{Path: etcdModule, Version: "v3.7.3"}},
			{Path: ocmModule, Version: "v1.3.0"},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}},
	}
	dirty := *full
	dirty.Settings = append(dirty.Settings[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	tests := []struct {
		name                         string
		number                       string
		build                        *debug.BuildInfo
		version, commit, etcd, built string
	}{
		{"a release", "v1.2.3", full, "v1.2.3", "abc", "v3.7.3", "2026-01-02T03:04:05Z"},
		{"from a checkout", "", full, "v0.0.0-dev", "abc", "v3.7.3", "2026-01-02T03:04:05Z"},
		{"from a changed checkout", "", &dirty, "v0.0.0-dev", "abc-dirty", "v3.7.3", "2026-01-02T03:04:05Z"},
		{"nothing recorded", "", &debug.BuildInfo{}, "v0.0.0-dev", "unknown", "unknown", "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := from(tt.number, tt.build)
			assert.Equal(t, []string{tt.version, tt.commit, tt.etcd, tt.built}, []string{got.Version, got.Commit, got.Etcd, got.Built})
		})
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, from("v1.2.3", &debug.BuildInfo{}).Print(&out))
	assert.Contains(t, out.String(), "nave        v1.2.3\n")
	assert.Contains(t, out.String(), "kubernetes  unknown\n")
}
