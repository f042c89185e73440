// Package ignore finds the fields of an object that a work leaves to others: serverSideApply.ignoreFields (spec 4.2).
package ignore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// maxSelectors bounds the selectors of one strategy, and maxPaths what they may select in one object.
	maxSelectors = 100
	maxPaths     = 10000
)

// Path is a place in an object: texts are keys of maps, whole numbers are indexes of lists.
type Path []any

// selector selects places in an object.
type selector interface {
	locate(ctx context.Context, object map[string]any) ([]Path, error)
	String() string
}

// Fields are the selectors of a strategy.
type Fields struct{ selectors []selector }

// Compile reads the selectors of those entries that are for one of the conditions. An error names the selector that is wrong.
func Compile(entries []workv1.IgnoreField, conditions ...workv1.IgnoreFieldsCondition) (*Fields, error) {
	f := &Fields{}
	for _, entry := range entries {
		if !slices.Contains(conditions, entry.Condition) {
			continue
		}
		for _, text := range entry.JSONPaths {
			s, err := parseJSONPath(text)
			if err != nil {
				return nil, fmt.Errorf("JSON path error in '%s': %w", text, err)
			}
			f.selectors = append(f.selectors, s)
		}
		for _, text := range entry.JSONPointers {
			s, err := parsePointer(text)
			if err != nil {
				return nil, fmt.Errorf("JSON Pointer error in '%s': %w", text, err)
			}
			f.selectors = append(f.selectors, s)
		}
		for _, text := range entry.JQPathExpressions {
			s, err := parseJQ(text)
			if err != nil {
				return nil, fmt.Errorf("JQ expression error in '%s': %w", text, err)
			}
			f.selectors = append(f.selectors, s)
		}
	}
	if len(f.selectors) > maxSelectors {
		return nil, fmt.Errorf("there are %d selectors, more than the limit of %d", len(f.selectors), maxSelectors)
	}
	return f, nil
}

// Locate gives the places in an object that the selectors select; what is not there is no error.
func (f *Fields) Locate(ctx context.Context, object map[string]any) ([]Path, error) {
	var all []Path
	for _, s := range f.selectors {
		paths, err := s.locate(ctx, object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		for _, p := range paths {
			if err := allowed(p); err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
		}
		if all = append(all, paths...); len(all) > maxPaths {
			return nil, fmt.Errorf("%s: more fields are ignored than the limit of %d for one object", s, maxPaths)
		}
	}
	return all, nil
}

// allowed refuses what makes an object the one that it is, and who owns it, which deleteOption says.
func allowed(p Path) error {
	identity := []Path{{"apiVersion"}, {"kind"}, {"metadata"}, {"metadata", "name"}, {"metadata", "namespace"}}
	if len(p) == 0 || slices.ContainsFunc(identity, func(i Path) bool { return slices.Equal(i, p) }) {
		return errors.New("apiVersion, kind, metadata.name and metadata.namespace cannot be ignored, nor what holds them")
	}
	if len(p) >= 2 && p[0] == "metadata" && p[1] == "ownerReferences" {
		return errors.New("metadata.ownerReferences cannot be ignored; deleteOption says whether the work owns the object")
	}
	return nil
}

// Remove takes the fields at the paths out of an object, in place. What is not there is skipped.
func Remove(object map[string]any, paths []Path) {
	sorted := slices.Clone(paths)
	slices.SortFunc(sorted, backwards)
	for _, p := range slices.CompactFunc(sorted, func(a, b Path) bool { return slices.Equal(a, b) }) {
		remove(object, p)
	}
}

// backwards orders paths such that an item of a list comes after those behind it, whose indexes its removal changes, and what
// is inside of something before that.
func backwards(a, b Path) int {
	for i := range min(len(a), len(b)) {
		x, isIndex := a[i].(int)
		y, alsoIndex := b[i].(int)
		switch {
		case isIndex && alsoIndex && x != y:
			return y - x
		case !isIndex && !alsoIndex && a[i] != b[i]:
			return slices.Compare([]byte(a[i].(string)), []byte(b[i].(string)))
		}
	}
	return len(b) - len(a)
}

// remove takes one field out of a value and returns the value as it is then; lists have to be put back where they were.
func remove(value any, p Path) any {
	switch v := value.(type) {
	case map[string]any:
		key, ok := p[0].(string)
		if !ok {
			return v
		}
		below, there := v[key]
		switch {
		case !there:
		case len(p) == 1:
			delete(v, key)
		default:
			v[key] = remove(below, p[1:])
		}
		return v
	case []any:
		i, ok := p[0].(int)
		if !ok || i < 0 || i >= len(v) {
			return v
		}
		if len(p) == 1 {
			return slices.Delete(v, i, i+1)
		}
		v[i] = remove(v[i], p[1:])
		return v
	}
	return value
}
