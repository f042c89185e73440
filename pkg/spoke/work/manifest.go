package work

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/workspec"
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

	config workv1.ManifestConfigOption // what the work says about how to treat it
	owned  bool                        // it goes when the work goes
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

// read decodes the manifests of a work, and finds out under which resources the cluster serves them and how the work wants
// each to be treated.
func read(work *workv1.ManifestWork, mapper meta.RESTMapper) []*manifest {
	all := decode(work)
	last := map[identity]*manifest{}
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		if m.resolve(mapper); m.err != nil {
			continue
		}
		m.config = workspec.ConfigFor(work, m.id())
		m.owned = !m.readOnly() && goesAlong(work.Spec.DeleteOption, m.id())
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
		workspec.Clean(m.object)
	}
	return all
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

func treatmentOf(m *manifest) treatment {
	text, err := json.Marshal(m.config.UpdateStrategy)
	if err != nil {
		text = []byte(err.Error()) // never: it came as JSON
	}
	if m.owned {
		text = append(text, "owned"...)
	}
	return sha256.Sum256(append(m.hash[:], text...))
}
