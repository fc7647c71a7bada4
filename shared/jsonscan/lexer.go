package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Reason is what keeps a text from being JSON.
type Reason uint8

// The reasons.
const (
	Malformed Reason = iota // the byte at the offset can't stand there
	Cut                     // the text ends too early
	Second                  // another value follows, at the offset
	Trailing                // something that is no value follows, at the offset
)

// SyntaxError tells where a text stops being JSON. Its text has nothing of it.
type SyntaxError struct {
	Offset int
	Reason Reason
}

// Error says where it is.
func (e *SyntaxError) Error() string {
	switch e.Reason {
	case Cut:
		return "JSON ends too early"
	case Second:
		return "another value follows at byte " + strconv.Itoa(e.Offset)
	}
	return "no JSON from byte " + strconv.Itoa(e.Offset) + " on"
}

func (s *Scanner) bad(at int) error { return &SyntaxError{Offset: at} }

func (s *Scanner) cut() error { return &SyntaxError{Offset: len(s.body), Reason: Cut} }

// kindOf is the kind of a value by its first byte.
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
		return s.cut()
	}
	if s.body[s.pos] != ':' {
		return s.bad(s.pos)
	}
	s.pos++
	return nil
}

// scalar reads a string, a number or a word.
func (s *Scanner) scalar() error {
	if s.pos == len(s.body) {
		return s.cut()
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
	return s.bad(s.pos)
}

func (s *Scanner) word(word string) error {
	for i := range len(word) {
		if s.pos+i == len(s.body) {
			return s.cut()
		}
		if s.body[s.pos+i] != word[i] {
			return s.bad(s.pos + i)
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

// digits reads one digit or more.
func (s *Scanner) digits() error {
	start := s.pos
	for s.pos < len(s.body) && s.body[s.pos]-'0' <= 9 {
		s.pos++
	}
	switch {
	case s.pos > start:
		return nil
	case s.pos == len(s.body):
		return s.cut()
	}
	return s.bad(s.pos)
}

// string reads a string and returns it with its quotes; escaped tells that it has escapes.
func (s *Scanner) string() (raw []byte, escaped bool, err error) {
	start := s.pos
	s.nul = false
	i := start + 1
	for i < len(s.body) {
		c := s.body[i]
		switch {
		case c == '"':
			s.pos = i + 1
			return s.body[start:s.pos:s.pos], escaped, nil
		case c == '\\':
			escaped = true
			n, err := s.escape(i)
			if err != nil {
				return nil, false, err
			}
			i += n
		case c < ' ':
			return nil, false, s.bad(i)
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(s.body[i:])
			if r == utf8.RuneError && n <= 1 {
				if !utf8.FullRune(s.body[i:]) {
					return nil, false, s.cut()
				}
				return nil, false, s.bad(i)
			}
			i += n
		}
	}
	return nil, false, s.cut()
}

// escape returns the length of the escape at i. Half of a surrogate pair is none.
func (s *Scanner) escape(i int) (int, error) {
	if i+1 >= len(s.body) {
		return 0, s.cut()
	}
	switch s.body[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return len(`\n`), nil
	case 'u':
	default:
		return 0, s.bad(i)
	}
	const length = len(`\u0000`)
	unit, err := s.hex(i)
	if err != nil {
		return 0, err
	}
	switch {
	case unit == 0:
		s.nul = true
	case unit >= 0xdc00 && unit <= 0xdfff:
		return 0, s.bad(i)
	case unit >= 0xd800 && unit <= 0xdbff:
		for j, want := range []byte(`\u`) {
			if i+length+j >= len(s.body) {
				return 0, s.cut()
			}
			if s.body[i+length+j] != want {
				return 0, s.bad(i)
			}
		}
		low, err := s.hex(i + length)
		if err != nil {
			return 0, err
		}
		if low < 0xdc00 || low > 0xdfff {
			return 0, s.bad(i)
		}
		return 2 * length, nil
	}
	return length, nil
}

// hex returns the number of the escape \uXXXX at i.
func (s *Scanner) hex(i int) (unit rune, err error) {
	for j := i + len(`\u`); j < i+len(`\u0000`); j++ {
		if j >= len(s.body) {
			return 0, s.cut()
		}
		c := s.body[j]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, s.bad(i)
		}
		unit = unit<<4 | rune(c)
	}
	return unit, nil
}

// appendText appends what a string says that the scanner has found good.
func appendText(b, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(b, raw[1:len(raw)-1]...)
	}
	b, _ = jsontext.AppendUnquote(b, raw) // only what is no string fails
	return b
}

// unescape appends what the escape means that text begins with, which the scanner has found
// good, and tells how long that is.
func unescape(b, text []byte) (out []byte, n int) {
	n = len(`\n`)
	if text[1] == 'u' {
		n = len(`\u0000`)
		if c := text[2] | 0x20; c == 'd' && text[3] >= '8' {
			n *= 2 // a surrogate pair: half of one is not taken
		}
	}
	quoted := append(append([]byte{'"'}, text[:n]...), '"')
	b, _ = jsontext.AppendUnquote(b, quoted) // only what is no string fails
	return b, n
}
