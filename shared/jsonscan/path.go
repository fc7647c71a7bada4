package jsonscan

import (
	"strconv"
)

// Bounds of the size of faults, because their senders choose the names of members.
const (
	MaxFaults  = 100
	MaxPointer = 256 // bytes of a pointer
	maxName    = 128 // bytes of a name in it
)

// Fault is one fault in a text. It has the place and the rule, never the value that was found there.
type Fault struct {
	Pointer  string // RFC 6901, at most MaxPointer bytes; empty: the whole text
	Detail   string
	TooLarge bool // something is larger than it may be
}

// More is the detail of the last of MaxFaults faults if there are more.
const More = "has more faults, which are not listed here"

// Step is a member or an element on the way to a value.
type Step struct {
	Name  []byte // the member's name with its quotes, as in the text; nil: the step is an element
	Index int    // of the element; -1: none yet, the step is the array itself
}

// Path is the way to a value.
type Path []Step

// At returns the pointer of the path below root. If it is too long, or contains a name that is too
// long, it is cut before that, and whole is false. Only the part that is shown is built.
func (p Path) At(root string) (pointer string, whole bool) {
	var room [MaxPointer]byte
	b := append(room[:0], root...)
	for _, step := range p {
		n := len(b)
		switch {
		case step.Name != nil && len(step.Name) > maxName*len(`\u0000`)+2:
			return string(b), false
		case step.Name != nil:
			var plain [maxName * len(`\u0000`)]byte
			b = appendToken(b, appendText(plain[:0], step.Name))
		case step.Index >= 0:
			b = strconv.AppendInt(append(b, '/'), int64(step.Index), 10)
		}
		if len(b) > MaxPointer {
			return string(b[:n]), false
		}
	}
	return string(b), true
}

// Place returns a fault at the path below root.
func (p Path) Place(root, detail string) Fault {
	pointer, whole := p.At(root)
	return Fault{Pointer: pointer, Detail: WithLongName(detail, whole)}
}

// Below returns the pointer of the place that names lead to from the pointer at, cut as in Path.At.
func Below(at string, names ...string) (pointer string, whole bool) {
	b := []byte(at)
	for _, name := range names {
		n := len(b)
		if len(name) > maxName {
			return string(b), false
		}
		if b = appendToken(b, []byte(name)); len(b) > MaxPointer {
			return string(b[:n]), false
		}
	}
	return string(b), true
}

// WithLongName returns the detail of a fault. If the pointer is not whole, the detail is put into a sentence about a
// member with a long name.
func WithLongName(detail string, whole bool) string {
	if whole {
		return detail
	}
	return "has a member with a long name, which " + detail
}

// appendToken appends a part of a pointer. A name that is too long makes the pointer so long that
// it is cut.
func appendToken[T []byte | string](b []byte, name T) []byte {
	b = append(b, '/')
	if len(name) > maxName {
		return append(b, make([]byte, MaxPointer)...)
	}
	for i := range len(name) {
		switch c := name[i]; c {
		case '~':
			b = append(b, "~0"...)
		case '/':
			b = append(b, "~1"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// Faults returns the faults that have been noted so far.
func (s *Scanner) Faults() []Fault { return s.faults }

// Pointer returns the pointer of the member or element that was read last, cut as in Path.At.
func (s *Scanner) Pointer() (pointer string, whole bool) { return s.path.At(s.options.Root) }

// Here notes a fault of the value or name that was read last.
func (s *Scanner) Here(detail string) {
	if !s.full {
		s.Add(s.path.Place(s.options.Root, detail))
	}
}

// NoNUL notes a fault if the string or name that was read last has U+0000: Postgres can't store it
// in a text or JSON value.
func (s *Scanner) NoNUL() {
	if s.nul && !s.options.AnyText {
		s.Here("must not have U+0000")
	}
}

// Add notes a fault. If there are more than MaxFaults, the last one is replaced by the note that
// there are more, and the walk ends.
func (s *Scanner) Add(fault Fault) {
	if !s.full {
		s.faults, s.full = Note(s.faults, fault)
	}
}

// Note appends a fault to a list of at most MaxFaults; full reports that there are more.
func Note(faults []Fault, fault Fault) (list []Fault, full bool) {
	if len(faults) < MaxFaults {
		return append(faults, fault), false
	}
	faults[MaxFaults-1] = Fault{Detail: More}
	return faults, true
}

func (s *Scanner) tooDeep() {
	s.Here("is nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
}
