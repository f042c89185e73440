package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Filler sets a schema's defaults in typed objects, and empty lists where JSON would have a null. It knows beforehand which fields can have one, so filling a large
// object costs no more than looking at those few; turning it into untyped JSON and back would cost a copy of it all.
type Filler struct {
	root node
}

// node is what the schema says below one type: defaults of its fields, and fields or elements with defaults further down.
type node struct {
	fields   []fieldNode // of a struct
	elements *node       // of a slice, or of the values of a map
}

type fieldNode struct {
	index    []int
	fallback []byte // JSON of the default; nil where the field has none itself
	below    *node
}

// NewFiller compiles the defaults of s for the type of object, a pointer to a struct.
func NewFiller(object runtime.Object, s *schema.Structural) (*Filler, error) {
	root, err := compile(reflect.TypeOf(object).Elem(), s)
	if err != nil {
		return nil, err
	}
	if root == nil {
		root = &node{}
	}
	return &Filler{root: *root}, nil
}

// Object fills one object of the compiled type.
func (f *Filler) Object(obj any) { f.root.fill(reflect.ValueOf(obj).Elem()) }

// List fills every item of a list of the compiled type.
func (f *Filler) List(list any) error {
	items, err := meta.GetItemsPtr(list.(runtime.Object))
	if err != nil {
		return fmt.Errorf("items of %T: %w", list, err)
	}
	v := reflect.ValueOf(items).Elem()
	for i := range v.Len() {
		f.root.fill(v.Index(i))
	}
	return nil
}

func compile(t reflect.Type, s *schema.Structural) (*node, error) {
	switch t.Kind() {
	case reflect.Pointer:
		return compile(t.Elem(), s)
	case reflect.Slice:
		if s.Items == nil {
			return nil, nil
		}
		return compileElements(t.Elem(), s.Items)
	case reflect.Map:
		if s.AdditionalProperties == nil || s.AdditionalProperties.Structural == nil {
			return nil, nil
		}
		return compileElements(t.Elem(), s.AdditionalProperties.Structural)
	case reflect.Struct:
		return compileStruct(t, s)
	}
	return nil, nil
}

func compileElements(t reflect.Type, s *schema.Structural) (*node, error) {
	below, err := compile(t, s)
	if below == nil || err != nil {
		return nil, err
	}
	return &node{elements: below}, nil
}

func compileStruct(t reflect.Type, s *schema.Structural) (*node, error) {
	n := &node{}
	for name := range s.Properties {
		property := s.Properties[name]
		index, ok := fieldNamed(t, name)
		if !ok {
			continue // the Go type has no such field (metadata, or JSON of its own)
		}
		below, err := compile(t.FieldByIndex(index).Type, &property)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fallback, err := fallbackOf(t.FieldByIndex(index), &property)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if below != nil || fallback != nil {
			n.fields = append(n.fields, fieldNode{index: index, fallback: fallback, below: below})
		}
	}
	if len(n.fields) == 0 {
		return nil, nil
	}
	return n, nil
}

// fallbackOf is what an unset field is filled with, as JSON; nil where it stays as it is.
func fallbackOf(f reflect.StructField, s *schema.Structural) ([]byte, error) {
	if s.Default.Object == nil {
		if alwaysWritten(f) && mayBeEmptyList(s) {
			// Go would write null, which the schema does not allow and readers without the type stumble over.
			return []byte("[]"), nil
		}
		return nil, nil
	}
	fallback, err := json.Marshal(s.Default.Object)
	if err != nil {
		return nil, fmt.Errorf("default: %w", err)
	}
	if err := json.Unmarshal(fallback, reflect.New(f.Type).Interface()); err != nil {
		return nil, fmt.Errorf("default does not fit the Go type: %w", err)
	}
	return fallback, nil
}

// alwaysWritten tells whether JSON of the type has the field even where it is unset.
func alwaysWritten(f reflect.StructField) bool {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero")
}

// mayBeEmptyList tells whether a list without elements is good. One that needs elements stays unset, so that it is found
// missing.
func mayBeEmptyList(s *schema.Structural) bool {
	needsElements := s.ValueValidation != nil && s.ValueValidation.MinItems != nil && *s.ValueValidation.MinItems > 0
	return s.Type == "array" && !s.Nullable && !needsElements
}

// fieldNamed finds the field that JSON calls name, also through inlined structs.
func fieldNamed(t reflect.Type, name string) ([]int, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inline := tag == "" && (strings.Contains(options, "inline") || f.Anonymous)
		if inline && f.Type.Kind() == reflect.Struct {
			if index, ok := fieldNamed(f.Type, name); ok {
				return append([]int{i}, index...), true
			}
			continue
		}
		if tag == name {
			return []int{i}, true
		}
	}
	return nil, false
}

func (n *node) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n.fill(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			n.elements.fill(v.Index(i))
		}
	case reflect.Map:
		n.fillMap(v)
	case reflect.Struct:
		for _, f := range n.fields {
			field := v.FieldByIndex(f.index)
			if f.fallback != nil && field.IsZero() {
				// The default was tried against this type when it was compiled.
				_ = json.Unmarshal(f.fallback, field.Addr().Interface())
			}
			if f.below != nil {
				f.below.fill(field)
			}
		}
	}
}

// fillMap works on copies, since values in a map cannot be changed in place.
func (n *node) fillMap(v reflect.Value) {
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		n.elements.fill(value)
		v.SetMapIndex(key, value)
	}
}
