package conditions

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

// verdict is what a well-known condition comes to.
type verdict struct {
	holds   bool
	message string
}

// wellKnown judges conditions of kinds that everybody knows: whether a job or a pod is complete.
func wellKnown(object *unstructured.Unstructured, condition string) (verdict, bool) {
	if condition != workv1.ManifestComplete {
		return verdict{}, false
	}
	switch object.GroupVersionKind() {
	case schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}:
		if finished(object) {
			return verdict{true, "Job is finished"}, true
		}
		return verdict{false, "Job is not finished"}, true
	case schema.GroupVersionKind{Version: "v1", Kind: "Pod"}:
		phase, _, err := unstructured.NestedString(object.Object, "status", "phase")
		if err != nil || phase == "" {
			return verdict{false, "Pod has no phase yet"}, true
		}
		return verdict{phase == "Succeeded" || phase == "Failed", fmt.Sprintf("Pod is in phase %s", phase)}, true
	}
	return verdict{}, false
}

// finished tells whether a job has ended, well or not.
func finished(job *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(job.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if ok && condition["status"] == "True" && (condition["type"] == "Complete" || condition["type"] == "Failed") {
			return true
		}
	}
	return false
}
