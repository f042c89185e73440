package conditions

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/lru"

	"nave/pkg/expression"
)

// maxPrograms bounds the compiled expressions that are kept. Works of one kind of application share theirs.
const maxPrograms = 256

// internalError is a failure that the writer of an expression can do nothing about.
type internalError struct{ error }

// programs compiles expressions and keeps them.
type programs struct {
	environments func() (*environments, error)
	compiled     *lru.Cache
}

// environments say what expressions may use: object, and in those of messages result as well.
type environments struct{ rule, message *cel.Env }

type programKey struct {
	expression string
	withResult bool
}

// A program is a compiled expression, or the reason why it cannot be one.
type program struct {
	cel.Program
	err error
}

func newPrograms() *programs {
	return &programs{environments: sync.OnceValues(newEnvironments), compiled: lru.New(maxPrograms)}
}

func newEnvironments() (*environments, error) {
	rule, err := newEnvironment(cel.Variable("object", cel.DynType))
	if err != nil {
		return nil, err
	}
	message, err := newEnvironment(cel.Variable("object", cel.DynType), cel.Variable("result", cel.BoolType))
	if err != nil {
		return nil, err
	}
	return &environments{rule, message}, nil
}

// newEnvironment has what upstream's agent has: the libraries of Kubernetes and hasConditions. It is not the environment of
// Kubernetes' own API server, which refuses lists and maps of several types and knows fewer functions of texts. Sets, macros of
// two variables and comparisons of whole numbers with others are more than upstream has.
func newEnvironment(variables ...cel.EnvOption) (*cel.Env, error) {
	env, err := cel.NewEnv(append(variables,
		cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(),
		ext.Strings(), ext.Sets(), ext.TwoVarComprehensions(),
		library.Lists(), library.Regex(), library.URLs(), library.Quantity(), library.IP(), library.CIDR(), library.Format(), library.SemverLib(),
		cel.Function("hasConditions",
			cel.Overload("status_has_conditions", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(hasConditions))))...)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	return env, nil
}

// hasConditions tells whether a status has any conditions; of what is no status it does not.
func hasConditions(status ref.Val) ref.Val {
	mapping, ok := status.(traits.Mapper)
	if !ok {
		return types.False
	}
	found, ok := mapping.Find(types.String("conditions"))
	if !ok {
		return types.False
	}
	list, ok := found.(traits.Lister)
	return types.Bool(ok && list.Size() != types.IntZero)
}

// get compiles an expression, unless that has been done.
func (p *programs) get(text string, withResult bool) (cel.Program, error) {
	key := programKey{text, withResult}
	if known, ok := p.compiled.Get(key); ok {
		return known.(program).Program, known.(program).err
	}
	made, err := p.compile(text, withResult)
	if len(text) <= expression.MaxBytes {
		p.compiled.Add(key, program{made, err})
	}
	return made, err
}

func (p *programs) compile(text string, withResult bool) (made cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil { // expressions come from the network
			made, err = nil, fmt.Errorf("compile: CEL does not take it: %v", r)
		}
	}()
	if err := expression.CheckText(text); err != nil {
		return nil, err
	}
	all, err := p.environments()
	if err != nil {
		return nil, &internalError{err}
	}
	env := all.rule
	if withResult {
		env = all.message
	}
	parsed, issues := env.Parse(text)
	if err := issues.Err(); err != nil {
		return nil, compileError(err)
	}
	if err := expression.CheckGrowth(parsed.NativeRep().Expr()); err != nil {
		return nil, err
	}
	ast, issues := env.Check(parsed)
	if err := issues.Err(); err != nil {
		return nil, compileError(err)
	}
	made, err = env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(&library.CostEstimator{}), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, &internalError{err}
	}
	return made, nil
}

// compileError keeps the first line of an error, which says what is wrong and where; the rest draws the expression.
func compileError(err error) error {
	return fmt.Errorf("compile: %s", strings.Split(err.Error(), "\n")[0])
}
