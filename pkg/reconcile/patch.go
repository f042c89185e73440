package reconcile

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergePatch is a JSON merge patch that holds only for the version of the object that was looked at: the server refuses
// it with a conflict if the object has changed since, or is another one of the same name (spec 0.4). change is altered.
func MergePatch(of metav1.Object, change map[string]any) ([]byte, error) {
	metadata, ok := change["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = of.GetUID(), of.GetResourceVersion()
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", of.GetName(), err)
	}
	return body, nil
}
