package ignore

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901).
type pointer struct {
	text string
	keys []string
}

func parsePointer(text string) (*pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("it has to begin with /")
	}
	keys := strings.Split(text[1:], "/")
	for i, key := range keys {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(key), "~") {
			return nil, errors.New("after ~ there is 0 or 1")
		}
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
	}
	return &pointer{text, keys}, nil
}

// String names the selector in errors.
func (p *pointer) String() string { return "JSON Pointer error in '" + p.text + "'" }

func (p *pointer) locate(_ context.Context, object map[string]any) ([]Path, error) {
	var value any = object
	var path Path
	for _, key := range p.keys {
		switch v := value.(type) {
		case map[string]any:
			below, ok := v[key]
			if !ok {
				return nil, nil
			}
			value, path = below, append(path, key)
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || strconv.Itoa(i) != key || i < 0 || i >= len(v) { // RFC 6901 knows neither +1 nor 01
				return nil, nil
			}
			value, path = v[i], append(path, i)
		default:
			return nil, nil
		}
	}
	return []Path{path}, nil
}
