package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/domain"
)

// What pointers may grow to: names of members are the publisher's.
const (
	maxNameShown    = 128
	maxPointerShown = 1024
)

// source is what is being read.
type source struct {
	body []byte
	// around is how many containers the body has around the event; -1: the body is the
	// data object alone.
	around int
	root   string // pointer of the body in its event
}

// scanner walks once over a body and collects faults. Its methods return an error only
// for what is not JSON.
type scanner struct {
	source
	dec *jsontext.Decoder
	nul bool // the body has the text \u0000 somewhere

	faults Faults
	full   bool
	scoped []scopedFault // of the event that is being read
	on     eventSet      // to which the member belongs that is being read

	repeats bool // repeated names are told by names, not by the decoder
	names   []map[string]struct{}
}

// scopedFault counts only if the event turns out to be of one of the types.
type scopedFault struct {
	Fault
	on eventSet
}

var (
	errStop     = errors.New("enough is known")
	errTrailing = errors.New("something follows the value")
)

// decoders keeps what a decoder has allocated for its stack: half of the time that a
// single event takes. It is the package's only state, and nothing of a body is in it.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }} //nolint:gochecknoglobals // a pool

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// scan reads the whole of body with read. A repeated name ends the decoder's work though
// the body is well-formed: then it is read once more, in a slower way that goes on.
func scan(body []byte, src source, read func(*scanner) error) Faults {
	src.body = body
	s := &scanner{source: src, nul: bytes.Contains(body, []byte(`\u0000`))}
	s.dec = decoders.Get().(*jsontext.Decoder) //nolint:errcheck // the pool holds nothing else
	s.dec.Reset(bytes.NewBuffer(body))
	err := s.whole(read)
	s.dec.Reset(eof{}) // so that it does not keep the body
	decoders.Put(s.dec)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		s = &scanner{source: src, nul: s.nul, repeats: true}
		s.dec = jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
		err = s.whole(read)
	}
	if err != nil {
		return Faults{{Pointer: src.root, Detail: syntaxDetail(err, len(body))}}
	}
	return s.faults
}

// whole runs read, then makes sure that nothing follows the value.
func (s *scanner) whole(read func(*scanner) error) error {
	err := read(s)
	if errors.Is(err, errStop) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = s.dec.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	return errTrailing
}

// syntaxDetail says why a body is not JSON without any of its text.
func syntaxDetail(err error, size int) string {
	if size == 0 {
		return "is empty, want JSON"
	}
	if errors.Is(err, errTrailing) {
		return "is not valid JSON: something follows the value"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "is not valid JSON: it ends too early"
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Sprintf("is not valid JSON at byte %d", syntactic.ByteOffset)
	}
	return "is not valid JSON"
}

// open reads the start of an object or array and returns its offset. When that is nested
// too deep, deep is true, the fault is noted and the whole value is read.
func (s *scanner) open() (start int, deep bool, err error) {
	token, err := s.dec.ReadToken()
	if err != nil {
		return 0, false, err
	}
	start = int(s.dec.InputOffset()) - 1
	if s.dec.StackDepth()-s.around > MaxDepth {
		s.here(fmt.Sprintf("is nested deeper than %d levels", MaxDepth))
		return start, true, s.skipRest(token.Kind())
	}
	if s.repeats && token.Kind() == '{' {
		s.names = append(s.names, map[string]struct{}{})
	}
	return start, false, nil
}

func (s *scanner) skipRest(opened jsontext.Kind) error {
	closing := jsontext.Kind('}')
	if opened == '[' {
		closing = ']'
	}
	for s.dec.PeekKind() != closing {
		if err := s.dec.SkipValue(); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

// next returns the name of an object's next member, whose value is to be read then; ok
// is false once the object has ended. The name is valid until the next read.
func (s *scanner) next() (name []byte, ok bool, err error) {
	for {
		if s.full {
			return nil, false, errStop
		}
		if s.dec.PeekKind() == '}' {
			if s.repeats {
				s.names = s.names[:len(s.names)-1]
			}
			_, err := s.dec.ReadToken()
			return nil, false, err
		}
		raw, err := s.dec.ReadValue()
		if err != nil {
			return nil, false, err
		}
		s.noNUL(raw)
		name := raw[1 : len(raw)-1]
		if hasEscape(name) {
			name = []byte(unquote(raw))
		}
		if !s.repeats || s.fresh(string(name)) {
			return name, true, nil
		}
		s.here("is given twice")
		if err := s.dec.SkipValue(); err != nil {
			return nil, false, err
		}
	}
}

func (s *scanner) fresh(name string) bool {
	seen := s.names[len(s.names)-1]
	_, twice := seen[name]
	seen[name] = struct{}{}
	return !twice
}

// text reads a string that must be valid; otherwise it notes detail and returns "".
func (s *scanner) text(detail string, valid func(string) bool) (string, error) {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if raw.Kind() != '"' {
		s.here("must be a string")
		return "", nil
	}
	text := unquote(raw)
	if !valid(text) {
		s.here(detail)
		return "", nil
	}
	return text, nil
}

// refuse reads a value that must not be there, or not be like this.
func (s *scanner) refuse(detail string) error {
	if _, err := s.dec.ReadValue(); err != nil {
		return err
	}
	s.here(detail)
	return nil
}

func (s *scanner) noNUL(raw jsontext.Value) {
	if s.nul && escapesNUL(raw) {
		s.here("must not have U+0000")
	}
}

func (s *scanner) require(pointer string, present bool) {
	if !present {
		s.fault(pointer, "is required")
	}
}

func (s *scanner) size(pointer string, size int) {
	if size > MaxEventSize {
		s.add(Fault{Pointer: pointer, Detail: fmt.Sprintf("is larger than %d bytes", MaxEventSize), TooLarge: true})
	}
}

// here notes a fault of the value or name that was read last.
func (s *scanner) here(detail string) {
	pointer, whole := s.shownPointer()
	if !whole {
		detail = "has a member with a long name, which " + detail
	}
	s.fault(pointer, detail)
}

// check notes a fault that counts for the event types in s.on only; "" is no fault.
func (s *scanner) check(detail string) {
	if detail == "" {
		return
	}
	switch {
	case s.on == 0:
		s.here(detail)
	case len(s.scoped) <= maxFaults: // more would not be listed either
		pointer, _ := s.shownPointer()
		s.scoped = append(s.scoped, scopedFault{Fault{Pointer: pointer, Detail: detail}, s.on})
	}
}

// settle decides about the scoped faults of an event once its type is known.
func (s *scanner) settle(t domain.EventType) {
	for _, fault := range s.scoped {
		if fault.on&setOf(t) != 0 {
			s.add(fault.Fault)
		}
	}
	s.scoped = s.scoped[:0]
}

func (s *scanner) fault(pointer, detail string) { s.add(Fault{Pointer: pointer, Detail: detail}) }

func (s *scanner) add(fault Fault) {
	switch {
	case s.full:
	case len(s.faults) < maxFaults:
		s.faults = append(s.faults, fault)
	default:
		s.full = true
		s.faults = append(s.faults, Fault{Detail: "has more faults than are listed here"})
	}
}

// pointer returns where the value is that was read last.
func (s *scanner) pointer() string { return s.root + string(s.dec.StackPointer()) }

// shownPointer is pointer, cut before a name that is too long to be shown.
func (s *scanner) shownPointer() (shown string, whole bool) {
	full := s.dec.StackPointer()
	if len(full) <= maxNameShown {
		return s.root + string(full), true
	}
	var cut jsontext.Pointer
	for token := range full.Tokens() {
		if len(token) > maxNameShown || len(cut)+len(token) > maxPointerShown {
			return s.root + string(cut), false
		}
		cut = cut.AppendToken(token)
	}
	return s.root + string(full), true
}
