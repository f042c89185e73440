package ignore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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

// parseJQ compiles an expression. What makes values out of nothing, without end, is refused: it has no place in a path, and
// its memory could not be bounded.
func parseJQ(text string) (*jq, error) {
	if len(text) > maxJQBytes {
		return nil, fmt.Errorf("it has %d bytes, more than the limit of %d", len(text), maxJQBytes)
	}
	quoted, generator := regexp.MustCompile(`"(\\.|[^"\\])*"`), regexp.MustCompile(`(^|[^.\w$])(range|repeat|while|until|recurse|combinations|limit|def|reduce|foreach|input|inputs|debug|env|\$ENV|halt|halt_error)\b|\*`)
	if found := generator.FindString(quoted.ReplaceAllString(text, `""`)); found != "" {
		return nil, fmt.Errorf("%q is not allowed in a path", found)
	}
	query, err := gojq.Parse("path(" + text + ")")
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return &jq{text, code}, nil
}

// String names the selector in errors.
func (j *jq) String() string { return "JQ expression error in '" + j.text + "'" }

func (j *jq) locate(ctx context.Context, object map[string]any) ([]Path, error) {
	ctx, cancel := context.WithTimeout(ctx, jqTime)
	defer cancel()
	var paths []Path
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
		if !ok || len(paths) == maxPaths {
			return nil, fmt.Errorf("it selects more than the limit of %d fields, or what is none", maxPaths)
		}
		if at, there := exists(object, path); there {
			paths = append(paths, at)
		}
	}
}

// exists tells whether there is something at a path: jq gives paths of missing fields as well, and ranges of lists, which are
// refused as they have no one place.
func exists(object map[string]any, path []any) (Path, bool) {
	var value any = object
	var at Path
	for _, p := range path {
		switch v := value.(type) {
		case map[string]any:
			key, ok := p.(string)
			below, there := v[key]
			if !ok || !there {
				return nil, false
			}
			value, at = below, append(at, key)
		case []any:
			i, ok := p.(int)
			if ok && i < 0 {
				i += len(v)
			}
			if !ok || i < 0 || i >= len(v) {
				return nil, false
			}
			value, at = v[i], append(at, i)
		default:
			return nil, false
		}
	}
	return at, true
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
