// Package schema turns upstream's CustomResourceDefinition files into what the hub needs to serve a kind natively: its
// names and columns, and checks that give the same answers, with the same texts, as a CRD with that schema would.
package schema

import (
	"embed"
	"fmt"
	"io/fs"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

//go:generate go run nave/scripts/crds

//go:embed crd/*.yaml
var files embed.FS

// Definition is one version of one kind, as its CRD states it.
type Definition struct {
	Kind       runtimeschema.GroupVersionKind
	Names      apiextensionsv1.CustomResourceDefinitionNames
	Namespaced bool
	HasStatus  bool // status is a subresource
	Columns    []apiextensionsv1.CustomResourceColumnDefinition
	Structural *schema.Structural

	crd             *apiextensionsv1.CustomResourceDefinition
	validator       validation.SchemaValidator
	statusValidator validation.SchemaValidator
	rules           *cel.Validator // nil where no x-kubernetes-validations rule exists
}

// Load reads every embedded definition.
func Load() (map[runtimeschema.GroupVersionKind]*Definition, error) {
	names, err := fs.Glob(files, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list embedded definitions: %w", err)
	}
	all := map[runtimeschema.GroupVersionKind]*Definition{}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read embedded definition: %w", err)
		}
		definitions, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		for _, d := range definitions {
			all[d.Kind] = d
		}
	}
	return all, nil
}

func parse(text []byte) ([]*Definition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var all []*Definition
	for i := range crd.Spec.Versions {
		d, err := newDefinition(crd, &crd.Spec.Versions[i])
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", crd.Spec.Versions[i].Name, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func newDefinition(crd *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (*Definition, error) {
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	structural, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("schema is not structural: %w", err)
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("prune defaults: %w", err)
	}
	d := &Definition{
		Kind:       runtimeschema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind},
		Names:      crd.Spec.Names,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		HasStatus:  version.Subresources != nil && version.Subresources.Status != nil,
		Columns:    columns(version),
		Structural: structural,
		crd:        crd,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
	if d.validator, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	if status, ok := internal.OpenAPIV3Schema.Properties["status"]; ok && d.HasStatus {
		if d.statusValidator, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, fmt.Errorf("compile schema of status: %w", err)
		}
	}
	return d, nil
}

// columns are the ones that the definition states, or Age alone, which is what a CRD without columns prints.
func columns(version *apiextensionsv1.CustomResourceDefinitionVersion) []apiextensionsv1.CustomResourceColumnDefinition {
	if len(version.AdditionalPrinterColumns) > 0 {
		return version.AdditionalPrinterColumns
	}
	return []apiextensionsv1.CustomResourceColumnDefinition{{
		Name: "Age", Type: "date", Description: "time since the object was created", JSONPath: ".metadata.creationTimestamp",
	}}
}
