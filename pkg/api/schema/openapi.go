package schema

import (
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	v2Prefix = "#/definitions/"
	v3Prefix = "#/components/schemas/"
)

// OpenAPI returns the published definitions of the object and of its list. Embedded objects look different in OpenAPI v2
// (which knows no preserved unknown fields), so clients that validate by v2 need the v2 form.
func (d *Definition) OpenAPI(v2 bool) (object, list *spec.Schema, err error) {
	schemas := map[string]*spec.Schema{}
	if v2 {
		swagger, err := builder.BuildOpenAPIV2(d.crd, d.Kind.Version, builder.Options{V2: true, StripValueValidation: true, StripNullable: true})
		if err != nil {
			return nil, nil, fmt.Errorf("openapi v2 of %s: %w", d.Kind, err)
		}
		for name := range swagger.Definitions {
			s := swagger.Definitions[name]
			schemas[name] = &s
		}
	} else {
		document, err := builder.BuildOpenAPIV3(d.crd, d.Kind.Version, builder.Options{})
		if err != nil {
			return nil, nil, fmt.Errorf("openapi v3 of %s: %w", d.Kind, err)
		}
		schemas = document.Components.Schemas
	}
	for name, s := range schemas {
		switch name[strings.LastIndex(name, ".")+1:] {
		case d.Names.Kind:
			object = s
		case d.Names.ListKind:
			list = s
		}
	}
	if object == nil || list == nil {
		return nil, nil, fmt.Errorf("openapi of %s: the definition's builder gave no object or list", d.Kind)
	}
	return object, list, nil
}

// IsV2 tells for which of the two formats a reference callback makes references.
func IsV2(ref common.ReferenceCallback) bool {
	r := ref("probe")
	return strings.HasPrefix(r.String(), v2Prefix)
}

// Relink replaces the references in s by those that ref makes and returns the names they lead to.
func Relink(s *spec.Schema, ref common.ReferenceCallback) []string {
	var names []string
	walk(s, func(s *spec.Schema) {
		target := s.Ref.String()
		if target == "" {
			return
		}
		name := strings.TrimPrefix(strings.TrimPrefix(target, v2Prefix), v3Prefix)
		s.Ref = ref(name)
		names = append(names, name)
	})
	return names
}

// walk visits s and every schema below it in the places that the definitions' builder uses.
func walk(s *spec.Schema, visit func(*spec.Schema)) {
	visit(s)
	for key := range s.Properties {
		child := s.Properties[key]
		walk(&child, visit)
		s.Properties[key] = child
	}
	for i := range s.AllOf {
		walk(&s.AllOf[i], visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, visit)
	}
}
