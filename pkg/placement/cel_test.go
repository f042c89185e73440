package placement

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/yaml"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// read is an object from its YAML.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), object))
	return object
}

// compiler knows some AddOnPlacementScores, by cluster/name.
func compiler(t *testing.T, scores map[string]*clusterv1alpha1.AddOnPlacementScore) *Compiler {
	t.Helper()
	c, err := NewCompiler(func(cluster, name string) *clusterv1alpha1.AddOnPlacementScore { return scores[cluster+"/"+name] })
	require.NoError(t, err)
	return c
}

// requiring is a placement of one predicate with expressions.
func requiring(expressions ...string) *clusterv1beta1.Placement {
	var p clusterv1beta1.ClusterPredicate
	p.RequiredClusterSelector.CelSelector.CelExpressions = expressions
	return &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{p}}}
}

const harbor = `
metadata: {name: harbor, labels: {zone: a, version: 1.31.4}, annotations: {site: '{"rack": {"units": 7}}'}}
spec: {hubAcceptsClient: true}
status:
  version: {kubernetes: v1.31.4}
  allocatable: {memory: 4Gi}
  clusterClaims: [{name: kubeversion.open-cluster-management.io, value: v1.31.4}]
`

func usage() map[string]*clusterv1alpha1.AddOnPlacementScore {
	score := &clusterv1alpha1.AddOnPlacementScore{}
	score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "cpu", Value: 40}, {Name: "memory", Value: -3}}
	score.Status.ValidUntil = &metav1.Time{Time: noon().Add(-time.Hour)}
	return map[string]*clusterv1alpha1.AddOnPlacementScore{"harbor/usage": score, "other/secret": score}
}

func TestExpressions(t *testing.T) {
	c, mc := compiler(t, usage()), read[clusterv1.ManagedCluster](t, harbor)
	for _, test := range []struct {
		name        string
		expressions []string
		why         string // empty: it matches
	}{
		{"a label", []string{`managedCluster.metadata.labels["zone"] == "a"`}, ""},
		{"a label by its name", []string{`managedCluster.metadata.labels.zone in ["a", "b"]`}, ""},
		{"any label", []string{`managedCluster.metadata.labels.exists(k, k == "version" && managedCluster.metadata.labels[k].startsWith("1."))`}, ""},
		{"a regular expression", []string{`managedCluster.metadata.labels["version"].matches('^1\\.(30|31)\\.\\d+$')`}, ""},
		{"the version", []string{`semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver("1.30.0"))`}, ""},
		{"a claim", []string{`managedCluster.status.clusterClaims.exists(c, c.name == "kubeversion.open-cluster-management.io" && c.value == "v1.31.4")`}, ""},
		{"a quantity", []string{`quantity(managedCluster.status.allocatable.memory).isGreaterThan(quantity("3Gi"))`}, ""},
		{"JSON in an annotation", []string{`managedCluster.metadata.annotations["site"].parseJSON().rack.units == 7`, `parseJSON(managedCluster.metadata.annotations.site).rack.units > 6.5`}, ""},
		{"scores, also those that are over", []string{`managedCluster.scores("usage").filter(s, s.name == "cpu").all(s, s.value > 30)`}, ""},
		{"optional fields", []string{`managedCluster.metadata.?labels["none"].orValue("x") == "x" && !has(managedCluster.metadata.labels.none)`}, ""},
		{"one of two is false", []string{`true`, `managedCluster.metadata.labels.zone == "b"`}, `it does not match: expression "managedCluster.metadata.labels.zone == \"b\"" is false`},
		{"a field that is missing", []string{`managedCluster.metadata.labels.none == "b"`}, `fails: no such key: none`},
		{"scores that are missing", []string{`managedCluster.scores("none").size() == 0`}, `fails: there is no AddOnPlacementScore harbor/none`},
		{"no JSON", []string{`managedCluster.metadata.labels.zone.parseJSON() == 1`}, `fails: parseJSON: invalid character`},
		{"no bool, as it turns out", []string{`managedCluster.metadata.labels.zone`}, `gives string, not bool`},
		{"too dear", []string{`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(a, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(b, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(c, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(d, a == b && c == d))))`}, "cost limit exceeded"},
		{"what others spent counts", []string{
			strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(a, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(b, a == b)) && `, 12) + "true",
			strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(a, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(b, a == b)) && `, 12) + "true",
		}, "cost more than the limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := c.Compile(requiring(test.expressions...))
			require.NoError(t, err)
			if test.why == "" {
				require.Empty(t, plan.Why(mc, noon()))
				require.Empty(t, plan.Judge(mc, noon()).Refused)
				return
			}
			require.Equal(t, Predicate, plan.Judge(mc, noon()).Refused)
			require.Contains(t, plan.Why(mc, noon()), strings.TrimPrefix(test.why, "it does not match: "))
		})
	}
}

// TestBudgetOfAPlacement has two predicates: what the first one costs is not there for the second.
func TestBudgetOfAPlacement(t *testing.T) {
	c := compiler(t, nil)
	const dear = `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(a, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(b, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".split("").all(c, a == b && b == c)))`
	for _, test := range []struct {
		name, first string
		matches     bool
	}{
		{"the first one is false", `managedCluster.metadata.name == "x"`, true},
		{"the first one fails", `managedCluster.metadata.labels.none == "x"`, true},
		{"the first one spends everything", dear, false},
	} {
		p := requiring(test.first)
		p.Spec.Predicates = append(p.Spec.Predicates, requiring("true").Spec.Predicates...)
		plan, err := c.Compile(p)
		require.NoError(t, err)
		require.True(t, plan.HasExpressions())
		require.Equal(t, test.matches, plan.Matches(read[clusterv1.ManagedCluster](t, harbor)), test.name)
	}
}

func TestWrongExpressions(t *testing.T) {
	c := compiler(t, nil)
	for _, test := range []struct{ name, expression, message string }{
		{"syntax", `managedCluster.`, `Predicate:celSelector: expression "managedCluster.": ERROR: <input>:1:16: Syntax error`},
		{"a name that there is not", `cluster.metadata.name == "a"`, `undeclared reference to 'cluster'`},
		{"no bool", `1 + 1`, `Predicate:celSelector: expression "1 + 1": it gives int, not bool`},
		{"too long", strings.Repeat(" ", 5000) + "true", "limit of 4096"},
		{"values that double", `[1]` + strings.Repeat(`.map(a, [a, a])`, 40) + ` == [2]`, "up to 1000 times larger"},
		{"scores of another cluster", `{"metadata": {"name": "other"}}.scores("secret").size() > 0`, "scores is a function of managedCluster only"},
		{"scores of another cluster by another way", `[{"metadata": {"name": "other"}}].exists(managedCluster, managedCluster.scores("secret").size() > 0)`, "no variable but the cluster may be called managedCluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.Compile(requiring(test.expression))
			var wrong *Misconfigured
			require.ErrorAs(t, err, &wrong)
			require.Contains(t, err.Error(), test.message)
			require.Less(t, len(err.Error()), 1000)
		})
	}
	_, err := c.Compile(requiring(strings.Split(strings.Repeat("true ", maxExpressions+1), " ")[:maxExpressions+1]...))
	require.ErrorContains(t, err, "there are 33 expressions, more than the limit of 32")
}

// TestExpressionsRead: what an expression does not look at makes no difference, what it may look at does.
func TestExpressionsRead(t *testing.T) {
	c := compiler(t, nil)
	heartbeat := func(mc *clusterv1.ManagedCluster) {
		mc.ResourceVersion = "2"
		mc.Status.Conditions = []metav1.Condition{{Type: "Available"}}
	}
	zone := func(mc *clusterv1.ManagedCluster) { mc.Labels["zone"] = "b" }
	other := func(mc *clusterv1.ManagedCluster) { mc.Labels["other"] = "b" }
	none := func(mc *clusterv1.ManagedCluster) { mc.Labels = nil }
	claim := func(mc *clusterv1.ManagedCluster) { mc.Status.ClusterClaims[0].Value = "v2" }
	for _, test := range []struct {
		expression string
		changes    []func(*clusterv1.ManagedCluster)
		reads      []bool
	}{
		{`managedCluster.metadata.labels["zone"] == "a"`, []func(*clusterv1.ManagedCluster){heartbeat, zone, other, none, claim}, []bool{false, true, false, true, false}},
		{`!has(managedCluster.metadata.labels.missing)`, []func(*clusterv1.ManagedCluster){heartbeat, zone, other, none, claim}, []bool{false, false, false, true, false}},
		{`managedCluster.metadata.?labels[?"zone"].orValue("") == ""`, []func(*clusterv1.ManagedCluster){heartbeat, zone, other, none, claim}, []bool{false, true, false, true, false}},
		{`managedCluster.metadata.labels.exists(k, k == "x")`, []func(*clusterv1.ManagedCluster){heartbeat, zone, other, none, claim}, []bool{false, true, true, true, false}},
		{`managedCluster.status.clusterClaims.exists(c, c.value == "x")`, []func(*clusterv1.ManagedCluster){heartbeat, zone, none, claim}, []bool{false, false, false, true}},
		{`managedCluster[managedCluster.metadata.name] == 1`, []func(*clusterv1.ManagedCluster){heartbeat, zone, claim}, []bool{true, true, true}},
		{`managedCluster.scores("a").size() > 0`, []func(*clusterv1.ManagedCluster){heartbeat, zone, other, none, claim}, []bool{false, false, false, false, false}},
		{`[managedCluster].exists(c, c.metadata.labels.zone == "a")`, []func(*clusterv1.ManagedCluster){heartbeat, zone}, []bool{true, true}},
	} {
		t.Run(test.expression, func(t *testing.T) {
			plan, err := c.Compile(requiring(test.expression))
			require.NoError(t, err)
			before := read[clusterv1.ManagedCluster](t, harbor)
			require.False(t, plan.Reads(DifferenceOf(before, before.DeepCopy())))
			for i, change := range test.changes {
				after := before.DeepCopy()
				change(after)
				require.Equal(t, test.reads[i], plan.Reads(DifferenceOf(before, after)), "change %d", i)
			}
		})
	}
}

func TestExpressionsReadScores(t *testing.T) {
	c := compiler(t, nil)
	for expression, want := range map[string][]bool{
		`managedCluster.scores("a").size() > 0`:                          {true, false},
		`managedCluster.scores(managedCluster.metadata.name).size() > 0`: {true, true},
		`true`: {false, false},
	} {
		plan, err := c.Compile(requiring(expression))
		require.NoError(t, err)
		require.Equal(t, want, []bool{plan.ReadsScore("a"), plan.ReadsScore("b")}, expression)
	}
}
