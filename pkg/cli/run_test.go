package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

func run(t *testing.T, env map[string]string, arguments ...string) (out, errOut string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), arguments, Streams{
		Out: &stdout, Err: &stderr,
		Lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
	return stdout.String(), stderr.String(), code
}

// TestRefused runs what cannot work: one line each, that says what and on what, and the right code.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	typo := filepath.Join(dir, "typo.yaml")
	require.NoError(t, os.WriteFile(typo, []byte("lsiten: :1\n"), 0o600))
	other := filepath.Join(dir, "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("server: https://hub\n"), 0o600))
	object := filepath.Join(dir, "object.yaml")
	require.NoError(t, os.WriteFile(object, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"), 0o600))
	for _, test := range []struct {
		name      string
		env       map[string]string
		arguments string
		code      int
		want      string
	}{
		{"unknown command", nil, "frob", exitUsage, `unknown command "frob"`},
		{"unknown command below another", nil, "token frob", exitUsage, `unknown command "frob"`},
		{"unknown flag", nil, "hub --frob", exitUsage, "--frob"},
		{"argument too many", nil, "hub extra", exitUsage, "takes no arguments"},
		{"no cluster named", nil, "cluster accept", exitUsage, "takes the names of clusters"},
		{"the agent's flag", nil, "hub --server x", exitUsage, `flag --server belongs to "nave agent"`},
		{"the hub's flag", nil, "agent --listen x", exitUsage, `flag --listen belongs to "nave hub"`},
		{"a typing error in the file", nil, "hub --config " + typo, exitUsage, "unknown key lsiten; did you mean listen?"},
		{"the agent's key in the file", nil, "hub --config " + other, exitUsage, "server is a key of nave agent"},
		{"no such file", nil, "hub --config /nowhere.yaml", exitUsage, "config file /nowhere.yaml"},
		{"a wrong variable", map[string]string{"NAVE_TTL": "soon"}, "token create", exitUsage, "NAVE_TTL"},
		{"a token that never lives", nil, "token create --ttl -1h", exitUsage, "--ttl -1h"},
		{"a name that no cluster has", nil, "token create --cluster A_B", exitUsage, "--cluster A_B"},
		{"two tokens", nil, "agent --token a --token-file b", exitUsage, "--token-file"},
		{"a token without a hub", nil, "agent --token a", exitUsage, "--server"},
		{"no token file", nil, "agent --server https://hub --token-file /nowhere", exitFailure, "/nowhere"},
		{"certificates of agents that end at once", nil, "hub --agent-certificate-lifetime 1s --data-dir " + dir, exitUsage, "--agent-certificate-lifetime 1s is less than 10m0s"},
		{"works larger than can be kept", nil, "hub --work-size-limit 3MiB --data-dir " + dir, exitUsage, "--work-size-limit: 3145728 bytes of manifests in one work are not between 1 and 2097152"},
		{"works without a size", nil, "hub --work-size-limit 0 --data-dir " + dir, exitUsage, "--work-size-limit: 0 bytes"},
		{"a limit that is no size", nil, "hub --work-size-limit large --data-dir " + dir, exitUsage, `"large" is no size such as 500KiB`},
		{"no certificates", nil, "certificate check --data-dir " + dir, exitFailure, "neither a hub nor an agent"},
		{"log level", nil, "hub --log-level loud --data-dir " + dir, exitUsage, `"loud"`},
		{"works of no cluster", nil, "work list", exitUsage, "-A for those of all"},
		{"works of one and all clusters", nil, "work list -A --cluster c1", exitUsage, "-A for those of all"},
		{"the state of no work", nil, "work status --cluster c1", exitUsage, "takes the name of a work"},
		{"the state of a work of no cluster", nil, "work status app", exitUsage, "--cluster NAME"},
		{"nothing to apply", nil, "work apply --cluster c1", exitUsage, "-f FILE"},
		{"nothing to apply it from", nil, "work apply --cluster c1 -f /nowhere.yaml", exitFailure, "/nowhere.yaml"},
		{"a strategy that is none", nil, "work apply --cluster c1 -f /x --strategy Replace", exitUsage, "Update CreateOnly ServerSideApply ReadOnly"},
		{"a size that is none", nil, "work apply --cluster c1 -f /x --max-size much", exitUsage, "--max-size"},
		{"a wait that is none", nil, "work apply --cluster c1 -f /x --wait=soon", exitUsage, "as in 30s"},
		{"a dry run that is none", nil, "work apply --cluster c1 -f " + object + " --dry-run=perhaps", exitUsage, "none, client or server"},
		{"a name that is none", nil, "work apply --cluster c1 -f " + object + " --name A_B", exitUsage, `name "A_B"`},
		{"no work to delete", nil, "work delete --cluster c1", exitUsage, "takes the names of works"},
		{"differences of nothing", nil, "work diff --cluster c1", exitUsage, "either the name of one work"},
		{"differences on two clusters", nil, "work diff app --cluster c1,c2", exitUsage, "name one with --cluster"},
		{"differences without a hub", nil, "work diff --cluster c1 -f " + object + " --data-dir " + dir, exitDiffError, "--data-dir"},
		{"placements in a form that is none", nil, "placement list -o yaml", exitUsage, "it is json"},
		{"no placement to explain", nil, "placement explain", exitUsage, "takes the name of a placement"},
		{"a limit below none", nil, "placement explain app --limit -1", exitUsage, "0 shows all"},
		{"fewer clusters than none", nil, "placement create app --count -1", exitUsage, "--count -1 is negative"},
		{"a label that is none", nil, "placement create app --labels region", exitUsage, "--labels"},
		{"a name that no placement can have", nil, "placement create Till_1", exitUsage, `the name "Till_1"`},
		{"a namespace that cannot be", nil, "placement create app -n Shops_", exitUsage, `--namespace "Shops_"`},
		{"a label that cannot be", nil, "placement create app --labels region=e/u", exitUsage, "--labels"},
		{"groups of many", nil, "placement create app --clusters-per-group many", exitUsage, "neither a number from 1 nor a percentage"},
		{"groups of none", nil, "placement create app --clusters-per-group 0", exitUsage, "neither a number from 1 nor a percentage"},
		{"groups of more than all", nil, "placement create app --clusters-per-group 200%", exitUsage, "neither a number from 1 nor a percentage"},
		{"a placement tried somehow", nil, "placement create app --dry-run=perhaps", exitUsage, "none, client or server"},
		{"a new placement in a form that is none", nil, "placement create app -o json", exitUsage, "it is yaml"},
		{"works of nothing", nil, "work apply -f /x", exitUsage, "say --cluster NAME or --placement NAME"},
		{"works of two placements", nil, "work apply -f /x --placement a,b", exitUsage, "it is one name"},
		{"a work to delete somewhere", nil, "work delete app", exitUsage, "--cluster NAME, or --replica-set"},
		{"works of a cluster and a placement", nil, "work apply -f /x --cluster c1 --placement p", exitUsage, "not both"},
		{"a rollout that is none", nil, "work apply -f /x --placement p --rollout slowly", exitUsage, "all, progressive or progressive-per-group"},
		{"a rollout without a placement", nil, "work apply -f /x --cluster c1 --max-failures 1", exitUsage, "--max-failures is for --placement"},
		{"failures of everything at once", nil, "work apply -f /x --placement p --max-failures 1", exitUsage, "not for --rollout all"},
		{"a share that is none", nil, "work apply -f /x --placement p --rollout progressive --max-concurrency many", exitUsage, "neither a number nor a percentage"},
		{"a canary of everything at once", nil, "work apply -f /x --placement p --mandatory-groups canary", exitUsage, "not for --rollout all; say --rollout progressive"},
		{"a canary of a cluster", nil, "work apply -f /x --cluster c1 --mandatory-groups canary", exitUsage, "--mandatory-groups is for --placement"},
		{"less than none at a time", nil, "work apply -f /x --placement p --rollout progressive --max-concurrency=-1", exitUsage, "--max-concurrency -1 is negative"},
		{"late at once", nil, "work apply -f /x --placement p --progress-deadline 0s", exitUsage, "leave it out for none"},
		{"one at a time, by groups", nil, "work apply -f /x --placement p --rollout progressive-per-group --max-concurrency 1", exitUsage, "a decision group at a time"},
		{"a replica set on one cluster", nil, "work delete app --replica-set --cluster c1", exitUsage, "not for --replica-set"},
		{"no rollout", nil, "work rollout pause", exitUsage, "takes the name of a replica set"},
		{"placements of no hub", nil, "placement list --data-dir " + dir, exitFailure, "--data-dir"},
		{"no hub", nil, "token list --data-dir " + dir, exitFailure, "--data-dir"},
		{"no lab", nil, "lab status --data-dir " + dir, exitFailure, "not a lab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, errOut, code := run(t, test.env, strings.Fields(test.arguments)...)
			assert.Equal(t, test.code, code, errOut)
			assert.Contains(t, errOut, test.want)
			assert.Empty(t, out)
			assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
		})
	}
}

// TestRender prints works without a hub.
func TestRender(t *testing.T) {
	file := filepath.Join(t.TempDir(), "My App.yaml")
	require.NoError(t, os.WriteFile(file, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"), 0o600))
	out, errOut, code := run(t, nil, "work", "apply", "-f", file, "--cluster", "c2,c1", "--dry-run=client", "--strategy=ReadOnly")
	require.Zero(t, code, errOut)
	require.Equal(t, 2, strings.Count(out, "kind: ManifestWork\n"))
	for _, want := range []string{"  name: my-app\n  namespace: c1\n", "  namespace: c2\n", "      type: ReadOnly\n", "      kind: ConfigMap\n"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "status")
}

// TestRenderReplicaSet prints a replica set without a hub.
func TestRenderReplicaSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.yaml")
	require.NoError(t, os.WriteFile(file, []byte("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {volumes: [{name: v, emptyDir: {}}]}}\n"), 0o600))
	out, errOut, code := run(t, nil, "work", "apply", "-f", file, "--placement", "p", "-n", "shops", "--rollout", "progressive", "--mandatory-groups", "canary", "--dry-run=client")
	require.Zero(t, code, errOut)
	for _, want := range []string{"kind: ManifestWorkReplicaSet\n", "  name: app\n  namespace: shops\n", "groupName: canary\n", "emptyDir: {}\n"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "status")
}

// TestRenderPlacement prints a placement and what it needs without a hub.
func TestRenderPlacement(t *testing.T) {
	out, errOut, code := run(t, nil, "placement", "create", "app", "-n", "shops", "--set", "eu", "--labels", "a=b", "--count", "0", "--clusters-per-group", "25%", "--dry-run=client")
	require.Zero(t, code, errOut)
	require.Equal(t, `---
apiVersion: v1
kind: Namespace
metadata:
  name: shops
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata:
  name: eu
  namespace: shops
spec:
  clusterSet: eu
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: app
  namespace: shops
spec:
  clusterSets:
  - eu
  decisionStrategy:
    groupStrategy:
      clustersPerDecisionGroup: 25%
  numberOfClusters: 0
  predicates:
  - requiredClusterSelector:
      labelSelector:
        matchLabels:
          a: b
`, out)
	out, errOut, code = run(t, nil, "placement", "create", "app", "--dry-run=client", "-o", "yaml")
	require.Zero(t, code, errOut)
	require.NotContains(t, out, "kind: Namespace", "the namespace default is there")
	require.Contains(t, out, "      clustersPerDecisionGroup: 100%\n")
}

func TestWaiting(t *testing.T) {
	for text, want := range map[string]waiting{
		"true": {true, workTimeout}, "false": {false, workTimeout}, "30s": {true, 30 * time.Second},
	} {
		w := waiting{timeout: workTimeout}
		require.NoError(t, w.Set(text))
		require.Equal(t, want, w, text)
	}
	require.Error(t, (&waiting{}).Set("-3s"))
}

type coded int

func (c coded) Error() string { return "coded" }
func (c coded) ExitCode() int { return int(c) }

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want int
	}{
		{"plain", errors.New("x"), exitFailure},
		{"usage", fmt.Errorf("wrapped: %w", usageError{errors.New("x")}), exitUsage},
		{"with its own code", fmt.Errorf("wrapped: %w", coded(7)), 7},
		{"joined with another", errors.Join(errors.New("x"), coded(3)), 3},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, exitCode(test.err)) })
	}
}

func TestVersion(t *testing.T) {
	out, errOut, code := run(t, nil, "version")
	assert.Zero(t, code)
	assert.Empty(t, errOut)
	assert.Contains(t, out, "kubernetes")
}

func TestSplitKubectl(t *testing.T) {
	for _, test := range []struct {
		arguments, rest, dir string
		named                bool
	}{
		{"get ns", "get ns", "", false},
		{"get ns --data-dir /d", "get ns", "/d", false},
		{"--data-dir=/d get ns", "get ns", "/d", false},
		{"get ns --kubeconfig=/k", "get ns --kubeconfig=/k", "", true},
		{"exec p -- sh --data-dir /d --kubeconfig /k", "exec p -- sh --data-dir /d --kubeconfig /k", "", false},
		{"get ns --data-dir", "get ns --data-dir", "", false},
	} {
		t.Run(test.arguments, func(t *testing.T) {
			rest, dir, named := splitKubectl(strings.Fields(test.arguments))
			assert.Equal(t, test.rest, strings.Join(rest, " "))
			assert.Equal(t, test.dir, dir)
			assert.Equal(t, test.named, named)
		})
	}
}

func TestStateOf(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status}}
	}
	for _, test := range []struct {
		want       string
		accepted   bool
		conditions []metav1.Condition
	}{
		{"pending", false, nil},
		{"accepted", true, condition(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionTrue)},
		{"joined", true, condition(clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)},
		{"rejected", false, condition(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse)},
	} {
		t.Run(test.want, func(t *testing.T) {
			c := &clusterv1.ManagedCluster{}
			c.Spec.HubAcceptsClient, c.Status.Conditions = test.accepted, test.conditions
			assert.Equal(t, test.want, stateOf(c))
		})
	}
}
