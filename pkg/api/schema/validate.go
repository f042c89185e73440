package schema

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// blocking are the faults after which CEL rules are not evaluated, since their types may not hold.
var blocking = []field.ErrorType{
	field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
}

// Fill sets the schema's defaults in an object of untyped JSON, after dropping nulls that the schema does not allow, as a
// CRD does before it looks at an object.
func (d *Definition) Fill(content map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(content, d.Structural)
	defaulting.Default(content, d.Structural)
}

// Validate checks a new object: types, required fields, enums, patterns, limits, list keys, embedded objects and CEL rules.
func (d *Definition) Validate(ctx context.Context, content map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, content, d.validator)
	errs = append(errs, d.ValidateShape(ctx, content)...)
	return append(errs, d.evaluate(ctx, errs, content, nil)...)
}

// ValidateShape checks what the schema validator does not see: embedded objects and the keys of lists.
func (d *Definition) ValidateShape(ctx context.Context, content map[string]any) field.ErrorList {
	errs := objectmeta.Validate(ctx, nil, content, d.Structural, false)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, d.Structural, content)...)
}

// ValidateUpdate checks a change. A fault that the old object had in the same place is let pass, as a CRD does
// (ratcheting), so that tightening a rule never strands an object.
func (d *Definition) ValidateUpdate(ctx context.Context, content, old map[string]any) field.ErrorList {
	correlated := common.NewCorrelatedObject(content, old, &model.Structural{Structural: d.Structural})
	errs := validation.ValidateCustomResourceUpdate(nil, content, old, d.validator, validation.WithRatcheting(correlated))
	errs = append(errs, objectmeta.Validate(ctx, nil, content, d.Structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, d.Structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.Structural, content)...)
	}
	return append(errs, d.evaluate(ctx, errs, content, old, cel.WithRatcheting(correlated))...)
}

// ValidateStatusUpdate checks a change through the status subresource, where only the status can have changed.
func (d *Definition) ValidateStatusUpdate(ctx context.Context, content, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	if status, ok := content["status"]; ok && d.statusValidator != nil {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old["status"], d.statusValidator)
	}
	return append(errs, d.evaluate(ctx, errs, content, old)...)
}

func (d *Definition) evaluate(ctx context.Context, found field.ErrorList, content, old map[string]any, options ...cel.Option) field.ErrorList {
	if d.rules == nil {
		return nil
	}
	if slices.ContainsFunc(found, func(e *field.Error) bool { return slices.Contains(blocking, e.Type) }) {
		return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
	}
	var before any
	if old != nil {
		before = old
	}
	errs, _ := d.rules.Validate(ctx, nil, d.Structural, content, before, celconfig.RuntimeCELCostBudget, options...)
	return errs
}
