package ignore

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// LetGo takes the fields at the paths, which are places in the live object, out of a set of managed fields, with all that is
// below them. changed says whether any was in it. The set names items of lists by their keys or values, so the live object is
// needed to find them.
func LetGo(owned *fieldpath.Set, live map[string]any, paths []Path) (left *fieldpath.Set, changed bool) {
	drop := fieldpath.NewSet()
	for _, p := range paths {
		for _, at := range elements(owned, live, p) {
			drop.Insert(at)
		}
	}
	if drop.Empty() {
		return owned, false
	}
	left = owned.RecursiveDifference(drop)
	return left, !left.Equals(owned)
}

// elements are the names under which a set of managed fields may hold what is at a path.
func elements(owned *fieldpath.Set, live any, p Path) []fieldpath.Path {
	if len(p) == 0 {
		return []fieldpath.Path{{}}
	}
	var all []fieldpath.Path
	descend := func(element fieldpath.PathElement, below any) {
		children, _ := owned.Children.Get(element)
		if children == nil {
			children = fieldpath.NewSet()
		}
		for _, rest := range elements(children, below, p[1:]) {
			all = append(all, append(fieldpath.Path{element}, rest...))
		}
	}
	switch v := live.(type) {
	case map[string]any:
		if key, ok := p[0].(string); ok {
			descend(fieldpath.PathElement{FieldName: &key}, v[key])
		}
	case []any:
		if i, ok := p[0].(int); ok && i >= 0 && i < len(v) {
			for _, element := range tops(owned) {
				if names(element, i, v[i]) {
					descend(element, v[i])
				}
			}
		}
	}
	return all
}

// tops are the elements that a set has at its top, be they fields themselves or on the way to some.
func tops(owned *fieldpath.Set) []fieldpath.PathElement {
	var all []fieldpath.PathElement
	owned.Members.Iterate(func(e fieldpath.PathElement) { all = append(all, e) })
	owned.Children.Iterate(func(e fieldpath.PathElement) {
		if !slices.ContainsFunc(all, e.Equals) {
			all = append(all, e)
		}
	})
	return all
}

// names tells whether an element is the name of an item of a list.
func names(element fieldpath.PathElement, index int, item any) bool {
	switch {
	case element.Index != nil:
		return *element.Index == index
	case element.Value != nil:
		return value.Equals(*element.Value, value.NewValueInterface(item))
	case element.Key != nil:
		fields, ok := item.(map[string]any)
		if !ok {
			return false
		}
		for _, field := range *element.Key {
			have, there := fields[field.Name]
			if !there || !value.Equals(field.Value, value.NewValueInterface(have)) {
				return false
			}
		}
		return true
	}
	return false
}
