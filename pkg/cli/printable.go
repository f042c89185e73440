package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// printable is an object, of a kind that the scheme knows, as people write it: with its kind, and without status, empty fields,
// and what the hub keeps for itself.
func printable(o runtime.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	kinds, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return nil, fmt.Errorf("print %T: %w", o, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("print %s: %w", kinds[0].Kind, err)
	}
	out := &unstructured.Unstructured{Object: fields}
	out.SetGroupVersionKind(kinds[0])
	unstructured.RemoveNestedField(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "managedFields")
	dropEmpty(fields)
	return out, nil
}

// dropEmpty takes out what Go's types print of fields that nobody has set, and tells whether anything is left.
func dropEmpty(value any) (left bool) {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		for key, below := range value {
			if !dropEmpty(below) {
				delete(value, key)
			}
		}
		return len(value) > 0
	case []any:
		for _, below := range value {
			dropEmpty(below) // an element is one even if it is empty
		}
	}
	return true
}
