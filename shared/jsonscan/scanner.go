// Package jsonscan is the scanner for all JSON from outside. It reads a text once, checks it strictly
// (UTF-8, no repeated member, limited nesting) and reports its faults: at most MaxFaults, each with a
// pointer of at most MaxPointer bytes. Then it stops. Its time grows linearly with the size of the
// text. Its memory is at most twice the size of the text, for an object with nothing but names. An
// ordinary text takes none.
package jsonscan

import (
	"context"
	"errors"
	"sync"
)

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 64

// ErrStop ends a walk that need not go on: there are MaxFaults faults, or the nesting is too deep.
var ErrStop = errors.New("enough is known")

// Options say what is allowed. The zero value is an ordinary text.
type Options struct {
	// Around is how many objects and arrays the text has around the place from which MaxDepth is
	// counted; negative: that many contain the text.
	Around int
	Root   string // pointer of the text in the document that contains it
	// Exact refuses numbers that are too long for exact arithmetic, where 1e999999 is a
	// number of a million digits.
	Exact bool
	// AnyText allows U+0000 in texts and names, for callers that check the parts again.
	AnyText bool
}

// Scanner reads a text. Its methods return an error for a text that is not JSON (*SyntaxError),
// ctx's error when ctx has ended, and ErrStop.
type Scanner struct {
	body    []byte
	pos     int
	ctx     context.Context //nolint:containedctx // a scanner lives as long as one call
	look    int             // where lookUp is called next
	limit   int             // after it, the walk ends with the fault beyond
	beyond  Fault
	options Options

	path   Path
	frames []frame
	names  []uint32 // of the open objects, see frame
	spare  []uint32 // a free table
	nested []uint64 // for skip: a bit for each open container
	plain  []byte   // a name without its escapes
	other  []byte   // an earlier name without its escapes
	nul    bool     // the string that was read last has U+0000

	faults []Fault
	full   bool
}

// frame is an open object or array.
type frame struct {
	object bool
	begun  bool     // a member or an element was read
	first  int      // index of the object's first name in Scanner.names
	count  int      // how many names are in table
	table  []uint32 // hash table of names, once there are many; nil: the names are in Scanner.names
}

// pool keeps the memory of scanners. It contains nothing of a text.
var pool = sync.Pool{New: func() any { return new(Scanner) }} //nolint:gochecknoglobals // a pool

// lookEvery is after how many bytes the context is checked.
const lookEvery = 64 << 10

// New returns a scanner at the beginning of body, which must be shorter than 2 GiB. The walk ends
// with ctx. Free returns the scanner to the pool.
func New(ctx context.Context, body []byte, options Options) *Scanner {
	s := pool.Get().(*Scanner) //nolint:errcheck // the pool holds nothing else
	s.body, s.pos, s.ctx, s.look, s.limit, s.options = body, 0, ctx, lookEvery, len(body), options
	return s
}

// Free ends the use of the scanner. What it has returned stays valid, except names.
func (s *Scanner) Free() {
	const keep = 4 << 10 // entries
	next := Scanner{path: s.path[:0], frames: s.frames[:0], names: s.names[:0], nested: s.nested[:0], plain: s.plain[:0], other: s.other[:0], spare: s.spare}
	clear(s.path[:cap(s.path)])
	clear(s.frames[:cap(s.frames)])
	if cap(next.names) > keep {
		next.names = nil
	}
	if cap(next.plain) > keep {
		next.plain = nil
	}
	if cap(next.other) > keep {
		next.other = nil
	}
	if cap(next.nested) > keep {
		next.nested = nil
	}
	*s = next
	pool.Put(s)
}

// Check reads a whole text and returns its faults. err says that the text is not JSON at all, or
// that ctx has ended.
func Check(ctx context.Context, body []byte, options Options) (faults []Fault, err error) {
	s := New(ctx, body, options)
	defer s.Free()
	if err = s.Walk(); err == nil {
		err = s.End()
	}
	if errors.Is(err, ErrStop) {
		err = nil
	}
	return s.faults, err
}

// Walk reads the next value and everything in it.
func (s *Scanner) Walk() error {
	kind := s.Kind()
	if kind != '{' && kind != '[' {
		raw, err := s.Value()
		if err != nil {
			return err
		}
		s.NoNUL()
		if s.options.Exact && kind == '0' && !measurable(raw) {
			s.Here("is a number with too many digits")
		}
		return nil
	}
	deep, err := s.Open()
	if deep {
		return ErrStop
	}
	for err == nil {
		var more bool
		if kind == '{' {
			_, more, err = s.Member()
		} else {
			more, err = s.Element()
		}
		if err != nil || !more {
			return err
		}
		err = s.Walk()
	}
	return err
}

// Kind returns the kind of the next value by its first byte: one of { [ " 0 t f n, where 0 is any
// number; 0 (no character): there is no value.
func (s *Scanner) Kind() byte {
	s.space()
	if s.pos == len(s.body) {
		return 0
	}
	return kindOf(s.body[s.pos])
}

// Offset returns the scanner's place in the text.
func (s *Scanner) Offset() int { return s.pos }

// Open enters the next object or array. If it is nested too deep, deep is true, the fault is noted,
// and the scanner stays before it.
func (s *Scanner) Open() (deep bool, err error) {
	kind := s.Kind()
	if kind != '{' && kind != '[' {
		return false, s.syntaxError(s.pos)
	}
	if len(s.frames)-s.options.Around >= MaxDepth {
		s.tooDeep()
		return true, nil
	}
	s.pos++
	s.frames = append(s.frames, frame{object: kind == '{', first: len(s.names)})
	s.path = append(s.path, Step{Index: -1})
	return false, nil
}

// Member reads the name of the next member of the open object; its value comes next. more is false
// at the end of the object. A repeated name is noted, and skipped with its value. The name has no
// escapes, and is valid until the next call.
func (s *Scanner) Member() (name []byte, more bool, err error) {
	f := &s.frames[len(s.frames)-1]
	for {
		more, err := s.separator(f, '}')
		if err != nil || !more {
			return nil, false, err
		}
		raw, escaped, err := s.string()
		if err != nil {
			return nil, false, err
		}
		start := s.pos - len(raw)
		if err := s.colon(); err != nil {
			return nil, false, err
		}
		s.path[len(s.path)-1].Name = raw
		name := raw[1 : len(raw)-1]
		if escaped {
			s.plain = appendText(s.plain[:0], raw)
			name = s.plain
		}
		s.NoNUL()
		if s.addName(f, start, name, escaped) {
			return name, true, nil
		}
		s.Here("is given twice")
		if err := s.Skip(); err != nil {
			return nil, false, err
		}
	}
}

// Element goes to the next element of the open array; more is false at its end.
func (s *Scanner) Element() (more bool, err error) {
	more, err = s.separator(&s.frames[len(s.frames)-1], ']')
	if more {
		s.path[len(s.path)-1].Index++
	}
	return more, err
}

// separator reads the text before the next member or element, or the end.
func (s *Scanner) separator(f *frame, end byte) (more bool, err error) {
	if s.full {
		return false, ErrStop
	}
	if s.pos >= s.look {
		if err := s.lookUp(); err != nil {
			return false, err
		}
	}
	s.space()
	if s.pos == len(s.body) {
		return false, s.cutError()
	}
	c := s.body[s.pos]
	if c == end {
		s.pos++
		s.leave(f)
		return false, nil
	}
	if f.begun {
		if c != ',' {
			return false, s.syntaxError(s.pos)
		}
		comma := s.pos
		s.pos++
		s.space()
		if s.pos < len(s.body) && (s.body[s.pos] == '}' || s.body[s.pos] == ']') {
			return false, s.syntaxError(comma)
		}
	}
	f.begun = true
	if s.pos == len(s.body) {
		return false, s.cutError()
	}
	if f.object && s.body[s.pos] != '"' {
		return false, s.syntaxError(s.pos)
	}
	return true, nil
}

// lookUp ends the walk when the context has ended, or the text that is being read is too large.
func (s *Scanner) lookUp() error {
	if s.pos > s.limit {
		s.Add(s.beyond)
		return ErrStop
	}
	s.look = min(s.pos+lookEvery, s.limit+1)
	return s.ctx.Err()
}

// Limit ends the walk with a fault as soon as it is past a place. It replaces the limit of an earlier call.
func (s *Scanner) Limit(end int, beyond Fault) {
	s.limit, s.beyond = end, beyond
	s.look = min(s.look, end+1)
}

// leave leaves the open object or array. The path is then again that of the object or array.
func (s *Scanner) leave(f *frame) {
	if f.object {
		s.forgetNames(f)
	}
	s.frames = s.frames[:len(s.frames)-1]
	s.path = s.path[:len(s.path)-1]
}

// Value reads the next value and returns its bytes, which alias the text. In an object or an array,
// only the syntax is checked.
func (s *Scanner) Value() ([]byte, error) {
	s.space()
	start := s.pos
	s.nul = false
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.body[start:s.pos:s.pos], nil
}

// Skip reads the next value and checks its syntax.
func (s *Scanner) Skip() error {
	s.space()
	return s.skip()
}

// End makes sure that nothing follows the value.
func (s *Scanner) End() error {
	s.space()
	at := s.pos
	if at == len(s.body) {
		return nil
	}
	if kind := s.body[at]; kind == '{' || kind == '[' {
		return &SyntaxError{Offset: at, Reason: Second}
	}
	if err := s.scalar(); err != nil {
		if syntax, ok := errors.AsType[*SyntaxError](err); ok {
			at = syntax.Offset
		}
		return &SyntaxError{Offset: at, Reason: Trailing}
	}
	return &SyntaxError{Offset: at, Reason: Second}
}
