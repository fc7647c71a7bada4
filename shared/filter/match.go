package filter

import (
	"bytes"
)

// firstMiss returns the part that an event does not match; nil: the event matches.
func (p *filterPart) firstMiss(e *Event) *filterPart {
	switch p.op {
	case opAnd:
		for i := range p.parts {
			if miss := p.parts[i].firstMiss(e); miss != nil {
				return miss
			}
		}
		return nil
	case opOr:
		for i := range p.parts {
			if p.parts[i].firstMiss(e) == nil {
				return nil
			}
		}
		return p
	case opNot:
		if p.parts[0].firstMiss(e) == nil {
			return p
		}
		return nil
	}
	if p.matchesValue(e, e.at(p.path)) {
		return nil
	}
	return p
}

// matchesValue reports whether a clause matches the value at its path; nil: the event has no value there.
func (p *filterPart) matchesValue(e *Event, v *value) bool {
	switch p.op {
	case opExists:
		return (v != nil) == (p.operand.kind == 't')
	case opNe:
		return v == nil || !p.equal(e, v)
	case opNin:
		return v == nil || !p.isAmong(e, v)
	}
	if v == nil {
		return false
	}
	switch p.op {
	case opEq:
		return p.equal(e, v)
	case opIn:
		return p.isAmong(e, v)
	case opStartsWith:
		return v.kind == '"' && bytes.HasPrefix(v.textOf(), p.operand.text)
	case opEndsWith:
		return v.kind == '"' && bytes.HasSuffix(v.textOf(), p.operand.text)
	case opContains:
		return p.isContained(v)
	}
	order, ok := p.operand.order(e, v)
	if !ok {
		return false
	}
	switch p.op {
	case opGt:
		return order > 0
	case opGte:
		return order >= 0
	case opLt:
		return order < 0
	}
	return order <= 0
}

func (p *filterPart) equal(e *Event, v *value) bool {
	switch p.operand.kind {
	case instantKind:
		return e.time(v).Equal(*p.operand.instant)
	case '"':
		return v.kind == '"' && bytes.Equal(v.textOf(), p.operand.text)
	case '0':
		return v.kind == '0' && v.number().compare(*p.operand.number) == 0
	}
	return p.operand.equals(v.raw)
}

// isAmong reports whether the value, or one of its elements if it is an array, is one of the keys.
func (p *filterPart) isAmong(e *Event, v *value) bool {
	switch {
	case p.path.instant:
		return p.choices.hasKey(instantKey(e.time(v)))
	case v.kind == '{':
		return false
	case v.kind == '"':
		return p.choices.has('"', v.textOf())
	case v.kind != '[':
		return p.choices.hasKey(v.key())
	}
	for key := range v.elementKeys() {
		if p.choices.hasKey(key) {
			return true
		}
	}
	return false
}

// isContained reports whether an array has the operand as an element, or a text has it as a part.
func (p *filterPart) isContained(v *value) bool {
	switch v.kind {
	case '"':
		return p.operand.kind == '"' && bytes.Contains(v.textOf(), p.operand.text)
	case '[':
		key, _ := p.operand.key()
		_, ok := v.elementKeys()[key]
		return ok
	}
	return false
}

// order compares a value with the operand; ok is false when they are of different kinds.
func (o *operand) order(e *Event, v *value) (order int, ok bool) {
	switch o.kind {
	case instantKind:
		return e.time(v).Compare(*o.instant), true
	case '0':
		if v.kind == '0' {
			return v.number().compare(*o.number), true
		}
	case '"':
		if v.kind == '"' {
			return bytes.Compare(v.textOf(), o.text), true
		}
	}
	return 0, false
}

// compare compares with another operand of the same kind: a number, a text or a time.
func (o *operand) compare(other *operand) int {
	switch o.kind {
	case instantKind:
		return o.instant.Compare(*other.instant)
	case '0':
		return o.number.compare(*other.number)
	}
	return bytes.Compare(o.text, other.text)
}
