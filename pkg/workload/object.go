package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apijson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"
)

// maxNesting bounds lists within lists.
const maxNesting = 16

// ID is what makes two objects the same one on a cluster, whatever version of their kind they are written in.
type ID struct{ Group, Kind, Namespace, Name string }

// Object is one object of a workload.
type Object struct {
	ID
	Content map[string]any
	Raw     []byte // Content as compact JSON with sorted keys, which is what stands in a work
	Place   string // where it was read, for messages
}

// String names the object for people, as Kind namespace/name.
func (o Object) String() string {
	return named(o.Kind, o.namespace(), o.Name)
}

func named(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// Manifest is the object as it stands in a work.
func (o Object) Manifest() workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: o.Raw}}
}

// size is what the object counts against the hub's limit, in bytes; the hub counts the same way (spec 3.1).
func (o Object) size() int {
	m := o.Manifest()
	return m.Size()
}

// namespace is the one that the object names itself.
func (o Object) namespace() string {
	metadata, _ := o.Content["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return namespace
}

// parse reads the objects of one file, which is YAML or JSON with any number of documents, and lists.
func parse(file string, text []byte) ([]Object, error) {
	var all []Object
	for _, d := range documents(file, text) {
		values, err := decode(d.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.place, err)
		}
		for _, value := range values {
			objects, err := objectsOf(value, d.place, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

// decode reads a document: YAML, or JSON of which several objects may follow each other.
func decode(text []byte) ([]any, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if values, err := decodeJSON(trimmed); err == nil {
			return values, nil
		} // YAML may begin with a brace, too
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	var value any
	if err := apijson.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return []any{value}, nil
}

func decodeJSON(text []byte) ([]any, error) {
	var values []any
	for stream := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		if err := stream.Decode(&raw); errors.Is(err, io.EOF) {
			return values, nil
		} else if err != nil {
			return nil, err
		}
		var value any
		if err := apijson.Unmarshal(raw, &value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
}

// objectsOf is the object that a value is, or those of a list.
func objectsOf(value any, place string, nesting int) ([]Object, error) {
	if value == nil {
		return nil, nil // a document of comments, or an entry of a list that a template left empty
	}
	content, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: it is no object with apiVersion and kind", place)
	}
	kind, _ := content["kind"].(string)
	items, listed := content["items"].([]any)
	if kind == "List" || listed && strings.HasSuffix(kind, "List") {
		return itemsOf(content, items, place, nesting)
	}
	o, err := newObject(content, place)
	if err != nil {
		return nil, err
	}
	return []Object{o}, nil
}

// itemsOf are the objects of a list. The items of a list of one kind need not say which.
func itemsOf(list map[string]any, items []any, place string, nesting int) ([]Object, error) {
	if nesting == maxNesting {
		return nil, fmt.Errorf("%s: lists are nested more than %d deep", place, maxNesting)
	}
	kind, _ := list["kind"].(string)
	var all []Object
	for i, item := range items {
		if content, ok := item.(map[string]any); ok && kind != "List" {
			fill(content, "apiVersion", list["apiVersion"])
			fill(content, "kind", strings.TrimSuffix(kind, "List"))
		}
		objects, err := objectsOf(item, fmt.Sprintf("%s, item %d", place, i+1), nesting+1)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

func fill(content map[string]any, field string, value any) {
	if _, ok := content[field]; !ok {
		content[field] = value
	}
}

// newObject checks what every object of a work needs.
func newObject(content map[string]any, place string) (Object, error) {
	o := Object{Content: content, Place: place}
	apiVersion, kind := text(content, "apiVersion"), text(content, "kind")
	gv, err := schema.ParseGroupVersion(apiVersion)
	metadata, _ := content["metadata"].(map[string]any)
	_, generated := metadata["generateName"]
	name := text(metadata, "name")
	switch {
	case apiVersion == "" || kind == "":
		return o, fmt.Errorf("%s: it has no apiVersion or no kind, so it is no object of Kubernetes", place)
	case err != nil:
		return o, fmt.Errorf("%s: apiVersion %q: %w", place, apiVersion, err)
	case generated:
		return o, fmt.Errorf("%s: %s has metadata.generateName, and an object of a work needs a name that stays", place, kind)
	case name == "":
		return o, fmt.Errorf("%s: %s has no metadata.name, or one that is no text", place, kind)
	}
	if namespace, ok := metadata["namespace"]; ok && namespace != nil {
		if _, ok := namespace.(string); !ok {
			return o, fmt.Errorf("%s: metadata.namespace of %s %s is no text; put it in quotes", place, kind, name)
		}
	}
	if created, ok := metadata["creationTimestamp"]; ok && created == nil {
		delete(metadata, "creationTimestamp") // what is left of a struct that was printed; never a wish
	}
	o.ID = ID{Group: gv.Group, Kind: kind, Name: name}
	return o, o.settle()
}

// settle makes of the content what follows from it.
func (o *Object) settle() error {
	o.Namespace = o.namespace()
	switch {
	case clusterScoped(o.Group, o.Kind):
		o.Namespace = "" // charts write one on everything, and agents drop it
	case o.Namespace == "":
		o.Namespace = "default" // where agents put what names none
	}
	raw, err := json.Marshal(o.Content)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Place, err)
	}
	o.Raw = raw
	return nil
}

func text(of map[string]any, field string) string {
	value, _ := of[field].(string)
	return value
}

// checkTwice refuses an object that is there twice: on the cluster there could be only one, and which would be chance.
func checkTwice(objects []Object) error {
	places := map[ID]string{}
	for _, o := range objects {
		if first, ok := places[o.ID]; ok {
			return fmt.Errorf("%s: %s is there a second time, it was in %s; leave one out", o.Place, o, first)
		}
		places[o.ID] = o.Place
	}
	return nil
}
