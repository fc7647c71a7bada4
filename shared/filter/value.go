package filter

import (
	"bytes"
	"strconv"
	"time"

	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/rfc3339"
)

// Key stands for a value that is neither object nor array: equal values have equal keys, however
// they are written.
type Key struct {
	Kind byte   // the kind of a jsonscan.Value, or instantKind
	Text string // the string, or the number in its normal form
}

// instantKind is the kind of the event's timestamp and of operands for it.
const instantKind = '@'

type keys map[Key]struct{}

// operand is a value with which a filter compares.
type operand struct {
	kind     byte
	text     []byte
	number   *decimal   // of a number
	instant  *time.Time // of a time
	members  map[string]*operand
	elements []*operand
}

func newOperand(value jsonscan.Value) *operand {
	o := &operand{kind: value.Kind()}
	switch o.kind {
	case '"':
		o.text = textOf(value)
	case '0':
		o.number = new(newDecimal(value))
	case '{':
		o.members = make(map[string]*operand)
		for name, member := range value.Members() {
			text, _ := name.Text()
			o.members[text] = newOperand(member)
		}
	case '[':
		for element := range value.Elements() {
			o.elements = append(o.elements, newOperand(element))
		}
	}
	return o
}

// toInstant turns the operand's text into a time; false: the text is none.
func (o *operand) toInstant() bool {
	if o.kind != '"' {
		return false
	}
	o.kind = instantKind
	at, ok := rfc3339.Parse(string(o.text))
	o.instant = &at
	return ok
}

// instantOf returns the time of a text; the zero time: the text is none.
func instantOf(text []byte) time.Time {
	at, _ := rfc3339.Parse(string(text))
	return at
}

// key returns the operand's key; false: it has none.
func (o *operand) key() (key Key, ok bool) {
	if o == nil {
		return Key{}, false
	}
	switch o.kind {
	case '{', '[':
		return Key{}, false
	case '"':
		return Key{o.kind, string(o.text)}, true
	case '0':
		return Key{o.kind, o.number.text()}, true
	case instantKind:
		return instantKey(*o.instant), true
	}
	return Key{Kind: o.kind}, true
}

func instantKey(at time.Time) Key {
	b := strconv.AppendInt(nil, at.Unix(), 10)
	return Key{instantKind, string(strconv.AppendInt(append(b, '.'), int64(at.Nanosecond()), 10))}
}

// equals compares with a value of an event. The order of an object's members does not matter.
func (o *operand) equals(value jsonscan.Value) bool {
	if value.Kind() != o.kind {
		return false
	}
	switch o.kind {
	case '"':
		return bytes.Equal(o.text, textOf(value))
	case '0':
		return o.number.compare(newDecimal(value)) == 0
	case '{':
		return o.hasMembers(value)
	case '[':
		n := 0
		for element := range value.Elements() {
			if n == len(o.elements) || !o.elements[n].equals(element) {
				return false
			}
			n++
		}
		return n == len(o.elements)
	}
	return true
}

func (o *operand) hasMembers(value jsonscan.Value) bool {
	n := 0
	for name, member := range value.Members() {
		want := o.members[string(textOf(name))]
		if want == nil || !want.equals(member) {
			return false
		}
		n++
	}
	return n == len(o.members)
}

// textOf returns the text of a string. If the string has no escapes, the text is a part of it.
func textOf(value jsonscan.Value) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1]
	}
	return value.AppendText(make([]byte, 0, len(value)))
}
