// Package expression keeps CEL expressions that come from the network within bounds which CEL does not have itself.
package expression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

const (
	// MaxBytes bounds one expression: compiling has no budget of its own.
	MaxBytes = 4 << 10

	// maxGrowth bounds how many times larger than what it starts from a value may become by what an expression says. Kubernetes'
	// cost limits do not see it: types are checked before anything is charged, and a comparison is charged after it is done, both
	// item by item although the items are the same. [1].map(a, [a, a]) twenty times over has a million of them in 300 bytes.
	maxGrowth = 1000

	// maxInserted bounds what replace and join put into a text, again and again.
	maxInserted = 64

	// maxOptionals bounds optMap and optFlatMap, each of which doubles what stands before it while the expression is read.
	maxOptionals = 4
)

// CheckText refuses what would take too long to read.
func CheckText(expression string) error {
	if len(expression) > MaxBytes {
		return fmt.Errorf("the expression has %d bytes, more than the limit of %d", len(expression), MaxBytes)
	}
	if strings.Count(expression, "optMap")+strings.Count(expression, "optFlatMap") > maxOptionals {
		return fmt.Errorf("the expression has more than %d optMap and optFlatMap", maxOptionals)
	}
	return nil
}

// CheckGrowth refuses an expression that makes something much larger than what it is given.
func CheckGrowth(e ast.Expr) error {
	g := growth{sizes: map[string]float64{}}
	g.of(e)
	return g.err
}

// growth sums up how large the values of an expression may be, in sizes of the largest one that comes from the object.
type growth struct {
	sizes map[string]float64 // of variables of the loops around; others have 1
	err   error
}

// of is the size of an expression's value, the parts of which are looked at once each.
func (g *growth) of(e ast.Expr) float64 {
	size := 1.0
	switch e.Kind() {
	case ast.IdentKind:
		if known, ok := g.sizes[e.AsIdent()]; ok {
			size = known
		}
	case ast.SelectKind:
		size = g.of(e.AsSelect().Operand())
		if e.AsSelect().IsTestOnly() {
			size = 1
		}
	case ast.ListKind:
		size = g.sum(e.AsList().Elements())
	case ast.MapKind:
		size = g.ofEntries(e.AsMap().Entries())
	case ast.StructKind:
		size = g.ofEntries(e.AsStruct().Fields())
	case ast.CallKind:
		size = g.ofCall(e.AsCall())
	case ast.ComprehensionKind:
		size = g.ofLoop(e.AsComprehension())
	}
	if size > maxGrowth && g.err == nil {
		g.err = fmt.Errorf("the expression makes a value up to %d times larger than what it is made from, or more", maxGrowth)
	}
	return size
}

func (g *growth) sum(all []ast.Expr) (size float64) {
	for _, e := range all {
		size += g.of(e)
	}
	return size
}

func (g *growth) ofEntries(entries []ast.EntryExpr) (size float64) {
	for _, entry := range entries {
		if entry.Kind() == ast.MapEntryKind {
			size += g.of(entry.AsMapEntry().Key()) + g.of(entry.AsMapEntry().Value())
			continue
		}
		size += g.of(entry.AsStructField().Value())
	}
	return size
}

func (g *growth) ofCall(call ast.CallExpr) float64 {
	size := g.sum(call.Args())
	if call.IsMemberFunction() {
		size += g.of(call.Target())
	}
	g.checkInserted(call)
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.In, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse, "size":
		return 1
	}
	return size
}

// checkInserted looks at what a function puts into a text, for each place that it finds.
func (g *growth) checkInserted(call ast.CallExpr) {
	var inserted ast.Expr
	switch args := call.Args(); {
	case call.FunctionName() == "replace" && len(args) >= 2:
		inserted = args[1]
	case call.FunctionName() == "join" && len(args) >= 1:
		inserted = args[0]
	default:
		return
	}
	if inserted.Kind() == ast.LiteralKind {
		if text, ok := inserted.AsLiteral().Value().(string); ok && len(text) <= maxInserted {
			return
		}
	}
	if g.err == nil {
		g.err = fmt.Errorf("what %s inserts is not a literal text of at most %d bytes", call.FunctionName(), maxInserted)
	}
}

// ofLoop is the size of what a macro such as map or exists makes. What a loop adds in each round is paid for round by round, so
// that one round counts.
func (g *growth) ofLoop(loop ast.ComprehensionExpr) float64 {
	items, start := g.of(loop.IterRange()), g.of(loop.AccuInit())
	defer g.with(loop.IterVar(), items)()
	if loop.HasIterVar2() {
		defer g.with(loop.IterVar2(), items)()
	}
	leave := g.with(loop.AccuVar(), start)
	g.of(loop.LoopCondition())
	end := max(start, g.of(loop.LoopStep()))
	leave()
	defer g.with(loop.AccuVar(), end)()
	return g.of(loop.Result())
}

// with sets the size of a variable until what it returns is called.
func (g *growth) with(name string, size float64) func() {
	before, known := g.sizes[name]
	g.sizes[name] = size
	return func() {
		delete(g.sizes, name)
		if known {
			g.sizes[name] = before
		}
	}
}
