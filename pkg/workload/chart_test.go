package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chart is an application as large as a rendered Helm chart, with what charts contain: definitions and resources of them,
// namespaces on kinds that have none, nulls, quoted numbers, and much text.
func chart(t *testing.T, size string) []Object {
	t.Helper()
	shape := map[string]struct{ parts, definitions, fields int }{
		"small": {2, 0, 0}, "medium": {7, 4, 110}, "large": {16, 8, 290}, "huge": {36, 14, 440},
	}[size]
	var text strings.Builder
	add := func(format string, values ...any) { fmt.Fprintf(&text, "---\n"+format+"\n", values...) }
	add("{apiVersion: v1, kind: Namespace, metadata: {name: regatta}}")
	for i := range shape.definitions {
		var fields []string
		for j := range shape.fields {
			fields = append(fields, fmt.Sprintf(`field%03d: {type: string, description: "Field %d. %s"}`, j, j, strings.Repeat("It is explained at some length. ", 3)))
		}
		add(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kind%02ds.regatta.example.test}
spec:
  group: regatta.example.test
  scope: Cluster
  names: {kind: Kind%02d, plural: kind%02ds, singular: kind%02d}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}]`,
			i, i, i, i, strings.Join(fields, ", "))
		add(`{apiVersion: regatta.example.test/v1, kind: Kind%02d, metadata: {name: k}, spec: {field000: "007"}}`, i)
	}
	for i := range shape.parts {
		name := fmt.Sprintf("part%02d", i)
		meta := fmt.Sprintf("{name: %s, namespace: regatta, creationTimestamp: null, labels: {version: '1.10'}}", name)
		add("{apiVersion: v1, kind: ServiceAccount, metadata: %s}", meta)
		add("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: %s, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}", meta)
		add("{apiVersion: v1, kind: ConfigMap, metadata: %s, data: {blob: %s, on: 'true'}}", meta, strings.Repeat("x", 1500))
		add("{apiVersion: apps/v1, kind: Deployment, metadata: %s, spec: {strategy: null, selector: {matchLabels: {app: %s}}, template: {metadata: {labels: {app: %s}}, spec: {affinity: null, containers: [{name: main, image: x, resources: {requests: {cpu: 0.1}}}]}}}}", meta, name, name)
	}
	objects, err := parse("chart.yaml", []byte(text.String()))
	require.NoError(t, err)
	require.NoError(t, checkTwice(objects))
	return objects
}

func configMapOf(t *testing.T, name string, size int) Object {
	t.Helper()
	objects, err := parse(name, fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {blob: %q}}", name, strings.Repeat("x", size)))
	require.NoError(t, err)
	require.Len(t, objects, 1)
	return objects[0]
}
