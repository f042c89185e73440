package ignore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nave/pkg/jsonpath"
)

// jsonPath is a path in Kubernetes' syntax, cut into its steps. Kubernetes' library gives the values that a path selects, but
// not where they are; so it is asked step by step, about things whose places are known.
type jsonPath struct {
	text  string
	steps []string
}

func parseJSONPath(text string) (*jsonPath, error) {
	steps, err := cut(text)
	if err != nil {
		return nil, err
	}
	if _, err := jsonpath.Find(strings.Join(steps, ""), map[string]any{}); err != nil {
		return nil, err
	}
	return &jsonPath{text, steps}, nil
}

// String names the selector in errors.
func (j *jsonPath) String() string { return "JSON path error in '" + j.text + "'" }

// cut cuts a path into its steps: .key, ['key'], [index], [?(filter)].
func cut(text string) ([]string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	text = strings.TrimPrefix(text, "$")
	if text != "" && text[0] != '.' && text[0] != '[' {
		text = "." + text
	}
	if len(text) > jsonpath.MaxBytes {
		return nil, fmt.Errorf("it has %d bytes, more than the limit of %d", len(text), jsonpath.MaxBytes)
	}
	var steps []string
	for text != "" {
		n, err := step(text)
		if err != nil {
			return nil, err
		}
		s := text[:n]
		text = text[n:]
		switch {
		case s == "." && strings.HasPrefix(text, "."):
			return nil, errors.New("recursive descent (..) does not say which fields are meant; name their path")
		case s == "." && text == "":
			return nil, errors.New("it ends with a dot")
		case s != ".":
			steps = append(steps, s)
		}
	}
	if len(steps) == 0 {
		return nil, errors.New("it selects the whole object")
	}
	return steps, nil
}

// step is the length of a text's first step.
func step(text string) (int, error) {
	if text[0] == '.' {
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '.', '[':
				return i, nil
			}
		}
		return len(text), nil
	}
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no end", text)
}

// place is a value and where it is.
type place struct {
	path  Path
	value any
}

func (j *jsonPath) locate(_ context.Context, object map[string]any) ([]Path, error) {
	places := []place{{nil, object}}
	for _, s := range j.steps {
		var next []place
		for _, p := range places {
			below, err := p.take(s)
			if err != nil {
				return nil, err
			}
			if next = append(next, below...); len(next) > maxPaths {
				return nil, fmt.Errorf("it selects more than the limit of %d fields", maxPaths)
			}
		}
		places = next
	}
	var paths []Path
	for _, p := range places {
		paths = append(paths, p.path)
	}
	return paths, nil
}

// take goes one step down.
func (p place) take(step string) ([]place, error) {
	switch v := p.value.(type) {
	case map[string]any:
		return p.ofMap(v, step)
	case []any:
		if strings.HasPrefix(step, "[?") {
			return p.filtered(v, step)
		}
		return p.indexed(v, step)
	}
	return nil, nil
}

func (p place) ofMap(m map[string]any, step string) ([]place, error) {
	if step == ".*" || step == "[*]" {
		var all []place
		for key, below := range m {
			all = append(all, p.below(key, below))
		}
		return all, nil
	}
	var all []place
	for _, key := range keysOf(step) {
		if below, there := m[key]; there {
			all = append(all, p.below(key, below))
		}
	}
	return all, nil
}

// keysOf are the keys that a step names: .key, ['key'] or ['key','other']; none if it is an index or a filter, which are for
// lists.
func keysOf(step string) []string {
	if key, ok := strings.CutPrefix(step, "."); ok {
		return []string{unescape(key)}
	}
	var keys []string
	for _, part := range strings.Split(step[1:len(step)-1], ",") { // as Kubernetes' parser does, quoted or not
		part = strings.TrimSpace(part)
		if n := len(part); n >= 2 && part[0] == '\'' && part[n-1] == '\'' {
			keys = append(keys, unescape(part[1:n-1]))
		}
	}
	return keys
}

func unescape(key string) string {
	var out strings.Builder
	for i := 0; i < len(key); i++ {
		if key[i] == '\\' && i+1 < len(key) {
			i++
		}
		out.WriteByte(key[i])
	}
	return out.String()
}

// filtered are the items of a list for which a filter holds: each is asked about in a list of its own.
func (p place) filtered(list []any, step string) ([]place, error) {
	var all []place
	for i, item := range list {
		found, err := jsonpath.Find(step, []any{item})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			all = append(all, p.below(i, item))
		}
	}
	return all, nil
}

// indexed are the items of a list that an index, a range or a wildcard selects: it is asked about the list of its indexes.
func (p place) indexed(list []any, step string) ([]place, error) {
	if step == ".*" {
		step = "[*]"
	}
	if strings.HasPrefix(step, ".") {
		return nil, nil // a key, which is for maps
	}
	indexes := make([]any, len(list))
	for i := range indexes {
		indexes[i] = i
	}
	found, err := jsonpath.Find(step, indexes)
	if err != nil && strings.Contains(err.Error(), "out of bounds") {
		return nil, nil // it is not there
	}
	if err != nil {
		return nil, err
	}
	var all []place
	for _, f := range found {
		if i, ok := f.(int); ok {
			all = append(all, p.below(i, list[i]))
		}
	}
	return all, nil
}

func (p place) below(key, value any) place {
	return place{append(slices.Clone(p.path), key), value}
}
