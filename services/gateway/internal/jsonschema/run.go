package jsonschema

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"

	library "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"waybill.dev/shared/jsonscan"
)

// Bounds of what checking a value costs. The unit is about a nanosecond on one processor: each byte
// that is skipped costs one, each schema that is visited costs visit. A check against a schema with
// choices that multiply at each level is given up before it has cost 50 ms for each MiB.
const (
	baseBudget    = 4 << 20
	budgetPerByte = 32
	visit         = 32
	perPattern    = 8   // for each byte that is matched against a pattern
	perCompare    = 16  // for each value of an enum
	perHash       = 4   // for each byte of an array whose elements must differ
	perNumber     = 256 // for arithmetic with a number; a long number costs more
	lookEvery     = 1 << 16
)

// maxNoted ends a run in which only the same few violations are found over and over, as below
// a name that is too long to be shown.
const maxNoted = 10 * maxViolations

// tooComplex is said of a value that is given up.
const tooComplex = "is too expensive to check against its schema"

// run checks one value. It reads the text itself, whose syntax has been checked: a tree of it would
// be many times its size.
type run struct {
	ctx    context.Context //nolint:containedctx // a run lives as long as one call
	facts  map[*library.Schema]*facts
	path   jsonscan.Path
	quiet  int // above 0, only the yes or no matters: violations are not noted
	budget int
	look   int  // remaining budget at which the context is checked next
	gaveUp bool // gaveUp up: too much work, or the context has ended
	done   bool // there are more violations than are reported

	// chain are the schemas that led to the current one. Those that apply to the same value begin
	// at the index that fits gets.
	chain []*library.Schema

	found   []Violation
	noted   int // number of notes, which may repeat the same violation
	rat     big.Rat
	present []bool // of the objects that are being read, see facts.names
	name    []byte
}

// spend takes work from the budget; false: stop.
func (v *run) spend(work int) bool {
	v.budget -= work
	if v.budget < v.look {
		v.look = v.budget - lookEvery
		v.gaveUp = v.gaveUp || v.budget < 0 || v.ctx.Err() != nil
	}
	return !v.stopped()
}

// stopped reports whether to stop.
func (v *run) stopped() bool { return v.gaveUp || v.done }

// skipValue goes past the next value.
func (v *run) skipValue(r *jsonscan.Reader) jsonscan.Value {
	value := r.Take()
	v.spend(len(value))
	return value
}

// fails notes a fault of the current value that a keyword has found, and returns false.
func (v *run) fails(k library.ErrorKind) bool {
	if v.quiet == 0 {
		v.noteFault(detail(k))
	}
	return false
}

// noteFault notes a fault of the current value, or of a member of it. The first fault beyond the maximum
// ends the run.
func (v *run) noteFault(detail string, names ...string) {
	if v.quiet > 0 || v.stopped() {
		return
	}
	pointer, whole := v.path.At("")
	if whole {
		pointer, whole = jsonscan.Below(pointer, names...)
	}
	violation := Violation{pointer, jsonscan.WithLongName(detail, whole)}
	v.noted++
	known := slices.Contains(v.found, violation)
	v.done = !known && len(v.found) == maxViolations || v.noted == maxNoted
	if !known && !v.done {
		v.found = append(v.found, violation)
	}
}

// fits checks the value at r, and moves past it. The schemas of chain from index same on apply to
// the same value. sees records the parts that the schema evaluates; nil: no caller asks for them.
func (v *run) fits(s *library.Schema, r *jsonscan.Reader, same int, sees *evaluated) bool {
	start := *r
	if !v.spend(visit) {
		return false
	}
	if s.Bool != nil {
		v.skipValue(r)
		return *s.Bool || v.fails(&kind.FalseSchema{})
	}
	if slices.Contains(v.chain[same:], s) {
		v.skipValue(r)
		return v.fails(&kind.RefCycle{})
	}
	if s.Ref != nil && s.DraftVersion < 2019 {
		v.chain = append(v.chain, s)
		good := v.fits(s.Ref, r, same, sees)
		v.chain = v.chain[:len(v.chain)-1]
		return good
	}
	if !v.checkWhole(s, *r) {
		v.skipValue(r)
		return false
	}
	var own *evaluated
	if sees != nil || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil {
		own = &evaluated{}
	}
	good := true
	switch r.Kind() {
	case '{':
		good = v.object(s, r, same, own)
	case '[':
		good = v.array(s, r, own)
	case '"':
		good = v.text(s, v.skipValue(r))
	case '0':
		good = v.number(s, v.skipValue(r))
	default:
		v.skipValue(r)
	}
	if v.facts[s].applies {
		v.chain = append(v.chain, s)
		good = v.checkApplied(s, start, same, own) && good
		v.chain = v.chain[:len(v.chain)-1]
	}
	if own != nil {
		good = v.unevaluated(s, start, own) && good
	}
	if good && sees != nil {
		sees.merge(own)
	}
	return good && !v.stopped()
}

// checkWhole checks a value against the keywords that describe it completely: when one of them fails,
// the others would only repeat that.
func (v *run) checkWhole(s *library.Schema, r jsonscan.Reader) bool {
	of := r.Kind()
	if want := v.facts[s].types; want != 0 && want&typeOf(of) == 0 && (of != '0' || want&typeInteger == 0 || !v.isInteger(r)) {
		if v.quiet > 0 {
			return false // the texts are not needed
		}
		return v.fails(&kind.Type{Want: s.Types.ToStrings()})
	}
	if s.Const == nil && s.Enum == nil && s.Format == nil {
		return true
	}
	start := r
	value := v.skipValue(&r)
	if s.Const != nil && !v.equal(*s.Const, start) {
		return v.fails(&kind.Const{Want: *s.Const})
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(one any) bool { return v.equal(one, start) }) {
		return v.fails(&kind.Enum{Want: s.Enum.Values})
	}
	if s.Format != nil && of == '"' {
		if err := v.format(s.Format, value); err != nil {
			return v.fails(&kind.Format{Want: s.Format.Name, Err: err})
		}
	}
	return true
}

var errFormat = errors.New("too long, or given up")

// format reports whether a text has a format. Only addresses are longer than a line.
func (v *run) format(format *library.Format, raw jsonscan.Value) error {
	const longest = 8 << 10
	limit, work := longest, perPattern*len(raw)
	switch format.Name {
	case "uri", "iri", "uri-reference", "iri-reference":
		limit = len(raw)
	case "regex": // the text is compiled, which costs more than its length
		limit, work = longest/32, baseBudget/16
	}
	if len(raw) > limit || !v.spend(work) {
		return errFormat
	}
	text, _ := raw.Text()
	return format.Validate(text)
}

// apply checks the value at start, which others of the chain are about, too.
func (v *run) apply(s *library.Schema, start jsonscan.Reader, same int, own *evaluated) bool {
	return v.fits(s, &start, same, own)
}

// applyQuietly is apply for when only the result matters, not the violations.
func (v *run) applyQuietly(s *library.Schema, start jsonscan.Reader, same int, own *evaluated) bool {
	v.quiet++
	good := v.fits(s, &start, same, own)
	v.quiet--
	return good
}

// checkApplied checks the value at start against the schemas that a schema applies to it as a
// whole.
func (v *run) checkApplied(s *library.Schema, start jsonscan.Reader, same int, own *evaluated) bool {
	good := true
	for _, schema := range v.facts[s].refers {
		good = v.apply(schema, start, same, own) && good
	}
	for _, schema := range s.AllOf {
		good = v.apply(schema, start, same, own) && good
	}
	if s.Not != nil && v.applyQuietly(s.Not, start, same, nil) {
		good = v.fails(&kind.Not{})
	}
	if len(s.AnyOf) > 0 && !v.anyOf(s.AnyOf, start, same, own) {
		good = v.fails(&kind.AnyOf{})
	}
	if len(s.OneOf) > 0 {
		good = v.oneOf(s.OneOf, start, same, own) && good
	}
	switch {
	case s.If == nil:
	case v.applyQuietly(s.If, start, same, own):
		good = (s.Then == nil || v.apply(s.Then, start, same, own)) && good
	default:
		good = (s.Else == nil || v.apply(s.Else, start, same, own)) && good
	}
	return good
}

// anyOf goes on after the first schema that fits only to learn which members the others evaluate.
func (v *run) anyOf(schemas []*library.Schema, start jsonscan.Reader, same int, own *evaluated) bool {
	some := false
	for _, schema := range schemas {
		some = v.applyQuietly(schema, start, same, own) || some
		if some && own == nil {
			break
		}
	}
	return some
}

func (v *run) oneOf(schemas []*library.Schema, start jsonscan.Reader, same int, own *evaluated) bool {
	first := -1
	for i, schema := range schemas {
		switch {
		case !v.applyQuietly(schema, start, same, own):
		case first >= 0:
			return v.fails(&kind.OneOf{Subschemas: []int{first, i}})
		default:
			first = i
		}
	}
	return first >= 0 || v.fails(&kind.OneOf{})
}

// unevaluated checks the parts that no other keyword has evaluated.
func (v *run) unevaluated(s *library.Schema, start jsonscan.Reader, own *evaluated) bool {
	schema, of := s.UnevaluatedProperties, byte('{')
	if start.Kind() == '[' {
		schema, of = s.UnevaluatedItems, '['
	}
	if schema == nil || start.Kind() != of {
		return true
	}
	good := true
	r := start
	r.Enter()
	v.path = append(v.path, jsonscan.Step{})
	last := len(v.path) - 1
	for i := 0; r.Element() && !v.stopped(); i++ {
		if of == '{' {
			v.path[last].Name = v.skipValue(&r)
		}
		v.path[last].Index = i
		if own.has(i) {
			v.skipValue(&r)
		} else {
			good = v.fits(schema, &r, len(v.chain), nil) && good
		}
	}
	v.path = v.path[:last]
	own.all = true
	return good
}

// result returns the violations in the order of their places.
func (v *run) result() []Violation {
	if v.gaveUp {
		return []Violation{{Detail: tooComplex}}
	}
	slices.SortFunc(v.found, func(a, b Violation) int {
		if n := strings.Compare(a.Pointer, b.Pointer); n != 0 {
			return n
		}
		return strings.Compare(a.Detail, b.Detail)
	})
	if v.done {
		v.found = append(v.found[:min(len(v.found), maxViolations-1)], Violation{Detail: jsonscan.More})
	}
	return v.found
}

// evaluated records which members or elements schemas have evaluated, by number; nil: no caller asks.
type evaluated struct {
	all  bool
	bits []uint64
}

func (s *evaluated) mark(i int) {
	if s == nil || s.all {
		return
	}
	for len(s.bits) <= i/64 {
		s.bits = append(s.bits, 0)
	}
	s.bits[i/64] |= 1 << (i % 64)
}

func (s *evaluated) has(i int) bool {
	return s.all || i/64 < len(s.bits) && s.bits[i/64]>>(i%64)&1 == 1
}

func (s *evaluated) merge(other *evaluated) {
	s.all = s.all || other.all
	for len(s.bits) < len(other.bits) {
		s.bits = append(s.bits, 0)
	}
	for i, bits := range other.bits {
		s.bits[i] |= bits
	}
}
