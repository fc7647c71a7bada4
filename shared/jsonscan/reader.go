package jsonscan

import (
	"bytes"
	"iter"
	"strconv"
)

// Value is a value in a text that a Scanner found valid, as it was written. It is not checked
// again, and not copied.
type Value []byte

// Kind returns the kind of the value: one of { [ " 0 t f n; 0 (no character): there is no value.
func (v Value) Kind() byte {
	r := Read(v)
	return r.Kind()
}

// Text returns the text of a string; ok is false when the value is no string.
func (v Value) Text() (text string, ok bool) {
	v = bytes.Trim(v, " \t\r\n")
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	return string(appendText(make([]byte, 0, len(v)), v)), true
}

// AppendText appends the text of a string.
func (v Value) AppendText(b []byte) []byte { return appendText(b, v) }

// Members returns the members of an object: their names with quotes, and their values.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(name, value Value) bool) {
		r := Read(v)
		if r.Kind() != '{' {
			return
		}
		r.Enter()
		for name, ok := r.Member(); ok; name, ok = r.Member() {
			if !yield(name, r.Take()) {
				return
			}
		}
	}
}

// Elements returns the elements of an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		r := Read(v)
		if r.Kind() != '[' {
			return
		}
		r.Enter()
		for r.Element() {
			if !yield(r.Take()) {
				return
			}
		}
	}
}

// Reader reads a text that a Scanner found valid. A copy of a Reader is a bookmark.
type Reader struct {
	text []byte
	pos  int
}

// Read returns a reader at the beginning of a text.
func Read(text []byte) Reader { return Reader{text: text} }

// Offset returns the reader's place in the text.
func (r *Reader) Offset() int { return r.pos }

// Kind returns the kind of the next value, as Scanner.Kind does.
func (r *Reader) Kind() byte {
	r.space()
	if r.pos >= len(r.text) {
		return 0
	}
	return kindOf(r.text[r.pos])
}

// space skips everything between values.
func (r *Reader) space() {
	for r.pos < len(r.text) {
		if c := r.text[r.pos]; !isSpace(c) && c != ',' && c != ':' {
			return
		}
		r.pos++
	}
}

// Enter enters the next object or array.
func (r *Reader) Enter() {
	r.space()
	r.pos++
}

// Member returns the name of the next member, with its quotes, and goes to its value. ok is false
// at the end of the object, which the reader leaves.
func (r *Reader) Member() (name Value, ok bool) {
	if !r.Element() {
		return nil, false
	}
	return r.Take(), true
}

// Element goes to the next element; false: the array has ended, and the reader leaves it.
func (r *Reader) Element() bool {
	r.space()
	if r.pos >= len(r.text) {
		return false
	}
	if c := r.text[r.pos]; c == ']' || c == '}' {
		r.pos++
		return false
	}
	return true
}

// Take returns the next value.
func (r *Reader) Take() Value {
	r.space()
	start := r.pos
	depth := 0
	for r.pos < len(r.text) {
		switch c := r.text[r.pos]; c {
		case '"':
			raw, _ := text(r.text, r.pos)
			r.pos += len(raw)
		case '{', '[':
			depth++
			r.pos++
		case '}', ']':
			depth--
			r.pos++
		case ' ', '\t', '\r', '\n', ',', ':':
			r.pos++
			continue
		default:
			for r.pos < len(r.text) && !endsWord(r.text[r.pos]) {
				r.pos++
			}
		}
		if depth <= 0 {
			break
		}
	}
	return r.text[start:r.pos:r.pos]
}

// endsWord reports whether a byte ends a number, true, false or null.
func endsWord(c byte) bool {
	return isSpace(c) || c == ',' || c == ':' || c == ']' || c == '}'
}

// text returns the string at a place of a valid text, with its quotes.
func text(body []byte, at int) (raw []byte, escaped bool) {
	i := at + 1
	for {
		n := bytes.IndexByte(body[i:], '"')
		if n < 0 {
			return body[at:], escaped // not in a valid text
		}
		part := body[i : i+n]
		if bytes.IndexByte(part, '\\') < 0 {
			return body[at : i+n+1 : i+n+1], escaped
		}
		escaped = true
		slashes := 0
		for slashes < n && part[n-1-slashes] == '\\' {
			slashes++
		}
		i += n + 1
		if slashes%2 == 0 {
			return body[at:i:i], escaped
		}
	}
}

// measurable reports whether a number is short enough for exact arithmetic.
func measurable(number []byte) bool {
	const maxDigits, maxExponent = 400, 400
	mantissa, exponent, scientific := bytes.Cut(number, []byte("e"))
	if !scientific {
		mantissa, exponent, scientific = bytes.Cut(number, []byte("E"))
	}
	if len(mantissa) > maxDigits {
		return false
	}
	if !scientific {
		return true
	}
	if len(exponent) > maxDigits {
		return false
	}
	n, err := strconv.Atoi(string(exponent))
	return err == nil && n >= -maxExponent && n <= maxExponent
}
