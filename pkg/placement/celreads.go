package placement

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/api/equality"
)

// celReads is what of a cluster expressions may look at.
type celReads struct {
	paths    [][]string // in the cluster; the empty one is all of it
	scores   []string   // AddOnPlacementScores, by name
	anyScore bool       // which ones is found out only when it is evaluated
}

// add takes notice of what an expression reads, and refuses scores of anything but the cluster itself, which would be a way
// to those of other clusters.
func (r *celReads) add(e ast.Expr) error {
	if path, ok := pathOf(e); ok {
		r.paths = append(r.paths, path)
		return nil
	}
	switch e.Kind() {
	case ast.SelectKind:
		return r.add(e.AsSelect().Operand())
	case ast.CallKind:
		return r.addCall(e.AsCall())
	case ast.ListKind:
		return r.addAll(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if err := r.addAll(entry.AsMapEntry().Key(), entry.AsMapEntry().Value()); err != nil {
				return err
			}
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			if err := r.add(field.AsStructField().Value()); err != nil {
				return err
			}
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		if loop.IterVar() == clusterVariable || loop.IterVar2() == clusterVariable || loop.AccuVar() == clusterVariable {
			return errors.New("no variable but the cluster may be called " + clusterVariable)
		}
		return r.addAll(loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result())
	}
	return nil
}

func (r *celReads) addAll(all ...ast.Expr) error {
	for _, e := range all {
		if err := r.add(e); err != nil {
			return err
		}
	}
	return nil
}

func (r *celReads) addCall(call ast.CallExpr) error {
	if call.FunctionName() == "scores" {
		if !call.IsMemberFunction() || !isCluster(call.Target()) {
			return errors.New("scores is a function of " + clusterVariable + " only")
		}
		if name, ok := literal(call.Args()[0]); ok {
			r.scores = append(r.scores, name)
			return nil
		}
		r.anyScore = true
		return r.add(call.Args()[0])
	}
	if call.IsMemberFunction() {
		if err := r.add(call.Target()); err != nil {
			return err
		}
	}
	return r.addAll(call.Args()...)
}

// pathOf is the path of an expression that picks something of the cluster by names that are written out.
func pathOf(e ast.Expr) ([]string, bool) {
	if isCluster(e) {
		return []string{}, true
	}
	var of ast.Expr
	var name string
	switch e.Kind() {
	case ast.SelectKind:
		of, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		call := e.AsCall()
		if !slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, call.FunctionName()) || len(call.Args()) != 2 {
			return nil, false
		}
		key, ok := literal(call.Args()[1])
		if !ok {
			return nil, false
		}
		of, name = call.Args()[0], key
	default:
		return nil, false
	}
	path, ok := pathOf(of)
	return append(path, name), ok
}

func isCluster(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.TrimPrefix(e.AsIdent(), ".") == clusterVariable
}

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().Value().(string)
	return text, ok
}

// differ tells whether what is read differs between two states of a cluster: the value, or how far there is one, since a
// label that is missing is one thing to an expression and labels that are missing are another.
func (r *celReads) differ(before, after map[string]any) bool {
	for _, path := range r.paths {
		was, deepBefore := follow(before, path)
		is, deepAfter := follow(after, path)
		if deepBefore != deepAfter || !equality.Semantic.DeepEqual(was, is) {
			return true
		}
	}
	return false
}

// follow is what is found on a path, and after how many steps it ends.
func follow(from any, path []string) (any, int) {
	for i, name := range path {
		inside, ok := from.(map[string]any)
		if !ok {
			return from, i
		}
		next, ok := inside[name]
		if !ok {
			return nil, i
		}
		from = next
	}
	return from, len(path)
}

func (r *celReads) readsScore(name string) bool { return r.anyScore || slices.Contains(r.scores, name) }
