// Package arch keeps the rules about who may import whom (design section 3), and a few about what code may not contain
// where. A rule without a test is a wish.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "nave/"

// anywhere may be imported by every package: they know nothing of what nave does.
var anywhere = []string{"pkg/log", "pkg/version", "pkg/reconcile", "pkg/identity", "pkg/live", "pkg/settings", "pkg/metrics", "pkg/jsonpath", "pkg/expression", "manifests"}

// allowed says, for a package or all packages below a folder, what else of ours it may import.
var allowed = map[string][]string{
	"cmd":             {"pkg/cli"},
	"pkg/cli":         {"pkg/config", "pkg/pki", "pkg/hub", "pkg/agent", "pkg/agentstate", "pkg/lab", "pkg/token", "pkg/workload", "pkg/placement", "pkg/rollout", "pkg/replicas"},
	"pkg/workload":    {"pkg/workspec", "pkg/replicas", "pkg/rollout"},
	"pkg/workspec":    {},
	"pkg/config":      {},
	"pkg/hub":         {"pkg/lifecycle", "pkg/store", "pkg/apiserver", "pkg/controller", "pkg/datadir", "pkg/pki", "pkg/footprint"},
	"pkg/agent":       {"pkg/lifecycle", "pkg/operator", "pkg/spoke", "pkg/agentstate", "pkg/uplink", "pkg/datadir", "pkg/footprint"},
	"pkg/lab":         {"pkg/lab", "pkg/pki", "pkg/store"},
	"pkg/apiserver":   {"pkg/api", "pkg/store", "pkg/token"},
	"pkg/api":         {"pkg/api"},
	"pkg/controller":  {"pkg/token", "pkg/pki", "pkg/operator", "pkg/membership", "pkg/placement", "pkg/rollout", "pkg/replicas"},
	"pkg/operator":    {},
	"pkg/membership":  {},
	"pkg/placement":   {},
	"pkg/rollout":     {},
	"pkg/replicas":    {"pkg/rollout"},
	"pkg/spoke":       {"pkg/token", "pkg/pki", "pkg/operator", "pkg/agentstate", "pkg/certrequest", "pkg/uplink", "pkg/workspec"},
	"pkg/store":       {},
	"pkg/reconcile":   {},
	"pkg/pki":         {},
	"pkg/token":       {},
	"pkg/identity":    {},
	"pkg/lifecycle":   {},
	"pkg/log":         {},
	"pkg/version":     {},
	"pkg/live":        {},
	"pkg/settings":    {},
	"pkg/metrics":     {},
	"pkg/agentstate":  {},
	"pkg/certrequest": {},
	"pkg/uplink":      {"pkg/agentstate"},
	"pkg/datadir":     {},
	"pkg/jsonpath":    {},
	"pkg/expression":  {},
	"pkg/footprint":   {},
	"manifests":       {},
	"scripts":         {},
	"test":            {"pkg/lab", "pkg/store", "pkg/apiserver", "pkg/pki", "test/crowd", "test/hubtest"},
	"test/hubtest":    {"pkg/hub"},
	"test/crowd":      {"pkg/spoke", "pkg/agentstate", "pkg/token", "pkg/uplink"},
}

// alone are packages that import nothing of ours at all, but for the names of log fields.
var alone = []string{"pkg/pki", "pkg/token", "pkg/identity", "pkg/version", "pkg/datadir", "pkg/footprint", "pkg/live", "pkg/settings", "pkg/agentstate", "pkg/jsonpath", "pkg/expression", "pkg/workspec"}

// forbidden says why a package may not import another one, or nothing if it may. Paths are without the module.
func forbidden(from, to string) string {
	rule := ""
	for folder := range allowed {
		if below(from, folder) && len(folder) > len(rule) {
			rule = folder
		}
	}
	if rule == "" {
		return fmt.Sprintf("%s has no row in this test; add one, with as little as it needs", from)
	}
	for _, folder := range alone {
		if below(from, folder) {
			return fmt.Sprintf("%s stands alone, it may not import %s", from, to)
		}
	}
	if below(to, from) {
		return "" // a part of its own
	}
	// A loop never imports another loop; pieces that two need belong below both.
	for _, folder := range []string{"pkg/controller", "pkg/spoke"} {
		if below(from, folder) && below(to, folder) {
			return fmt.Sprintf("%s may not import another loop, %s", from, to)
		}
	}
	for _, folder := range append(anywhere, allowed[rule]...) {
		if below(to, folder) {
			return ""
		}
	}
	return fmt.Sprintf("%s may not import %s", from, to)
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func TestForbidden(t *testing.T) {
	for _, test := range []struct {
		from, to string
		ok       bool
	}{
		{"pkg/hub", "pkg/controller/acceptance", true},
		{"pkg/hub", "pkg/agent", false},
		{"pkg/agent", "pkg/hub", false},
		{"pkg/agent", "pkg/apiserver", false},
		{"pkg/controller/acceptance", "pkg/reconcile", true},
		{"pkg/controller/acceptance", "pkg/controller/approval", false},
		{"pkg/spoke/work", "pkg/spoke/registration", false},
		{"pkg/spoke/work", "pkg/spoke/work/feedback", true},
		{"pkg/spoke/work/feedback", "pkg/spoke/work", false},
		{"pkg/spoke/work", "pkg/controller/approval", false},
		{"pkg/token", "pkg/log", false},
		{"pkg/api", "pkg/api/schema", true},
		{"pkg/api", "pkg/apiserver", false},
		{"pkg/new", "pkg/log", false},
		{"pkg/hubble", "pkg/log", false},
	} {
		require.Equal(t, test.ok, forbidden(test.from, test.to) == "", "%s -> %s", test.from, test.to)
	}
}

type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", module+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if to, ours := strings.CutPrefix(imported, module); ours {
				if why := forbidden(strings.TrimPrefix(p.ImportPath, module), to); why != "" {
					t.Error(why)
				}
			}
		}
	}
}

// TestCode finds what only main may do, and what nobody may.
func TestCode(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		program := below(path, "cmd") || below(path, "scripts") || below(path, "test")
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, why := range faults(t, file, text, program) {
				t.Error(why)
			}
		}
	}
}

func faults(t *testing.T, name string, text []byte, program bool) []string {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				found = append(found, fmt.Sprintf("%s: init runs before anyone asked for it", files.Position(n.Pos())))
			}
		case *ast.SelectorExpr:
			call := fmt.Sprint(n.X) + "." + n.Sel.Name
			if !program && (call == "os.Exit" || strings.HasPrefix(call, "log.Fatal") || strings.HasPrefix(call, "logrus.Fatal")) {
				found = append(found, fmt.Sprintf("%s: %s ends the process with nothing closed; return the error", files.Position(n.Pos()), call))
			}
		}
		return true
	})
	return found
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name, text string
		program    bool
		want       int
	}{
		{"init", "package p\nfunc init() {}", false, 1},
		{"method of that name", "package p\ntype t int\nfunc (t) init() {}", false, 0},
		{"exit in a library", "package p\nimport \"os\"\nfunc f() { os.Exit(1) }", false, 1},
		{"exit in a program", "package p\nimport \"os\"\nfunc f() { os.Exit(1) }", true, 0},
		{"fatal", "package p\nimport \"log\"\nfunc f() { log.Fatalf(\"\") }", false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Len(t, faults(t, "p.go", []byte(test.text), test.program), test.want)
		})
	}
}
