package api

import (
	"bytes"
	"encoding/json"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
)

// withoutManifests is a copy of a ManifestWork that shares everything but its manifests, which it lacks.
func withoutManifests(obj runtime.Object) runtime.Object {
	work := *obj.(*workv1.ManifestWork)
	work.Spec.Workload.Manifests = nil
	return &work
}

func canonicalWork(obj runtime.Object) {
	canonicalManifests(obj.(*workv1.ManifestWork).Spec.Workload.Manifests)
}

func canonicalReplicaSet(obj runtime.Object) {
	canonicalManifests(obj.(*workv1alpha1.ManifestWorkReplicaSet).Spec.ManifestWorkTemplate.Workload.Manifests)
}

func canonicalAddOnTemplate(obj runtime.Object) {
	canonicalManifests(obj.(*addonv1alpha1.AddOnTemplate).Spec.AgentSpec.Workload.Manifests)
}

// canonicalManifests sorts the keys and drops the white space of raw manifests. Manifests are compared and stored as
// bytes; without one form, a patch that changes nothing would raise the generation, because patching reorders keys.
// Numbers stay as they were written; of a key that comes twice the last one counts, as everywhere in Kubernetes. Text that
// is not JSON, or nests deeper than its decoder allows (10,000 levels), is left alone for validation to refuse.
func canonicalManifests(manifests []workv1.Manifest) {
	for i := range manifests {
		if raw, ok := canonicalJSON(manifests[i].Raw); ok {
			manifests[i].Raw = raw
		}
	}
}

func canonicalJSON(raw []byte) ([]byte, bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, false // there is more than one value
	}
	// Marshal escapes <, > and &, and so does the encoder that stores and sends the object: what comes back is the same.
	out, err := json.Marshal(value)
	return out, err == nil
}
