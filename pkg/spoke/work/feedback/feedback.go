// Package feedback reads values out of applied objects, by the feedback rules of a work (spec 4.6).
package feedback

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"nave/pkg/jsonpath"
)

const (
	// maxValues bounds the values of one object: they all stand in the work's status.
	maxValues = 100

	// maxTextBytes bounds a text value. Whole configuration files do not belong into a status.
	maxTextBytes = 8 << 10

	// maxRawBytes is the API's limit for a value as JSON. A hub refuses the whole status of a work that has a longer one.
	maxRawBytes = 1024
)

// Limits bound and choose what may be reported.
type Limits struct {
	Raw         bool // lists, maps and fractions as JSON text, upstream's gate RawFeedbackJsonString
	MaxRawBytes int  // of such a text, upstream's flag --max-json-raw-length; the API allows no more than 1024
}

// Values evaluates rules in their order. The values that can be had come beside an error that names each one that cannot, and
// why; nil if there is none such. A field that the object does not have gives neither.
func Values(object *unstructured.Unstructured, rules []workv1.FeedbackRule, limits Limits) ([]workv1.FeedbackValue, error) {
	var values []workv1.FeedbackValue
	var errs []error
	names := map[string]bool{}
	for _, path := range paths(object.GroupVersionKind(), rules, &errs) {
		if len(values) == maxValues {
			errs = append(errs, fmt.Errorf("there are more values than the limit of %d for one object", maxValues))
			break
		}
		if names[path.Name] { // the API takes no two values of one name, and would refuse the whole status
			errs = append(errs, fmt.Errorf("value %s at path %s: another value has this name", path.Name, path.Path))
			continue
		}
		value, err := read(object, path, limits)
		if err != nil {
			errs = append(errs, fmt.Errorf("value %s at path %s: %w", path.Name, path.Path, err))
		}
		if value != nil {
			names[path.Name] = true
			values = append(values, workv1.FeedbackValue{Name: path.Name, Value: *value})
		}
	}
	return values, errors.Join(errs...)
}

// paths are where the values of all rules are to be found.
func paths(gvk schema.GroupVersionKind, rules []workv1.FeedbackRule, errs *[]error) []workv1.JsonPath {
	var all []workv1.JsonPath
	for _, rule := range rules {
		switch rule.Type {
		case workv1.WellKnownStatusType:
			known := wellKnown(gvk)
			if known == nil {
				*errs = append(*errs, fmt.Errorf("cannot find the wellknown statuses for resource with gvk %s", gvk))
			}
			all = append(all, known...)
		case workv1.JSONPathsType:
			all = append(all, rule.JsonPaths...)
		default:
			*errs = append(*errs, fmt.Errorf("feedback rules of type %q are not known", rule.Type))
		}
	}
	return all
}

// wellKnown are the values of kinds whose status everybody knows.
func wellKnown(gvk schema.GroupVersionKind) []workv1.JsonPath {
	switch gvk {
	case schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}:
		return []workv1.JsonPath{{Name: "ReadyReplicas", Path: ".status.readyReplicas"}, {Name: "Replicas", Path: ".status.replicas"}, {Name: "AvailableReplicas", Path: ".status.availableReplicas"}}
	case schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}:
		return []workv1.JsonPath{{Name: "NumberReady", Path: ".status.numberReady"}, {Name: "DesiredNumberScheduled", Path: ".status.desiredNumberScheduled"}, {Name: "NumberAvailable", Path: ".status.numberAvailable"}}
	case schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}:
		return []workv1.JsonPath{{Name: "JobComplete", Path: `.status.conditions[?(@.type=="Complete")].status`}, {Name: "JobSucceeded", Path: ".status.succeeded"}}
	case schema.GroupVersionKind{Version: "v1", Kind: "Pod"}:
		return []workv1.JsonPath{{Name: "PodReady", Path: `.status.conditions[?(@.type=="Ready")].status`}, {Name: "PodPhase", Path: ".status.phase"}}
	}
	return nil
}

// read gives the value at a path; nil if there is none.
func read(object *unstructured.Unstructured, path workv1.JsonPath, limits Limits) (*workv1.FieldValue, error) {
	if version := object.GroupVersionKind().Version; path.Version != "" && path.Version != version {
		return nil, fmt.Errorf("the path is for version %s, and the resource has version %s", path.Version, version)
	}
	found, err := jsonpath.Find(path.Path, object.Object)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	value := found[0]
	if limits.Raw && len(found) > 1 {
		value = found
	}
	if value == nil {
		return nil, nil
	}
	return encode(value, limits)
}

func encode(value any, limits Limits) (*workv1.FieldValue, error) {
	switch v := value.(type) {
	case int64:
		return &workv1.FieldValue{Type: workv1.Integer, Integer: &v}, nil
	case string:
		if len(v) > maxTextBytes {
			return nil, fmt.Errorf("the text has %d bytes, more than the limit of %d", len(v), maxTextBytes)
		}
		return &workv1.FieldValue{Type: workv1.String, String: &v}, nil
	case bool:
		return &workv1.FieldValue{Type: workv1.Boolean, Boolean: &v}, nil
	}
	if !limits.Raw {
		return nil, fmt.Errorf("it is %s; only whole numbers, texts and booleans are reported unless the agent's feature gate RawFeedbackJsonString is on", describe(value))
	}
	limit, whose := limits.MaxRawBytes, "the agent's --max-json-raw-length"
	if limit > maxRawBytes {
		limit, whose = maxRawBytes, "the API's, whatever the agent's --max-json-raw-length"
	}
	tooLong := fmt.Errorf("it has more bytes of JSON than the limit of %d (%s)", limit, whose)
	if atLeast(value, limit) > limit {
		return nil, tooLong
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("as JSON: %w", err)
	}
	if len(raw) > limit {
		return nil, tooLong
	}
	text := string(raw)
	return &workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &text}, nil
}

// atLeast is how many bytes of JSON a value has at least, counted no further than a little beyond a limit: what a path finds
// may be all of an object, once for each level of it.
func atLeast(value any, limit int) int {
	n := 1
	switch v := value.(type) {
	case string:
		n += len(v)
	case map[string]any:
		for key, below := range v {
			if n += len(key) + 4; n > limit {
				return n
			}
			n += atLeast(below, limit-n)
		}
	case []any:
		for _, below := range v {
			if n++; n > limit {
				return n
			}
			n += atLeast(below, limit-n)
		}
	}
	return n
}

func describe(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case float64:
		return "a number with a fraction"
	}
	return fmt.Sprintf("of type %T", value)
}
