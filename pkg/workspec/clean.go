// Package workspec reads what a work says about its manifests: for the agent that applies them, and for whoever tells what
// that would change.
package workspec

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Clean drops from an object what the API server alone decides about it, and nulls, which in charts stand for "not set".
func Clean(object *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	gvk := object.GroupVersionKind()
	dropNulls(object.Object, BuiltIn(gvk.Group))
	if gvk.Group == "" && gvk.Kind == "Secret" {
		encodeStringData(object.Object)
	}
}

// BuiltIn tells whether an API group is one of Kubernetes' own.
func BuiltIn(group string) bool {
	return !strings.Contains(group, ".") || (strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io"))
}

// dropNulls drops fields that are null. In a list of a custom resource a null may be a value; built-in kinds have none such.
func dropNulls(value any, inLists bool) any {
	switch v := value.(type) {
	case map[string]any:
		for field, below := range v {
			if below == nil {
				delete(v, field)
				continue
			}
			v[field] = dropNulls(below, inLists)
		}
	case []any:
		kept := v[:0]
		for _, below := range v {
			if below != nil || !inLists {
				kept = append(kept, dropNulls(below, inLists))
			}
		}
		return kept
	}
	return value
}

// encodeStringData turns a secret's stringData into the data that the API server makes of it. The API never shows stringData,
// so a key that goes from it would never go from the secret.
func encodeStringData(secret map[string]any) {
	texts, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	data, ok := secret["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
	}
	for key, value := range texts {
		text, ok := value.(string)
		if !ok {
			return // for the API server to refuse
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	secret["data"] = data
	delete(secret, "stringData")
}
