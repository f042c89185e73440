package ignore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/itchyny/gojq"
)

// harmless refuses expressions that make values: texts and lists that double with each step fill any memory well within the
// time that an expression may take. What chooses among the fields of the object stays: steps down, select, comparisons.
func harmless(q *gojq.Query) error {
	if q == nil {
		return nil
	}
	switch {
	case q.Term == nil && q.Op == 0:
		return errors.New("it is empty")
	case q.Meta != nil || len(q.Imports) > 0:
		return notAllowed("a module")
	case len(q.FuncDefs) > 0:
		return notAllowed("def")
	}
	for _, p := range q.Patterns {
		if p.Name == "" {
			return notAllowed("as with a pattern")
		}
	}
	if q.Term != nil {
		return harmlessTerm(q.Term)
	}
	switch q.Op {
	case gojq.OpPipe, gojq.OpComma, gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe, gojq.OpAnd, gojq.OpOr, gojq.OpAlt:
		return allHarmless(q.Left, q.Right)
	}
	return notAllowed("the operator " + q.Op.String())
}

func notAllowed(what string) error { return fmt.Errorf("%s is not allowed in a path", what) }

func allHarmless(all ...*gojq.Query) error {
	for _, q := range all {
		if err := harmless(q); err != nil {
			return err
		}
	}
	return nil
}

func harmlessTerm(t *gojq.Term) error {
	for _, suffix := range t.SuffixList {
		if err := harmlessIndex(suffix.Index); err != nil {
			return err
		}
	}
	switch t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeRecurse, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return nil
	case gojq.TermTypeIndex:
		return harmlessIndex(t.Index)
	case gojq.TermTypeString:
		return harmlessText(t.Str)
	case gojq.TermTypeQuery:
		return harmless(t.Query)
	case gojq.TermTypeUnary:
		return harmlessTerm(t.Unary.Term)
	case gojq.TermTypeTry:
		return allHarmless(t.Try.Body, t.Try.Catch)
	case gojq.TermTypeIf:
		return harmlessIf(t.If)
	case gojq.TermTypeArray:
		return harmlessArray(t.Array)
	case gojq.TermTypeFunc:
		return harmlessCall(t.Func)
	}
	return notAllowed(t.String())
}

func harmlessIndex(i *gojq.Index) error {
	if i == nil {
		return nil
	}
	if err := harmlessText(i.Str); err != nil {
		return err
	}
	return allHarmless(i.Start, i.End)
}

func harmlessText(s *gojq.String) error {
	if s != nil && len(s.Queries) > 0 {
		return notAllowed(`\( in a text`)
	}
	return nil
}

func harmlessIf(i *gojq.If) error {
	for _, elif := range i.Elif {
		if err := allHarmless(elif.Cond, elif.Then); err != nil {
			return err
		}
	}
	return allHarmless(i.Cond, i.Then, i.Else)
}

// harmlessArray allows lists of literals, for getpath and the like; any other may collect without end.
func harmlessArray(a *gojq.Array) error {
	if a.Query == nil || literals(a.Query) {
		return nil
	}
	return notAllowed("a list of what is computed")
}

func literals(q *gojq.Query) bool {
	if q.Op == gojq.OpComma {
		return literals(q.Left) && literals(q.Right)
	}
	if q.Term == nil || len(q.Term.SuffixList) > 0 {
		return false
	}
	switch q.Term.Type {
	case gojq.TermTypeString:
		return harmlessText(q.Term.Str) == nil
	case gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return true
	}
	return false
}

// harmlessCall allows functions whose result is no larger than what they are given. $ENV is no variable of an expression's own.
func harmlessCall(f *gojq.Func) error {
	switch f.Name {
	case "select", "empty", "not", "has", "in", "inside", "contains", "IN", "getpath", "any", "all", "isempty", "first", "last", "length",
		"type", "keys", "startswith", "endswith", "ltrimstr", "rtrimstr", "trim", "test", "tostring", "tonumber", "ascii_downcase", "ascii_upcase",
		"values", "nulls", "strings", "numbers", "booleans", "arrays", "objects", "iterables", "scalars":
		return allHarmless(f.Args...)
	}
	if strings.HasPrefix(f.Name, "$") && f.Name != "$ENV" && f.Name != "$__loc__" && f.Name != "$__prog_args" {
		return nil
	}
	return notAllowed("the function " + f.Name)
}
