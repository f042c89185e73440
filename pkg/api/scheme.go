package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"nave/pkg/api/addon"
	"nave/pkg/api/schema"
)

// newScheme registers every kind in its versions and, by the type that is stored, as internal; with the defaults that its
// definition states, applied when an object is written and when an old one is read.
func newScheme(table []kind, definitions map[runtimeschema.GroupVersionKind]*schema.Definition) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Version: "v1"})
	groups := map[string][]runtimeschema.GroupVersion{}
	for _, k := range table {
		internal := runtimeschema.GroupVersion{Group: k.versions[0].gv.Group, Version: runtime.APIVersionInternal}
		for i, v := range k.versions {
			scheme.AddKnownTypes(v.gv, v.object, v.list)
			if i == 0 {
				scheme.AddKnownTypes(internal, v.object, v.list)
			}
			if !scheme.IsVersionRegistered(v.gv) || !scheme.Recognizes(v.gv.WithKind("WatchEvent")) {
				metav1.AddToGroupVersion(scheme, v.gv)
				groups[v.gv.Group] = append(groups[v.gv.Group], v.gv)
			}
			if err := addDefaults(scheme, v, definitions); err != nil {
				return nil, err
			}
		}
	}
	for group, versions := range groups {
		if err := scheme.SetVersionPriority(versions...); err != nil {
			return nil, fmt.Errorf("versions of group %s: %w", group, err)
		}
	}
	if err := addon.AddConversions(scheme); err != nil {
		return nil, fmt.Errorf("conversions of add-on kinds: %w", err)
	}
	return scheme, nil
}

func addDefaults(scheme *runtime.Scheme, v version, definitions map[runtimeschema.GroupVersionKind]*schema.Definition) error {
	gvk, err := kindOf(scheme, v)
	if err != nil {
		return err
	}
	definition, ok := definitions[gvk]
	if !ok {
		return fmt.Errorf("kind %s: no definition is embedded, run make generate", gvk)
	}
	fill, err := schema.NewFiller(v.object, definition.Structural)
	if err != nil {
		return fmt.Errorf("defaults of %s: %w", gvk, err)
	}
	scheme.AddTypeDefaultingFunc(v.object, func(obj any) { fill.Object(obj) })
	scheme.AddTypeDefaultingFunc(v.list, func(obj any) { utilruntime.HandleError(fill.List(obj)) })
	return nil
}

// kindOf is the kind under which a version's object is registered.
func kindOf(scheme *runtime.Scheme, v version) (runtimeschema.GroupVersionKind, error) {
	kinds, _, err := scheme.ObjectKinds(v.object)
	if err != nil {
		return runtimeschema.GroupVersionKind{}, fmt.Errorf("kind of %T: %w", v.object, err)
	}
	for _, gvk := range kinds {
		if gvk.GroupVersion() == v.gv {
			return gvk, nil
		}
	}
	return runtimeschema.GroupVersionKind{}, fmt.Errorf("kind of %T: not registered in %s", v.object, v.gv)
}
