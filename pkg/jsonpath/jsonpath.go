// Package jsonpath evaluates Kubernetes JSONPath expressions that come from the network, within limits: the library that
// does the work has none, and panics on some expressions.
package jsonpath

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

const (
	// MaxBytes bounds an expression. Those that name a field of a list item by a filter have some 100 bytes.
	MaxBytes = 1024

	// maxRecursions bounds the recursive descents (..) of one expression: each multiplies what has to be looked at by the depth
	// of the object, and two in a row by the square of it.
	maxRecursions = 1

	// maxFilters bounds filters and wildcards, each of which is evaluated on every item that the ones before it left.
	maxFilters = 8

	// maxUnion bounds how often one item may be found: [0,0][0,0] finds the same one four times, and each further step doubles that.
	maxUnion = 100
)

// Find returns what an expression such as .status.replicas selects in an object of maps, lists and scalars, in the order of the
// object. Braces around it and a $ before it are allowed. A key that is missing is no error. Errors are about the expression:
// its syntax, its limits, or an object that it does not fit.
func Find(expression string, object any) (found []any, err error) {
	text := strip(expression)
	if err := check(text); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			found, err = nil, fmt.Errorf("it does not fit the object: %v", r)
		}
	}()
	path := jsonpath.New("path").AllowMissingKeys(true)
	if err := path.Parse("{" + text + "}"); err != nil {
		return nil, err
	}
	results, err := path.FindResults(object)
	if err != nil || len(results) == 0 {
		return nil, err
	}
	for _, value := range results[0] {
		found = append(found, plain(value))
	}
	return found, nil
}

// plain is a value that was found; nil for one that is null.
func plain(value reflect.Value) any {
	if !value.IsValid() || !value.CanInterface() {
		return nil
	}
	return value.Interface()
}

// strip takes off what may stand around an expression.
func strip(expression string) string {
	text := strings.TrimSpace(expression)
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok {
			text = strings.TrimSpace(inner)
		}
	}
	if rest, ok := strings.CutPrefix(text, "$"); ok && rest != "" {
		text = rest
	}
	return text
}

func check(text string) error {
	switch {
	case text == "":
		return errors.New("it is empty")
	case len(text) > MaxBytes:
		return fmt.Errorf("it has %d bytes, more than the limit of %d", len(text), MaxBytes)
	case strings.Count(text, "..") > maxRecursions:
		return fmt.Errorf("it has more than %d recursive descent (..)", maxRecursions)
	case strings.Count(text, "?(")+strings.Count(text, "*") > maxFilters:
		return fmt.Errorf("it has more than %d filters and wildcards", maxFilters)
	}
	parsed, err := jsonpath.Parse("path", "{"+text+"}")
	if err != nil {
		return err
	}
	if len(parsed.Root.Nodes) != 1 {
		return errors.New("it is more than one expression")
	}
	if n := unions(parsed.Root); n > maxUnion {
		return fmt.Errorf("its lists of indexes and keys may find more than %d times what is there", maxUnion)
	}
	return nil
}

// unions is how often an expression may find the same thing.
func unions(list *jsonpath.ListNode) float64 {
	times := 1.0
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *jsonpath.ListNode:
			times *= unions(node)
		case *jsonpath.UnionNode:
			sum := 0.0
			for _, part := range node.Nodes {
				sum += unions(part)
			}
			times *= sum
		case *jsonpath.FilterNode:
			// What it compares is found for each item, and not kept.
			times *= max(unions(node.Left), unions(node.Right))
		}
	}
	return times
}
