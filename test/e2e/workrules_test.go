package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
)

// fleet is a deployment whose second container somebody else may care for.
func fleet(name string, replicas int, image string) string {
	return fmt.Sprintf(`
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: %[1]s, namespace: default}
    spec:
      replicas: %[2]d
      selector: {matchLabels: {app: %[1]s}}
      template:
        metadata: {labels: {app: %[1]s}}
        spec: {containers: [{name: main, image: %[3]q}, {name: side, image: "example.test/side:1"}]}`, name, replicas, image)
}

func (b *bench) deployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	return b.spokes[first].AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
}

// patch changes an object of the first cluster as somebody there would.
func (b *bench) patchDeployment(t *testing.T, ctx context.Context, name, patch string) {
	t.Helper()
	_, err := b.spokes[first].AppsV1().Deployments("default").Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(t, err)
}

// values fails until these are the values that a manifest reports, as JSON of names and values.
func (b *bench) values(ctx context.Context, work string, ordinal int, want map[string]string) error {
	w, err := b.work(ctx, work)
	if err != nil {
		return err
	}
	m, err := manifestAt(w, ordinal)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, v := range m.StatusFeedbacks.Values {
		text, err := json.Marshal(v.Value)
		if err != nil {
			return err
		}
		got[v.Name] = string(text)
	}
	for name, value := range want {
		if !strings.Contains(got[name], value) || len(got) != len(want) {
			return fmt.Errorf("the values are %v, not %v", got, want)
		}
	}
	return nil
}

// Values of a workload follow it; those that cannot be had are named, and cost no others.
func TestFeedbackFollows(t *testing.T) {
	b, ctx := start(t)
	spec := func(replicas int) string {
		return "workload:\n  manifests:" + fleet("rules-values", replicas, "example.test/main:1") + `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: default, name: rules-values}
  feedbackScrapeType: Watch
  feedbackRules:
  - type: WellKnownStatus
  - type: JSONPaths
    jsonPaths:
    - {name: image, path: '.spec.template.spec.containers[?(@.name=="side")].image'}
    - {name: Replicas, path: .spec.replicas}
    - {name: template, path: .spec.template}
    - {name: elsewhere, version: v2, path: .spec.replicas}
    - {name: broken, path: '.spec['}
    - {name: missing, path: .status.missing}
`
	}
	for _, replicas := range []int{1, 3} {
		b.apply(t, ctx, "rules-values", spec(replicas))
		n := fmt.Sprint(`"integer":`, replicas)
		eventually(t, ctx, fmt.Sprintf("%d replicas are reported", replicas), func() error {
			return b.values(ctx, "rules-values", 0, map[string]string{"ReadyReplicas": n, "Replicas": n, "AvailableReplicas": n, "image": "example.test/side:1"})
		})
		work, err := b.work(ctx, "rules-values")
		require.NoError(t, err)
		c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, "StatusFeedbackSynced")
		require.Equal(t, metav1.ConditionFalse, c.Status)
		for _, part := range []string{"value Replicas at path .spec.replicas: another value has this name", "value template", "RawFeedbackJsonString", "value elsewhere", "version v2", "value broken at path .spec["} {
			require.Contains(t, c.Message, part)
		}
		require.NotContains(t, c.Message, "missing")
		require.NoError(t, b.appliedAndAvailable(ctx, first, "rules-values"))
	}
}

// Rules make conditions of manifests and of the work, which change with the objects and go with the rules.
func TestConditionRules(t *testing.T) {
	b, ctx := start(t)
	const objects = `
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: rules-sail, namespace: default}, data: {wind: "%s"}}`
	const rules = `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: default, name: rules-fleet}
  conditionRules:
  - condition: Ready
    type: CEL
    celExpressions: ['has(object.status.readyReplicas) && object.status.readyReplicas == object.spec.replicas']
    messageExpression: 'string(object.spec.replicas) + (result ? " are ready" : " are wanted")'
  - {condition: Broken, type: CEL, celExpressions: ['object.no.such > 1']}
  - {condition: "no name!", type: CEL, celExpressions: ['true']}
- resourceIdentifier: {resource: configmaps, namespace: default, name: rules-sail}
  conditionRules:
  - {condition: Ready, type: CEL, celExpressions: ['object.data.wind == "fair"'], message: the wind decides}
`
	spec := func(wind, rules string) string {
		return "workload:\n  manifests:" + fleet("rules-fleet", 2, "example.test/main:1") + fmt.Sprintf(objects, wind) + "\n" + rules
	}
	is := func(kind string, status metav1.ConditionStatus, reason, message string) func() error {
		return func() error {
			work, err := b.work(ctx, "rules")
			if err != nil {
				return err
			}
			if err := conditionIs(work.Status.Conditions, kind, status, work.Generation); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(work.Status.Conditions, kind); c.Reason != reason || !strings.Contains(c.Message, message) {
				return fmt.Errorf("the condition is %v", c)
			}
			return b.appliedAndAvailable(ctx, first, "rules")
		}
	}
	b.apply(t, ctx, "rules", spec("foul", rules))
	eventually(t, ctx, "one manifest is not ready", is("Ready", metav1.ConditionFalse, "ConditionRulesAggregated", "Aggregated from 2 manifest conditions"))
	eventually(t, ctx, "a bad expression says so", is("Broken", metav1.ConditionFalse, "ConditionRulesAggregated", "no such key"))
	eventually(t, ctx, "a bad name says so", is("Supported", metav1.ConditionFalse, "InvalidCondition", `"no name!"`))
	b.apply(t, ctx, "rules", spec("fair", rules))
	eventually(t, ctx, "all are ready", is("Ready", metav1.ConditionTrue, "ConditionRulesAggregated", "Aggregated from 2 manifest conditions"))
	work, err := b.work(ctx, "rules")
	require.NoError(t, err)
	for i, message := range []string{"2 are ready", "the wind decides"} {
		c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[i].Conditions, "Ready")
		require.Equal(t, "ConditionRuleEvaluated", c.Reason)
		require.Equal(t, message, c.Message)
	}
	b.apply(t, ctx, "rules", spec("fair", ""))
	eventually(t, ctx, "without rules there are no such conditions", func() error {
		work, err := b.work(ctx, "rules")
		if err != nil {
			return err
		}
		for _, kind := range []string{"Ready", "Broken", "Supported"} {
			if meta.FindStatusCondition(work.Status.Conditions, kind) != nil {
				return fmt.Errorf("the work still has %s", kind)
			}
			for _, m := range work.Status.ResourceStatus.Manifests {
				if meta.FindStatusCondition(m.Conditions, kind) != nil {
					return fmt.Errorf("%s still has %s", m.ResourceMeta.Name, kind)
				}
			}
		}
		return b.appliedAndAvailable(ctx, first, "rules")
	})
}

// A manifest that has completed is left alone, even when its object is gone; the others of its work are not. A change of the
// manifest begins anew.
func TestCompleteIsLeftAlone(t *testing.T) {
	b, ctx := start(t)
	spec := func(turn, value string) string {
		return fmt.Sprintf(`
workload:
  manifests:
  - {apiVersion: batch/v1, kind: Job, metadata: {name: rules-once, namespace: default, labels: {turn: %q}}, spec: %s}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: rules-once, namespace: default}, data: {value: %q}}
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: default, name: rules-once}
  feedbackScrapeType: Watch
  conditionRules: [{condition: Complete, type: WellKnownConditions}]
`, turn, jobSpec, value)
	}
	complete := func() error {
		work, err := b.work(ctx, "rules-once")
		if err != nil {
			return err
		}
		return errors.Join(
			conditionIs(work.Status.Conditions, workv1.WorkComplete, metav1.ConditionTrue, work.Generation),
			conditionIs(work.Status.Conditions, workv1.WorkApplied, metav1.ConditionTrue, work.Generation),
			manifestIs(work, 0, workv1.ManifestComplete, metav1.ConditionTrue))
	}
	jobs := b.spokes[first].BatchV1().Jobs("default")
	b.apply(t, ctx, "rules-once", spec("one", "a"))
	eventually(t, ctx, "the job is complete", complete)
	background := metav1.DeletePropagationBackground
	require.NoError(t, jobs.Delete(ctx, "rules-once", metav1.DeleteOptions{PropagationPolicy: &background}))
	eventually(t, ctx, "the job is gone", func() error {
		_, err := jobs.Get(ctx, "rules-once", metav1.GetOptions{})
		return gone(err)
	})

	b.apply(t, ctx, "rules-once", spec("one", "b"))
	eventually(t, ctx, "the rest of the work goes on", func() error {
		return errors.Join(complete(), b.valueOf(ctx, first, "default", "rules-once", "b"))
	})
	_, err := b.spokes[first].CoreV1().ConfigMaps("default").Patch(ctx, "rules-once", types.MergePatchType, []byte(`{"data":{"value":"drift"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, ctx, "drift of the rest is undone", func() error { return b.valueOf(ctx, first, "default", "rules-once", "b") })
	_, err = jobs.Get(ctx, "rules-once", metav1.GetOptions{})
	require.NoError(t, gone(err), "what is done is not done again")
	require.NoError(t, complete())

	b.apply(t, ctx, "rules-once", spec("two", "b"))
	eventually(t, ctx, "a changed job runs", func() error {
		job, err := jobs.Get(ctx, "rules-once", metav1.GetOptions{})
		if err == nil && job.Labels["turn"] != "two" {
			err = fmt.Errorf("its labels are %v", job.Labels)
		}
		return errors.Join(err, complete())
	})
}

// Fields that are somebody else's stay as they are: for good, or until the manifest changes. All other fields are enforced.
func TestIgnoredFields(t *testing.T) {
	b, ctx := start(t)
	spec := func(name string, replicas int, image, ignored string) string {
		return "workload:\n  manifests:" + fleet(name, replicas, image) + fmt.Sprintf(`
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: default, name: %s}
  updateStrategy: {type: ServerSideApply, serverSideApply: {force: true, ignoreFields: [%s]}}
`, name, ignored)
	}
	for _, test := range []struct {
		name, ignored        string
		replicas, afterwards int32  // once somebody wants 5 of them, and once the manifest has changed after that
		side                 string // image of the other container, which somebody changes
	}{
		{"present", `{condition: OnSpokePresent, jsonPaths: [.spec.replicas]}`, 5, 5, "example.test/side:1"},
		{"change", `{condition: OnSpokeChange, jsonPaths: [.spec.replicas]}`, 5, 2, "example.test/side:1"},
		{"pointer", `{condition: OnSpokePresent, jsonPointers: [/spec/replicas]}`, 5, 5, "example.test/side:1"},
		{"filter", `{condition: OnSpokePresent, jsonPaths: ['.spec.template.spec.containers[?(@.name=="side")].image']}`, 1, 2, "example.test/side:mine"},
		{"jq", `{condition: OnSpokePresent, jqPathExpressions: ['.spec.template.spec.containers[] | select(.name == "side") | .image', '.spec.replicas']}`, 5, 5, "example.test/side:mine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := "rules-shy-" + test.name
			is := func(replicas int32, main, side string) func() error {
				return func() error {
					d, err := b.deployment(ctx, name)
					if err != nil {
						return err
					}
					c := d.Spec.Template.Spec.Containers
					if *d.Spec.Replicas != replicas || c[0].Image != main || c[1].Image != side {
						return fmt.Errorf("there are %d replicas of %s and %s, not %d of %s and %s", *d.Spec.Replicas, c[0].Image, c[1].Image, replicas, main, side)
					}
					return b.appliedAndAvailable(ctx, first, name)
				}
			}
			b.apply(t, ctx, name, spec(name, 1, "example.test/main:1", test.ignored))
			eventually(t, ctx, "it is made whole", is(1, "example.test/main:1", "example.test/side:1"))
			b.patchDeployment(t, ctx, name, `{"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"side","image":"example.test/side:mine"},{"name":"main","image":"example.test/main:drift"}]}}}}`)
			eventually(t, ctx, "only drift is undone", is(test.replicas, "example.test/main:1", test.side))
			b.patchDeployment(t, ctx, name, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.test/main:again"}]}}}}`)
			eventually(t, ctx, "only drift is undone once more", is(test.replicas, "example.test/main:1", test.side))
			b.apply(t, ctx, name, spec(name, 2, "example.test/main:2", test.ignored))
			eventually(t, ctx, "the manifest's change is applied", is(test.afterwards, "example.test/main:2", test.side))
		})
	}
}

// What cannot be ignored is told, and nothing is written.
func TestBadIgnoredFields(t *testing.T) {
	b, ctx := start(t)
	for name, test := range map[string]struct{ ignored, want string }{
		"path":    {`jsonPaths: ['.data[']`, "JSON path error in '.data['"},
		"pointer": {`jsonPointers: [data]`, "JSON Pointer error in 'data'"},
		"jq":      {`jqPathExpressions: ['.data | tojson']`, "JQ expression error in '.data | tojson'"},
		"name":    {`jsonPaths: [.metadata.name]`, "cannot be ignored"},
	} {
		t.Run(name, func(t *testing.T) {
			name := "rules-bad-" + name
			b.apply(t, ctx, name, fmt.Sprintf(`
workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: default}, data: {k: v}}]}
manifestConfigs:
- resourceIdentifier: {resource: configmaps, namespace: default, name: %[1]s}
  updateStrategy: {type: ServerSideApply, serverSideApply: {ignoreFields: [{condition: OnSpokePresent, %[2]s}]}}
`, name, test.ignored))
			eventually(t, ctx, "the work says so", func() error {
				work, err := b.work(ctx, name)
				if err != nil {
					return err
				}
				if err := manifestIs(work, 0, workv1.ManifestApplied, metav1.ConditionFalse); err != nil {
					return err
				}
				c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied)
				if c.Reason != "AppliedManifestSSAIgnoreFieldError" || !strings.Contains(c.Message, test.want) {
					return fmt.Errorf("the condition is %v", c)
				}
				return nil
			})
			require.NoError(t, b.configMapGone(ctx, first, "default", name))
		})
	}
}
