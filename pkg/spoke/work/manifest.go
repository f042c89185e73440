package work

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

// manifest is one object that a work wants on the cluster.
type manifest struct {
	ordinal int // place in the work's spec
	object  *unstructured.Unstructured
	hash    [sha256.Size]byte // of what the work says about it

	gvr        schema.GroupVersionResource // known once resolved
	namespaced bool
	err        error     // why it cannot be applied: it is no object, or the cluster does not know its kind
	instead    *manifest // the same object listed once more, under another version of its API, which is the one that is applied
}

// id names the object, whatever the version of its API.
func (m *manifest) id() identity {
	return identity{Group: m.gvr.Group, Resource: m.gvr.Resource, Namespace: m.object.GetNamespace(), Name: m.object.GetName()}
}

// String names the object as kubectl does.
func (m *manifest) String() string { return describe(m.id()) }

// describe names an object as kubectl does.
func describe(id identity) string {
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + id.Name
	}
	return schema.GroupResource{Group: id.Group, Resource: id.Resource}.String() + " " + name
}

// read decodes the manifests of a work and finds out under which resources the cluster serves them.
func read(work *workv1.ManifestWork, mapper meta.RESTMapper) []*manifest {
	all := decode(work)
	last := map[identity]*manifest{}
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		if m.resolve(mapper); m.err != nil {
			continue
		}
		if m.instead = last[m.id()]; m.instead == nil {
			last[m.id()] = m
		}
	}
	return all
}

// decode reads the manifests of a work.
func decode(work *workv1.ManifestWork) []*manifest {
	all := make([]*manifest, len(work.Spec.Workload.Manifests))
	for i := range all {
		m := &manifest{ordinal: i, object: &unstructured.Unstructured{}}
		all[i] = m
		if err := m.object.UnmarshalJSON(work.Spec.Workload.Manifests[i].Raw); err != nil {
			m.err = fmt.Errorf("manifest %d cannot be decoded: %w", i, err)
			continue
		}
		m.hash = sha256.Sum256(work.Spec.Workload.Manifests[i].Raw)
		clean(m.object)
	}
	return all
}

// clean drops from an object what the API server alone decides about it, and nulls, which in charts stand for "not set".
func clean(object *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	gvk := object.GroupVersionKind()
	dropNulls(object.Object, builtIn(gvk.Group))
	if gvk.Group == "" && gvk.Kind == "Secret" {
		encodeStringData(object.Object)
	}
}

// builtIn tells whether an API group is one of Kubernetes' own.
func builtIn(group string) bool {
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

// resolve finds out under which resource the cluster serves the manifest's kind, and puts it into a namespace or out of one
// accordingly: charts write metadata.namespace on everything.
func (m *manifest) resolve(mapper meta.RESTMapper) {
	if m.err != nil {
		return
	}
	gvk := m.object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		m.err = fmt.Errorf("the cluster does not serve %s: %w", gvk, err)
		return
	}
	m.gvr = mapping.Resource
	m.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case !m.namespaced:
		m.object.SetNamespace("")
	case m.object.GetNamespace() == "":
		m.object.SetNamespace("default") // as kubectl does
	}
}

// treatment is a hash of all that decides what applying a manifest does: what it says, by which strategy it is applied, and
// whether it goes with the work.
type treatment [sha256.Size]byte

func treatmentOf(work *workv1.ManifestWork, m *manifest) treatment {
	text, err := json.Marshal(configFor(work, m).UpdateStrategy)
	if err != nil {
		text = []byte(err.Error()) // never: it came as JSON
	}
	if owned(work, m) {
		text = append(text, "owned"...)
	}
	return sha256.Sum256(append(m.hash[:], text...))
}
