package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type values struct {
	Listen    string
	Advertise []string
	TTL       time.Duration
	Nodes     int
	Quiet     bool
}

func flagSet() (*pflag.FlagSet, *values) {
	v := &values{}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringVar(&v.Listen, "listen", ":7443", "")
	flags.StringSliceVar(&v.Advertise, "advertise", []string{"default.example"}, "")
	flags.DurationVar(&v.TTL, "ttl", time.Hour, "")
	flags.IntVar(&v.Nodes, "nodes", 2, "")
	flags.BoolVar(&v.Quiet, "quiet", false, "")
	flags.String("data-dir", "/data", "")
	flags.String(FileFlag, "", "")
	flags.Bool("help", false, "")
	return flags, v
}

func load(t *testing.T, file string, env map[string]string, args ...string) (*values, Origins, string, error) {
	t.Helper()
	flags, v := flagSet()
	path := filepath.Join(t.TempDir(), "nave.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	require.NoError(t, flags.Parse(append([]string{"--config", path}, args...)))
	origins, err := Loader{
		Flags:   flags,
		Lookup:  func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		Foreign: map[string]string{"server": "nave agent"},
	}.Load()
	return v, origins, path, err
}

func TestPrecedence(t *testing.T) {
	defaults := values{Listen: ":7443", Advertise: []string{"default.example"}, TTL: time.Hour, Nodes: 2}
	with := func(change func(*values)) values {
		v := defaults
		change(&v)
		return v
	}
	tests := []struct {
		name   string
		file   string
		env    map[string]string
		args   []string
		want   values
		source map[string]Source
	}{
		{name: "nothing given", want: defaults, source: map[string]Source{"listen": Default}},
		{name: "only comments", file: "# listen: :1\n", want: defaults},
		{name: "an empty document", file: "---\n", want: defaults},
		{
			name: "file over default",
			file: "listen: :1\nadvertise: [a.example, 192.0.2.1]\nttl: 5m\nnodes: 7\nquiet: true\n",
			want: values{Listen: ":1", Advertise: []string{"a.example", "192.0.2.1"}, TTL: 5 * time.Minute, Nodes: 7, Quiet: true},
			source: map[string]Source{
				"listen": File, "advertise": File, "ttl": File, "nodes": File, "quiet": File, "data-dir": Default,
			},
		},
		{
			name: "a list with commas in one text",
			file: "advertise: a.example,b.example\n",
			want: with(func(v *values) { v.Advertise = []string{"a.example", "b.example"} }),
		},
		{
			name:   "environment over file",
			file:   "listen: :1\nadvertise: [file.example]\n",
			env:    map[string]string{"NAVE_LISTEN": ":2", "NAVE_ADVERTISE": "env.example"},
			want:   with(func(v *values) { v.Listen, v.Advertise = ":2", []string{"env.example"} }),
			source: map[string]Source{"listen": Environment, "advertise": Environment},
		},
		{
			name:   "command line over environment and file",
			file:   "listen: :1\nadvertise: [file.example]\n",
			env:    map[string]string{"NAVE_LISTEN": ":2", "NAVE_ADVERTISE": "env.example"},
			args:   []string{"--listen", ":3", "--advertise", "flag.example"},
			want:   with(func(v *values) { v.Listen, v.Advertise = ":3", []string{"flag.example"} }),
			source: map[string]Source{"listen": CommandLine, "advertise": CommandLine},
		},
		{
			name:   "an empty variable is none",
			env:    map[string]string{"NAVE_LISTEN": ""},
			want:   defaults,
			source: map[string]Source{"listen": Default},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, origins, _, err := load(t, tt.file, tt.env, tt.args...)
			require.NoError(t, err)
			assert.Equal(t, tt.want, *got)
			for flag, source := range tt.source {
				assert.Equal(t, source, origins[flag].Source, flag)
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	_, origins, path, err := load(t, "# first line\nlisten: :1\n", map[string]string{"NAVE_TTL": "1m"}, "--nodes=3")
	require.NoError(t, err)
	assert.Equal(t, []string{"config", "listen", "nodes", "ttl"}, origins.Names())
	assert.Equal(t, "file "+path+" line 2", origins["listen"].String())
	assert.Equal(t, "environment NAVE_TTL", origins["ttl"].String())
	assert.Equal(t, "command line --nodes", origins["nodes"].String())
	assert.Equal(t, "default", origins["quiet"].String())
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  map[string]string
		err  string // FILE stands for the path
	}{
		{"a typing error", "lsiten: :1\n", nil, "config file FILE line 1: unknown key lsiten; did you mean listen?"},
		{"another spelling", "quiet: true\nDataDir: /x\n", nil, "config file FILE line 2: unknown key DataDir; did you mean data-dir?"},
		{"a key of another command", "server: x\n", nil, "config file FILE line 1: server is a key of nave agent, not of this command; remove the line"},
		{"the file's own flag", "config: x\n", nil, "config file FILE line 1: unknown key config; did you mean nodes?"},
		{"the same key twice", "listen: :1\nttl: 1m\nlisten: :2\n", nil, "config file FILE: line 3: listen stands there already on line 1; keep one of them"},
		{"text for a number", "nodes: many\n", nil, `config file FILE line 1: nodes: "many" is not a whole number`},
		{"number for a duration", "ttl: 24\n", nil, `config file FILE line 1: ttl: "24" is not a duration such as 30s, 15m or 24h`},
		{"text for a switch", "quiet: maybe\n", nil, `config file FILE line 1: quiet: "maybe" is not true or false`},
		{"a list for one value", "nodes: [1, 2]\n", nil, "config file FILE line 1: nodes: takes one value, a whole number, not a list"},
		{"nested values", "listen: {port: 1}\n", nil, "config file FILE line 1: listen: takes a string, nothing nested"},
		{"nested in a list", "advertise:\n- a\n- [b]\n", nil, "config file FILE line 1: advertise: item on line 3 of the list is no single value"},
		{"no value", "listen:\n", nil, "config file FILE line 1: listen: has no value; write one or remove the line"},
		{"no mapping", "- listen\n", nil, `config file FILE: line 1: write one "flag: value" a line`},
		{"two documents", "listen: :1\n---\nttl: 1m\n", nil, "config file FILE: line 2: a second document begins; write everything into one"},
		{"no YAML", "listen: :1\n  ttl: 1m\n", nil, "config file FILE: yaml: line 2: mapping values are not allowed in this context"},
		{"too large", strings.Repeat("#", maxFileBytes+1), nil, "config file FILE: is larger than 1048576 bytes, which no configuration is"},
		{"a wrong variable", "", map[string]string{"NAVE_NODES": "many"}, `environment variable NAVE_NODES: "many" is not a whole number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, path, err := load(t, tt.file, tt.env)
			require.Error(t, err)
			assert.Equal(t, strings.ReplaceAll(tt.err, "FILE", path), err.Error())
		})
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	flags, _ := flagSet()
	require.NoError(t, flags.Parse([]string{"--config", "/nowhere/nave.yaml"}))
	_, err := Loader{Flags: flags, Lookup: func(string) (string, bool) { return "", false }}.Load()
	assert.EqualError(t, err, "config file /nowhere/nave.yaml: no such file or directory")
}

func TestFileFromTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nave.yaml")
	require.NoError(t, os.WriteFile(path, []byte("listen: :1\n"), 0o600))
	flags, v := flagSet()
	env := map[string]string{"NAVE_CONFIG": path}
	_, err := Loader{Flags: flags, Lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}.Load()
	require.NoError(t, err)
	assert.Equal(t, ":1", v.Listen)
}

func TestNearest(t *testing.T) {
	flags := []string{"data-dir", "listen", "advertise", "log-level"}
	tests := []struct{ name, want string }{
		{"listen", "listen"},
		{"lisetn", "listen"},
		{"data_dir", "data-dir"},
		{"LogLevel", "log-level"},
		{"advertize", "advertise"},
		{"", "listen"},
		{strings.Repeat("x", 10_000), "data-dir"},
	}
	for _, tt := range tests {
		t.Run(tt.name[:min(len(tt.name), 20)], func(t *testing.T) {
			assert.Equal(t, tt.want, Nearest(tt.name, flags))
		})
	}
	assert.Empty(t, Nearest("listen", nil))
}

func TestDefaultDataDir(t *testing.T) {
	tests := []struct {
		name string
		uid  int
		home string
		want string
	}{
		{"root", 0, "/root", "/var/lib/nave"},
		{"a user", 1000, "/home/ada", "/home/ada/.local/share/nave"},
		{"a user without a home", 1000, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, DefaultDataDir(tt.uid, tt.home)) })
	}
}
