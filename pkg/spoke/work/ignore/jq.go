package ignore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/itchyny/gojq"
)

const (
	// jqTime bounds one expression on one object, as upstream does.
	jqTime = time.Second

	// maxJQBytes bounds an expression.
	maxJQBytes = 1024
)

// jq is a path expression of jq, such as .spec.containers[] | select(.name == "x") | .image.
type jq struct {
	text string
	code *gojq.Code
}

// parseJQ compiles an expression. What makes values rather than choosing fields is refused: it has no place in a path, and its
// memory could not be bounded.
func parseJQ(text string) (parsed *jq, err error) {
	defer survive(&err)
	if len(text) > maxJQBytes {
		return nil, fmt.Errorf("it has %d bytes, more than the limit of %d", len(text), maxJQBytes)
	}
	inner, err := gojq.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := harmless(inner); err != nil {
		return nil, err
	}
	query, err := gojq.Parse("path(" + text + "\n)")
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return &jq{text, code}, nil
}

// survive makes an error of a panic of the library: what it is given comes from the network.
func survive(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("jq does not take it: %v", r)
	}
}

// String names the selector in errors.
func (j *jq) String() string { return "JQ expression error in '" + j.text + "'" }

func (j *jq) locate(ctx context.Context, object map[string]any) (paths []Path, err error) {
	defer survive(&err)
	ctx, cancel := context.WithTimeout(ctx, jqTime)
	defer cancel()
	looked := 0
	for results := j.code.RunWithContext(ctx, forJQ(object)); ; {
		result, more := results.Next()
		if !more {
			return paths, nil
		}
		if err, failed := result.(error); failed {
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("it took longer than the limit of %s", jqTime)
			}
			return nil, err
		}
		path, ok := result.([]any)
		if !ok {
			return nil, fmt.Errorf("it gives %v, which is no field of the object", result)
		}
		if looked++; looked > maxPaths {
			return nil, fmt.Errorf("it selects more than the limit of %d fields", maxPaths)
		}
		if paths = append(paths, existing(object, path)...); len(paths) > maxPaths {
			return nil, fmt.Errorf("it selects more than the limit of %d fields", maxPaths)
		}
	}
}

// existing are the places of what there is at a path: jq gives paths of missing fields as well, and of ranges of lists, which
// are the places of their items.
func existing(object map[string]any, path []any) []Path {
	var value any = object
	var at Path
	first := 0 // index of the first item of the list that a range has left
	for i, p := range path {
		switch v := value.(type) {
		case map[string]any:
			key, ok := p.(string)
			below, there := v[key]
			if !ok || !there {
				return nil
			}
			value, at = below, append(at, key)
		case []any:
			if bounds, ok := p.(map[string]any); ok {
				from, to := within(bounds, len(v))
				first += from
				value = v[from:to]
				if i == len(path)-1 {
					return items(at, first, to-from)
				}
				continue
			}
			n, ok := p.(int)
			if ok && n < 0 {
				n += len(v)
			}
			if !ok || n < 0 || n >= len(v) {
				return nil
			}
			value, at, first = v[n], append(at, first+n), 0
		default:
			return nil
		}
	}
	return []Path{at}
}

// within are the bounds of a range in a list of a length, as jq counts: from the end if negative, and never out of it.
func within(bounds map[string]any, length int) (from, to int) {
	bound := func(name string, otherwise int) int {
		n, ok := bounds[name].(int)
		if !ok {
			return otherwise
		}
		if n < 0 {
			n += length
		}
		return min(max(n, 0), length)
	}
	from = bound("start", 0)
	return from, max(from, bound("end", length))
}

// items are the places of n items of a list, from the first one on.
func items(list Path, first, n int) []Path {
	all := make([]Path, n)
	for i := range all {
		all[i] = append(slices.Clone(list), first+i)
	}
	return all
}

// forJQ is a copy of a value with numbers of the types that gojq knows.
func forJQ(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, below := range v {
			out[key] = forJQ(below)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, below := range v {
			out[i] = forJQ(below)
		}
		return out
	case int64:
		return int(v)
	}
	return value
}
