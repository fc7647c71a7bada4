package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Reason is why a text is not JSON.
type Reason uint8

// The reasons.
const (
	Malformed Reason = iota // the byte at the offset is not allowed there
	Cut                     // the text ends too early
	Second                  // another value follows, at the offset
	Trailing                // something that is not a value follows, at the offset
)

// SyntaxError says where a text stops being JSON. Its message contains nothing of the text.
type SyntaxError struct {
	Offset int
	Reason Reason
}

// Error describes the place.
func (e *SyntaxError) Error() string {
	switch e.Reason {
	case Cut:
		return "JSON ends too early"
	case Second:
		return "another value follows at byte " + strconv.Itoa(e.Offset)
	}
	return "no JSON from byte " + strconv.Itoa(e.Offset) + " on"
}

func (s *Scanner) syntaxError(at int) error { return &SyntaxError{Offset: at} }

func (s *Scanner) cutError() error { return &SyntaxError{Offset: len(s.body), Reason: Cut} }

// kindOf returns the kind of a value by its first byte.
func kindOf(c byte) byte {
	switch c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (s *Scanner) space() {
	for s.pos < len(s.body) && isSpace(s.body[s.pos]) {
		s.pos++
	}
}

func (s *Scanner) colon() error {
	s.space()
	if s.pos == len(s.body) {
		return s.cutError()
	}
	if s.body[s.pos] != ':' {
		return s.syntaxError(s.pos)
	}
	s.pos++
	return nil
}

// scalar reads a string, a number or a word.
func (s *Scanner) scalar() error {
	if s.pos == len(s.body) {
		return s.cutError()
	}
	switch kindOf(s.body[s.pos]) {
	case '"':
		_, _, err := s.string()
		return err
	case '0':
		return s.number()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.syntaxError(s.pos)
}

func (s *Scanner) word(word string) error {
	for i := range len(word) {
		if s.pos+i == len(s.body) {
			return s.cutError()
		}
		if s.body[s.pos+i] != word[i] {
			return s.syntaxError(s.pos + i)
		}
	}
	s.pos += len(word)
	return nil
}

func (s *Scanner) number() error {
	if s.body[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.body) && s.body[s.pos] == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.pos < len(s.body) && s.body[s.pos] == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.pos < len(s.body) && (s.body[s.pos] == 'e' || s.body[s.pos] == 'E') {
		s.pos++
		if s.pos < len(s.body) && (s.body[s.pos] == '+' || s.body[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

// digits reads one or more digits.
func (s *Scanner) digits() error {
	start := s.pos
	for s.pos < len(s.body) && s.body[s.pos]-'0' <= 9 {
		s.pos++
	}
	switch {
	case s.pos > start:
		return nil
	case s.pos == len(s.body):
		return s.cutError()
	}
	return s.syntaxError(s.pos)
}

// string reads a string and returns it with its quotes; escaped reports whether it has escapes.
func (s *Scanner) string() (raw []byte, escaped bool, err error) {
	start, body := s.pos, s.body
	s.nul = false
	i := start + 1
	for i < len(body) {
		c := body[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		switch {
		case c == '"':
			s.pos = i + 1
			return body[start:s.pos:s.pos], escaped, nil
		case c == '\\':
			escaped = true
			n, err := s.escape(i)
			if err != nil {
				return nil, false, err
			}
			i += n
		case c < ' ':
			return nil, false, s.syntaxError(i)
		default:
			r, n := utf8.DecodeRune(body[i:])
			if r == utf8.RuneError && n <= 1 {
				if !utf8.FullRune(body[i:]) {
					return nil, false, s.cutError()
				}
				return nil, false, s.syntaxError(i)
			}
			i += n
		}
	}
	return nil, false, s.cutError()
}

// escape returns the length of the escape at i. Half of a surrogate pair is not an escape.
func (s *Scanner) escape(i int) (int, error) {
	if i+1 >= len(s.body) {
		return 0, s.cutError()
	}
	switch s.body[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return len(`\n`), nil
	case 'u':
	default:
		return 0, s.syntaxError(i)
	}
	const length = len(`\u0000`)
	unit, err := s.unit(i)
	if err != nil {
		return 0, err
	}
	switch {
	case unit == 0:
		s.nul = true
	case unit >= 0xdc00 && unit <= 0xdfff:
		return 0, s.syntaxError(i)
	case unit >= 0xd800 && unit <= 0xdbff:
		for j, want := range []byte(`\u`) {
			if i+length+j >= len(s.body) {
				return 0, s.cutError()
			}
			if s.body[i+length+j] != want {
				return 0, s.syntaxError(i)
			}
		}
		low, err := s.unit(i + length)
		if err != nil {
			return 0, err
		}
		if low < 0xdc00 || low > 0xdfff {
			return 0, s.syntaxError(i)
		}
		return 2 * length, nil
	}
	return length, nil
}

// unit returns the value of the escape \uXXXX at i.
func (s *Scanner) unit(i int) (rune, error) {
	unit, ok := hex(s.body[i:])
	switch {
	case ok:
		return unit, nil
	case i+len(`\u0000`) > len(s.body):
		return 0, s.cutError()
	}
	return 0, s.syntaxError(i)
}

// appendText appends the text of a string that the scanner found valid.
func appendText(b, raw []byte) []byte {
	if len(raw) < len(`""`) {
		return b
	}
	rest := raw[1 : len(raw)-1]
	for {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 == len(rest) { // the latter can't happen in a valid text
			return append(b, rest...)
		}
		var n int
		b, n = appendEscape(append(b, rest[:i]...), rest[i:])
		rest = rest[i+n:]
	}
}

// appendEscape appends the character of the escape with which text begins, and returns the length
// of the escape.
func appendEscape(b, text []byte) (out []byte, n int) {
	switch c := text[1]; c {
	case 'b':
		return append(b, '\b'), 2
	case 'f':
		return append(b, '\f'), 2
	case 'n':
		return append(b, '\n'), 2
	case 'r':
		return append(b, '\r'), 2
	case 't':
		return append(b, '\t'), 2
	case 'u':
	default:
		return append(b, c), 2
	}
	const length = len(`\u0000`)
	unit, ok := hex(text)
	if !ok { // not in a valid text
		return append(b, 'u'), 2
	}
	if utf16.IsSurrogate(unit) && len(text) > length {
		low, _ := hex(text[length:])
		return utf8.AppendRune(b, utf16.DecodeRune(unit, low)), min(2*length, len(text))
	}
	return utf8.AppendRune(b, unit), length
}

// hex returns the value of the escape \uXXXX with which text begins.
func hex(text []byte) (unit rune, ok bool) {
	if len(text) < len(`\u0000`) {
		return 0, false
	}
	for _, c := range text[len(`\u`):len(`\u0000`)] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}
