package jsonschema

import (
	"errors"
	"regexp/syntax"
	"sync/atomic"
)

// Why a Budget gives no more.
var (
	ErrSpent = errors.New("the schemas and regular expressions of the route files are too large, each schema with all that it refers to")
	ErrEnded = errors.New("checking the route files has been ended")
)

// Budget bounds what the schemas of some documents take together, in memory and in time. A schema is
// compiled with all that it refers to, so many small ones that refer to a large one take many times what
// their document has. The unit is one value of a schema, which takes BytesOfValue of memory as long as it
// is kept, and 10 µs to compile. A nil Budget is unlimited.
type Budget struct {
	all   int64
	left  atomic.Int64
	ended atomic.Bool
	rest  func() // nil: the work goes on without pauses
}

// NewBudget returns a budget of so many values. rest, if not nil, is called between two pieces of the
// work.
func NewBudget(values int64, rest func()) *Budget {
	b := &Budget{all: values, rest: rest}
	b.left.Store(values)
	return b
}

// BytesOfValue is about how much memory a value takes as long as it is kept.
const BytesOfValue = 512

// Spent returns how many values were taken. A nil Budget counts none.
func (b *Budget) Spent() int64 {
	if b == nil {
		return 0
	}
	return b.all - b.left.Load()
}

// End stops the work that takes from the budget.
func (b *Budget) End() { b.ended.Store(true) }

// Err says why to stop: ErrSpent, ErrEnded; nil: go on, after the rest.
func (b *Budget) Err() error {
	if b != nil && b.rest != nil {
		b.rest()
	}
	switch {
	case b == nil:
	case b.ended.Load():
		return ErrEnded
	case b.left.Load() < 0:
		return ErrSpent
	}
	return nil
}

func (b *Budget) take(values int64) error {
	if b != nil {
		b.left.Add(-values)
	}
	return b.Err()
}

const (
	// A schema with so many schemas in it takes twice as long as it would if each took the same time: the
	// library searches all of them for each.
	twice = 2000
	// Compiling a schema costs as much as so many values, however small the schema is.
	valuesOfSchema = 8
	// So many bytes of a text, and so many instructions of a regular expression, cost as much as one
	// value.
	bytesOfValue, instructionsOfValue = 128, 12
)

// text takes the cost of a schema from the budget.
func (b *Budget) text(schema []byte) error {
	if b == nil {
		return nil
	}
	values, schemas := int64(valuesOfSchema), int64(0)
	quoted := false
	for i := 0; i < len(schema); i++ {
		switch c := schema[i]; {
		case c == '\\':
			i++ // the escaped character of a text
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',', c == '[':
			values++
		case c == '{', c == 't', c == 'f':
			values++
			schemas++
		}
	}
	return b.take(values + int64(len(schema)/bytesOfValue) + schemas*schemas/twice)
}

// Pattern takes the cost of a regular expression from the budget. A faulty expression costs nothing.
func (b *Budget) Pattern(expression string) error {
	if b == nil {
		return nil
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return b.Err()
	}
	return b.take(instructions(parsed) / instructionsOfValue)
}

// instructions returns about how many a regular expression is compiled to: with counted
// repetitions, many times its length.
func instructions(expression *syntax.Regexp) int64 {
	n := int64(1 + len(expression.Rune))
	for _, part := range expression.Sub {
		n += instructions(part)
	}
	if expression.Op == syntax.OpRepeat {
		n *= int64(max(expression.Min, expression.Max, 1))
	}
	return n
}
