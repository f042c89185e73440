package placement

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// view makes of clusters what expressions read, and no more: a whole cluster takes twenty times as long, and each placement
// with expressions looks at all of them.
type view struct {
	whole    bool
	sections []section
}

// section is a part of a cluster, such as its metadata.
type section struct {
	name   string
	index  int // of its field
	all    bool
	fields map[string]int // that are read, by their names in JSON; empty if all are
}

// newView makes a view that has these paths. The name of a cluster is in each: scores are looked up by it.
func newView(paths [][]string) *view {
	v := &view{}
	for _, path := range append(paths, []string{"metadata", "name"}) {
		v.add(path)
	}
	return v
}

func (v *view) add(path []string) {
	if v.whole = v.whole || len(path) == 0; v.whole {
		return
	}
	of, index, ok := fieldNamed(reflect.TypeFor[clusterv1.ManagedCluster](), path[0])
	if !ok || of.Kind() != reflect.Struct {
		v.whole = true // what it reads is nothing that there is, or of the whole
		return
	}
	i := slices.IndexFunc(v.sections, func(s section) bool { return s.index == index })
	if i < 0 {
		i = len(v.sections)
		v.sections = append(v.sections, section{name: path[0], index: index, fields: map[string]int{}})
	}
	s := &v.sections[i]
	if s.all = s.all || len(path) == 1; s.all {
		return
	}
	if _, index, ok := fieldNamed(of, path[1]); ok {
		s.fields[path[1]] = index
	}
}

// fieldNamed finds a field by its name in JSON.
func fieldNamed(in reflect.Type, name string) (reflect.Type, int, bool) {
	for i := range in.NumField() {
		if tag, _, _ := strings.Cut(in.Field(i).Tag.Get("json"), ","); tag == name && name != "" {
			return in.Field(i).Type, i, true
		}
	}
	return nil, 0, false
}

// of is the cluster as expressions see it.
func (v *view) of(mc *clusterv1.ManagedCluster) (map[string]any, error) {
	if v.whole {
		return unstructured(mc, mc)
	}
	seen := make(map[string]any, len(v.sections))
	cluster := reflect.ValueOf(mc).Elem()
	for i := range v.sections {
		s := &v.sections[i]
		from := cluster.Field(s.index)
		if !s.all {
			from = s.only(from)
		}
		content, err := unstructured(mc, from.Addr().Interface())
		if err != nil {
			return nil, err
		}
		for name := range content { // some fields show even where they are empty
			if _, read := s.fields[name]; !read && !s.all {
				delete(content, name)
			}
		}
		seen[s.name] = content
	}
	return seen, nil
}

// only is a section with nothing but the fields that are read.
func (s *section) only(from reflect.Value) reflect.Value {
	part := reflect.New(from.Type()).Elem()
	for _, index := range s.fields {
		part.Field(index).Set(from.Field(index))
	}
	return part
}

func unstructured(mc *clusterv1.ManagedCluster, from any) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return nil, fmt.Errorf("cluster %s for CEL: %w", mc.Name, err)
	}
	return content, nil
}
