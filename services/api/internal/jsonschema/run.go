package jsonschema

import (
	"context"
	"slices"
	"strings"

	library "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"waybill.dev/shared/jsonscan"
)

// What checking a value may cost. The unit is about a nanosecond on one processor: a byte
// that is passed over costs one, a schema that is met costs visit. A schema whose choices
// multiply with each level is given up before it has cost 50 ms for each MiB.
const (
	baseBudget    = 4 << 20
	budgetPerByte = 32
	visit         = 32
	perPattern    = 8   // for each byte that a pattern is held against
	perCompare    = 16  // for each value of an enum
	perHash       = 4   // for each byte of an array whose elements must differ
	perNumber     = 256 // for a number that is reckoned with, and more for a long one
	lookEvery     = 1 << 18
)

// tooComplex is said of a value that is given up.
const tooComplex = "takes too much work to be checked"

// run checks one value. It reads the text itself, whose syntax is known to be good: a tree
// of it would be many times its size.
type run struct {
	ctx    context.Context //nolint:containedctx // a run lives as long as one call
	facts  map[*library.Schema]*facts
	path   jsonscan.Path
	quiet  int // above 0 it only matters whether a value fits
	budget int
	look   int // what is left of the budget when the context is looked at next
	given  bool
	err    error

	found   []Violation
	more    bool
	present []bool // of the objects that are being read, see facts.names
	name    []byte
}

// link is a schema that the value in hand is being checked against, and those that led there.
type link struct {
	schema *library.Schema
	up     *link
}

func (l *link) has(s *library.Schema) bool {
	for ; l != nil; l = l.up {
		if l.schema == s {
			return true
		}
	}
	return false
}

// spend takes work from the budget; false: nothing more is to be done.
func (v *run) spend(work int) bool {
	if v.given {
		return false
	}
	v.budget -= work
	if v.budget < v.look {
		v.look = v.budget - lookEvery
		v.err = v.ctx.Err()
		v.given = v.err != nil
	}
	if v.budget < 0 {
		v.given = true
	}
	return !v.given
}

// take goes past the next value.
func (v *run) take(r *jsonscan.Reader) jsonscan.Value {
	value := r.Take()
	v.spend(len(value))
	return value
}

// fault notes what a keyword finds wrong with the value in hand.
func (v *run) fault(k library.ErrorKind) {
	if v.quiet == 0 {
		v.note(detail(k))
	}
}

// note notes a fault of the value in hand, or of a member of it.
func (v *run) note(detail string, names ...string) {
	if v.quiet > 0 || v.given {
		return
	}
	pointer, whole := v.path.At("")
	if whole {
		pointer, whole = jsonscan.Below(pointer, names...)
	}
	violation := Violation{pointer, jsonscan.Shown(detail, whole)}
	if len(v.found) == maxViolations {
		if !slices.Contains(v.found, violation) {
			v.more = true
		}
		return
	}
	v.found = append(v.found, violation)
}

// fits checks the value that r is at, and goes past it. sees is told what of it the schema
// speaks of; nil: nobody asks.
func (v *run) fits(s *library.Schema, r *jsonscan.Reader, up *link, sees *seen) bool {
	start := *r
	if !v.spend(visit) {
		return false
	}
	if s.Bool != nil {
		v.take(r)
		if !*s.Bool {
			v.fault(&kind.FalseSchema{})
		}
		return *s.Bool
	}
	if up.has(s) {
		v.take(r)
		v.fault(&kind.RefCycle{})
		return false
	}
	if s.Ref != nil && s.DraftVersion < 2019 {
		return v.fits(s.Ref, r, &link{s, up}, sees)
	}
	if k := v.whole(s, *r); k != nil {
		v.take(r)
		v.fault(k)
		return false
	}
	own := seen{asked: sees != nil || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil}
	var good bool
	switch r.Kind() {
	case '{':
		good = v.object(s, r, up, &own)
	case '[':
		good = v.array(s, r, &own)
	case '"':
		good = v.text(s, v.take(r))
	case '0':
		good = v.number(s, v.take(r))
	default:
		v.take(r)
		good = true
	}
	good = v.applied(s, start, &link{s, up}, &own) && good
	good = v.unevaluated(s, start, &own) && good
	if good && sees != nil {
		sees.merge(&own)
	}
	return good && !v.given
}

// whole checks a value against the keywords that say all about it: when one of them does not
// fit, the others would only say the same.
func (v *run) whole(s *library.Schema, r jsonscan.Reader) library.ErrorKind {
	of := r.Kind()
	if want := v.facts[s].types; want != 0 && want&typeOf(of) == 0 && (of != '0' || want&typeInteger == 0 || !v.isInteger(r)) {
		return &kind.Type{Want: s.Types.ToStrings()}
	}
	if s.Const == nil && s.Enum == nil && s.Format == nil {
		return nil
	}
	start := r
	value := v.take(&r)
	if s.Const != nil && !v.equal(*s.Const, start) {
		return &kind.Const{Want: *s.Const}
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(one any) bool { return v.equal(one, start) }) {
		return &kind.Enum{Want: s.Enum.Values}
	}
	if s.Format != nil && of == '"' && !v.hasFormat(s.Format, value) {
		return &kind.Format{Want: s.Format.Name}
	}
	return nil
}

// hasFormat tells whether a text has a format. Only addresses are longer than a line.
func (v *run) hasFormat(format *library.Format, raw jsonscan.Value) bool {
	const longest = 8 << 10
	limit, work := longest, perPattern*len(raw)
	switch format.Name {
	case "uri", "iri", "uri-reference", "iri-reference":
		limit = len(raw)
	case "regex": // is compiled, which costs more than it is long
		limit, work = longest/32, baseBudget/16
	}
	if len(raw) > limit || !v.spend(work) {
		return false
	}
	text, _ := raw.Text()
	return format.Validate(text) == nil
}

// applied checks the value at start against the schemas that a schema applies to it as a
// whole.
func (v *run) applied(s *library.Schema, start jsonscan.Reader, up *link, own *seen) bool {
	fits := func(schema *library.Schema) bool {
		r := start
		return v.fits(schema, &r, up, own.asks())
	}
	quietly := func(schema *library.Schema) bool {
		v.quiet++
		defer func() { v.quiet-- }()
		return fits(schema)
	}
	good := true
	if s.Ref != nil {
		good = fits(s.Ref)
	}
	for _, schema := range s.AllOf {
		good = fits(schema) && good
	}
	if s.Not != nil && v.denied(s.Not, start, up) {
		v.fault(&kind.Not{})
		good = false
	}
	if len(s.AnyOf) > 0 && !v.anyOf(s.AnyOf, quietly, own) {
		v.fault(&kind.AnyOf{})
		good = false
	}
	if len(s.OneOf) > 0 {
		good = v.oneOf(s.OneOf, quietly) && good
	}
	switch {
	case s.If == nil:
	case quietly(s.If):
		good = (s.Then == nil || fits(s.Then)) && good
	default:
		good = (s.Else == nil || fits(s.Else)) && good
	}
	return good
}

// denied tells whether the value fits a schema that it must not fit.
func (v *run) denied(s *library.Schema, start jsonscan.Reader, up *link) bool {
	v.quiet++
	defer func() { v.quiet-- }()
	return v.fits(s, &start, up, nil)
}

// anyOf goes on after the first that fits only to see what the others speak of.
func (v *run) anyOf(schemas []*library.Schema, fits func(*library.Schema) bool, own *seen) bool {
	some := false
	for _, schema := range schemas {
		some = fits(schema) || some
		if some && !own.asked {
			break
		}
	}
	return some
}

func (v *run) oneOf(schemas []*library.Schema, fits func(*library.Schema) bool) bool {
	first := -1
	for i, schema := range schemas {
		switch {
		case !fits(schema):
		case first >= 0:
			v.fault(&kind.OneOf{Subschemas: []int{first, i}})
			return false
		default:
			first = i
		}
	}
	if first < 0 {
		v.fault(&kind.OneOf{})
	}
	return first >= 0
}

// unevaluated checks what no other keyword has spoken of.
func (v *run) unevaluated(s *library.Schema, start jsonscan.Reader, own *seen) bool {
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
	for i := 0; r.Element() && !v.given; i++ {
		if of == '{' {
			v.path[last].Name = v.take(&r)
		}
		v.path[last].Index = i
		if own.has(i) {
			v.take(&r)
		} else {
			good = v.fits(schema, &r, nil, nil) && good
		}
	}
	v.path = v.path[:last]
	own.all = true
	return good
}

// result are the violations in the order of their places.
func (v *run) result() []Violation {
	if v.given {
		return []Violation{{Detail: tooComplex}}
	}
	slices.SortFunc(v.found, func(a, b Violation) int {
		if n := strings.Compare(a.Pointer, b.Pointer); n != 0 {
			return n
		}
		return strings.Compare(a.Detail, b.Detail)
	})
	found := slices.Compact(v.found)
	if v.more {
		found = append(found[:min(len(found), maxViolations-1)], Violation{Detail: jsonscan.More})
	}
	return found
}

// seen is what of an object or array schemas have spoken of, by the number of the member or
// element.
type seen struct {
	asked bool
	all   bool
	bits  []uint64
}

// asks returns s when anybody asks.
func (s *seen) asks() *seen {
	if s.asked {
		return s
	}
	return nil
}

func (s *seen) mark(i int) {
	if !s.asked || s.all {
		return
	}
	for len(s.bits) <= i/64 {
		s.bits = append(s.bits, 0)
	}
	s.bits[i/64] |= 1 << (i % 64)
}

func (s *seen) has(i int) bool {
	return s.all || i/64 < len(s.bits) && s.bits[i/64]>>(i%64)&1 == 1
}

func (s *seen) merge(other *seen) {
	s.all = s.all || other.all
	for len(s.bits) < len(other.bits) {
		s.bits = append(s.bits, 0)
	}
	for i, bits := range other.bits {
		s.bits[i] |= bits
	}
}
