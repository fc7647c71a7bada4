package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/shared/jsonscan"
)

// operator is an operator of a filter, as it is written.
type operator string

// The operators.
const (
	opAnd operator = "$and"
	opOr  operator = "$or"
	opNot operator = "$not"

	opEq         operator = "$eq"
	opNe         operator = "$ne"
	opGt         operator = "$gt"
	opGte        operator = "$gte"
	opLt         operator = "$lt"
	opLte        operator = "$lte"
	opIn         operator = "$in"
	opNin        operator = "$nin"
	opStartsWith operator = "$startsWith"
	opEndsWith   operator = "$endsWith"
	opContains   operator = "$contains"
	opExists     operator = "$exists"
)

// Operators returns all operators, as they are written.
func Operators() []string {
	var list []string
	for _, op := range []operator{opEq, opNe, opGt, opGte, opLt, opLte, opIn, opNin, opStartsWith, opEndsWith, opContains, opExists, opAnd, opOr, opNot} {
		list = append(list, string(op))
	}
	return list
}

// path leads to a value of an event.
type path struct {
	text    string
	names   []string // of the members on the way
	instant bool     // the path is that of the event's timestamp, which is compared as a time
}

const dataPrefix = "data."

// name returns the member of data with which the path begins; empty: the path is not in data.
func (p *path) name() string {
	if len(p.names) < 2 {
		return ""
	}
	return p.names[1]
}

// newPath returns the path of a text; nil: the text is no path.
func newPath(text string) *path {
	switch {
	case text == "type":
		return &path{text: text, names: []string{text}}
	case text == "timestamp":
		return &path{text: text, names: []string{text}, instant: true}
	case !strings.HasPrefix(text, dataPrefix):
		return nil
	}
	names := strings.Split(text, ".")
	if slices.Contains(names, "") {
		return nil
	}
	return &path{text: text, names: names}
}

// parser reads a filter, which is known to be valid JSON without repeated names.
type parser struct {
	faults  []jsonscan.Fault
	clauses int
}

func (p *parser) fault(detail string, at []string) {
	pointer, whole := jsonscan.Below("", at...)
	p.faults, _ = jsonscan.Note(p.faults, jsonscan.Fault{Pointer: pointer, Detail: jsonscan.WithLongName(detail, whole)})
}

func (p *parser) part(op operator, to *path, value jsonscan.Value, at []string) filterPart {
	pointer, _ := jsonscan.Below("", at...)
	return filterPart{op: op, path: to, pointer: pointer, raw: value}
}

// below returns the place of a member of another place.
func below(at []string, name string) []string { return append(slices.Clip(at), name) }

// checkDepth notes a fault when an object or array is too deep in the filter.
func (p *parser) checkDepth(at []string, depth int) bool {
	if depth > MaxDepth {
		p.fault(fmt.Sprintf("is nested deeper than %d levels", MaxDepth), at)
	}
	return depth <= MaxDepth
}

// filter reads an object of paths and of $and, $or and $not; depth counts it, too.
func (p *parser) filter(value jsonscan.Value, at []string, depth int) filterPart {
	whole := p.part(opAnd, nil, value, at)
	if value.Kind() != '{' {
		p.fault("must be an object", at)
		return whole
	}
	if !p.checkDepth(at, depth) {
		return whole
	}
	for quoted, inner := range value.Members() {
		name, _ := quoted.Text()
		here := below(at, name)
		switch op := operator(name); {
		case op == opAnd, op == opOr, op == opNot:
			whole.parts = append(whole.parts, p.joinedParts(op, nil, inner, here, depth, p.filter))
		case strings.HasPrefix(name, "$"):
			p.fault("is no operator that can stand beside paths: only $and, $or and $not can", here)
		default:
			to := newPath(name)
			if to == nil {
				p.fault("must be type, timestamp, or a path within data such as data.shipmentId", here)
				continue
			}
			whole.parts = append(whole.parts, p.condition(to, inner, here, depth+1))
		}
	}
	if len(whole.parts) == 0 && len(at) > 0 {
		p.fault("must have a path or an operator", at)
	}
	if len(whole.parts) == 1 {
		return whole.parts[0] // a single part decides alone
	}
	whole.parts = slices.Clone(whole.parts) // without unused capacity
	return whole
}

// joinedParts reads the value of $and, $or or $not.
func (p *parser) joinedParts(op operator, to *path, value jsonscan.Value, at []string, depth int, read func(jsonscan.Value, []string, int) filterPart) filterPart {
	whole := p.part(op, to, value, at)
	if op == opNot {
		whole.parts = []filterPart{read(value, at, depth+1)}
		return whole
	}
	if value.Kind() != '[' {
		p.fault("must be an array", at)
		return whole
	}
	if !p.checkDepth(at, depth+1) {
		return whole
	}
	n := 0
	for element := range value.Elements() {
		whole.parts = append(whole.parts, read(element, below(at, strconv.Itoa(n)), depth+2))
		n++
	}
	if n == 0 {
		p.fault("must have at least one element", at)
	}
	return whole
}

// condition reads the condition on a path: a value, or an object of operators, which depth counts.
func (p *parser) condition(to *path, value jsonscan.Value, at []string, depth int) filterPart {
	if value.Kind() != '{' {
		return p.clause(opEq, to, value, at, depth)
	}
	whole := p.part(opAnd, to, value, at)
	if !p.checkDepth(at, depth) {
		return whole
	}
	empty := true
	for quoted, inner := range value.Members() {
		empty = false
		name, _ := quoted.Text()
		here := below(at, name)
		switch op := operator(name); {
		case op == opAnd, op == opOr, op == opNot:
			whole.parts = append(whole.parts, p.joinedParts(op, to, inner, here, depth, func(v jsonscan.Value, at []string, depth int) filterPart {
				return p.condition(to, v, at, depth)
			}))
		case slices.Contains(Operators(), name):
			whole.parts = append(whole.parts, p.clause(op, to, inner, here, depth+1))
		case strings.HasPrefix(name, "$"):
			p.fault("is no operator that there is: "+strings.Join(Operators(), ", "), here)
		default:
			p.fault("is no operator; write the path of a member with dots, and compare with a whole object by $eq", here)
		}
	}
	if empty {
		p.fault("must have an operator", at)
	}
	if len(whole.parts) == 1 {
		return whole.parts[0] // a single part decides alone
	}
	whole.parts = slices.Clone(whole.parts) // without unused capacity
	return whole
}

// clause reads the value of an operator that compares; if it is an object or an array, depth counts it.
func (p *parser) clause(op operator, to *path, value jsonscan.Value, at []string, depth int) filterPart {
	p.clauses++
	c := p.part(op, to, value, at)
	switch op {
	case opEq, opNe:
		c.operand = p.operand(to, value, at, depth)
	case opGt, opGte, opLt, opLte:
		if kind := value.Kind(); kind != '0' && kind != '"' {
			p.fault("must be a number or a string", at)
			return c
		}
		c.operand = p.operand(to, value, at, depth)
	case opIn, opNin:
		c.choices = newChoices(p.operandKeys(to, value, at, depth))
	case opStartsWith, opEndsWith:
		if value.Kind() != '"' {
			p.fault("must be a string", at)
			return c
		}
		c.operand = newOperand(value)
	case opContains:
		c.operand = newOperand(value)
		if _, ok := c.operand.key(); !ok {
			p.fault("must be a string, a number, true, false or null", at)
		}
	case opExists:
		if kind := value.Kind(); kind != 't' && kind != 'f' {
			p.fault("must be true or false", at)
		}
		c.operand = newOperand(value)
	}
	return c
}

// operand reads a value for comparison.
func (p *parser) operand(to *path, value jsonscan.Value, at []string, depth int) *operand {
	if kind := value.Kind(); kind == '{' || kind == '[' {
		if depth+nesting(value)-1 > MaxDepth {
			p.checkDepth(at, MaxDepth+1)
			return nil
		}
	}
	o := newOperand(value)
	if to.instant && !o.toInstant() {
		p.fault("must be an RFC 3339 time", at)
	}
	return o
}

// operandKeys reads the values of $in and $nin.
func (p *parser) operandKeys(to *path, value jsonscan.Value, at []string, depth int) keys {
	if value.Kind() != '[' {
		p.fault("must be an array", at)
		return nil
	}
	if !p.checkDepth(at, depth) {
		return nil
	}
	list, n := keys{}, 0
	for element := range value.Elements() {
		here := below(at, strconv.Itoa(n))
		n++
		if kind := element.Kind(); kind == '{' || kind == '[' {
			p.fault("must be a string, a number, true, false or null", here)
			continue
		}
		key, _ := p.operand(to, element, here, depth+1).key()
		list[key] = struct{}{}
	}
	if n == 0 {
		p.fault("must have at least one element", at)
	}
	return list
}

// nesting returns how deep objects and arrays are nested, the value included.
func nesting(value jsonscan.Value) int {
	depth, deepest := 0, 0
	for quoted, i := false, 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}
