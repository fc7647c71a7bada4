package filter

import (
	"iter"
	"time"

	"waybill.dev/shared/jsonscan"
)

// Event is the payload of an event. Only the parts that filters ask for are read, each of them
// once. Only one goroutine may use it.
type Event struct {
	root    value
	instant time.Time // its timestamp, once read
	timed   bool      // instant has been read
}

// Read returns an event. Its payload, {"id","type","timestamp","data"}, must be valid JSON without
// repeated names, like that of every accepted event.
func Read(payload []byte) *Event {
	return &Event{root: value{raw: payload, kind: jsonscan.Value(payload).Kind()}}
}

// value is a value of the event.
type value struct {
	raw   jsonscan.Value
	kind  byte
	parts *valueParts // nil: no part of it has been read yet
}

// valueParts is the part of a value that has been read.
type valueParts struct {
	members []member         // of an object
	places  map[string]int32 // indexes of members, if there are many
	keys    keys             // of the elements of an array
	text    []byte           // of a string
	number  decimal
}

type member struct {
	name  []byte
	value value
}

// Up to fewMembers members are compared one by one.
const fewMembers = 8

// at returns the value at a path; nil: the event has none.
func (e *Event) at(p *path) *value {
	v := &e.root
	for _, name := range p.names {
		if v = v.member(name); v == nil {
			return nil
		}
	}
	return v
}

// member returns the last member with a name; nil: there is none.
func (v *value) member(name string) *value {
	if v.kind != '{' {
		return nil
	}
	if v.parts == nil {
		v.open()
	}
	if v.parts.places != nil {
		if at, ok := v.parts.places[name]; ok {
			return &v.parts.members[at].value
		}
		return nil
	}
	for i := len(v.parts.members) - 1; i >= 0; i-- {
		if string(v.parts.members[i].name) == name {
			return &v.parts.members[i].value
		}
	}
	return nil
}

// open reads the members of an object, and skips their values.
func (v *value) open() {
	v.parts = &valueParts{members: make([]member, 0, fewMembers)}
	for quoted, raw := range v.raw.Members() {
		v.parts.members = append(v.parts.members, member{textOf(quoted), value{raw: raw, kind: raw.Kind()}})
	}
	if len(v.parts.members) <= fewMembers {
		return
	}
	v.parts.places = make(map[string]int32, len(v.parts.members))
	for i := range v.parts.members {
		v.parts.places[string(v.parts.members[i].name)] = int32(i)
	}
}

// textOf returns the text of a string.
func (v *value) textOf() []byte {
	if v.parts == nil {
		v.parts = &valueParts{text: textOf(v.raw)}
	}
	return v.parts.text
}

func (v *value) number() decimal {
	if v.parts == nil {
		v.parts = &valueParts{number: newDecimal(v.raw)}
	}
	return v.parts.number
}

// key returns the key of a value that is neither object nor array.
func (v *value) key() Key {
	switch v.kind {
	case '"':
		return Key{v.kind, string(v.textOf())}
	case '0':
		return Key{v.kind, v.number().text()}
	}
	return Key{Kind: v.kind}
}

// elementKeys returns the keys of the elements of an array.
func (v *value) elementKeys() keys {
	if v.parts != nil {
		return v.parts.keys
	}
	v.parts = &valueParts{keys: keys{}}
	for raw := range v.raw.Elements() {
		if kind := raw.Kind(); kind != '{' && kind != '[' {
			element := value{raw: raw, kind: kind}
			v.parts.keys[element.key()] = struct{}{}
		}
	}
	return v.parts.keys
}

// time returns the event's timestamp.
func (e *Event) time(v *value) time.Time {
	if !e.timed && v.kind == '"' { // it is a string in each accepted event
		e.instant, e.timed = instantOf(v.textOf()), true
	}
	return e.instant
}

// Keys calls yield with the keys that the event has at the path of need: the key of the value, or
// the keys of an array's elements.
func (e *Event) Keys(need PathKeys, yield func(Key)) {
	v := e.at(need.path)
	switch {
	case v == nil || v.kind == '{':
	case v.kind == '[':
		for key := range v.elementKeys() {
			yield(key)
		}
	default:
		yield(v.key())
	}
}

// Names returns the names of data's members, each once, so that a name that is sent many times is
// not looked up as often. The bytes must not be changed.
func (e *Event) Names() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		data := e.root.member("data")
		if data == nil || data.kind != '{' {
			return
		}
		_ = data.member("") // reads them
		for i := range data.parts.members {
			m := &data.parts.members[i]
			if data.member(string(m.name)) == &m.value && !yield(m.name) {
				return
			}
		}
	}
}
