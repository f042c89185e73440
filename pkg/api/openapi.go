package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"nave/pkg/api/schema"
)

// modelNamer is what the OpenAPI builder asks a Go type for the name of its definition.
type modelNamer interface{ OpenAPIModelName() string }

// OpenAPI adds the kinds' definitions, with upstream's descriptions, to those of base. The result is asked for once per
// format, at start.
func (a *API) OpenAPI(base common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := base(ref)
		for _, k := range a.table {
			for _, v := range k.versions {
				object, list, err := a.definition(v).OpenAPI(schema.IsV2(ref))
				if err != nil {
					panic(fmt.Sprintf("embedded definition cannot be published: %v", err)) // the same at every start; tests see it
				}
				name := modelName(v.object)
				all[name] = published(object, ref)
				// The list's items are described inline under the definition's own name; they are the object's model.
				list.Properties["items"] = *spec.ArrayProperty(&spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}})
				definition := published(list, ref)
				definition.Dependencies = append(definition.Dependencies, name)
				all[modelName(v.list)] = definition
			}
		}
		return all
	}
}

func published(s *spec.Schema, ref common.ReferenceCallback) common.OpenAPIDefinition {
	// The kind is added by the namer, for every version that a type is registered in.
	delete(s.Extensions, "x-kubernetes-group-version-kind")
	return common.OpenAPIDefinition{Schema: *s, Dependencies: schema.Relink(s, ref)}
}

func modelName(obj runtime.Object) string { return obj.(modelNamer).OpenAPIModelName() }
