package envelope

import (
	"context"
	"errors"
	"fmt"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

// bodySource is the body that is read.
type bodySource struct {
	body []byte
	// depthAround is how many containers there are around the event; -1: the body is only the data object.
	depthAround int
	root        string // pointer of the body in its event
}

// scanner reads a body once and collects faults. Its methods return an error only if the body is
// not JSON, or when it is not worth going on.
type scanner struct {
	*jsonscan.Scanner
	bodySource

	scoped []scopedFault // of the event that is being read
	on     eventSet      // the event types of the member that is being read
}

// scopedFault is a fault that counts only if the event is of one of the types.
type scopedFault struct {
	Fault
	on eventSet
}

// scan reads the whole body with read. Its error is ctx's.
func scan(ctx context.Context, body []byte, src bodySource, read func(*scanner) error) (Faults, error) {
	src.body = body
	s := &scanner{bodySource: src, Scanner: jsonscan.New(ctx, body, jsonscan.Options{Around: src.depthAround, Root: src.root})}
	defer s.Free()
	err := read(s)
	if err == nil {
		err = s.End()
	}
	syntax, broken := errors.AsType[*jsonscan.SyntaxError](err)
	switch {
	case broken:
		return Faults{{Pointer: src.root, Detail: syntaxDetail(syntax, len(body))}}, nil
	case err != nil && !errors.Is(err, jsonscan.ErrStop):
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return s.Faults(), nil
}

// scanNow is scan for a body that is bounded by the size of an event. It is never broken off.
func scanNow(body []byte, src bodySource, read func(*scanner) error) Faults {
	faults, _ := scan(context.Background(), body, src, read) // the context does not end
	return faults
}

// syntaxDetail describes why a body is not JSON, without any of its text.
func syntaxDetail(err *jsonscan.SyntaxError, size int) string {
	switch {
	case size == 0:
		return "is empty, want JSON"
	case err.Reason == jsonscan.Trailing || err.Reason == jsonscan.Second:
		return "is not valid JSON: something follows the value"
	case err.Reason == jsonscan.Cut:
		return "is not valid JSON: it ends too early"
	}
	return fmt.Sprintf("is not valid JSON at byte %d", err.Offset)
}

// text reads a string that must be valid; otherwise it notes detail and returns "".
func (s *scanner) text(detail string, valid func(string) bool) (string, error) {
	raw, err := s.Value()
	if err != nil {
		return "", err
	}
	text, ok := jsonscan.Value(raw).Text()
	if !ok {
		s.Here("must be a string")
		return "", nil
	}
	if !valid(text) {
		s.Here(detail)
		return "", nil
	}
	return text, nil
}

// refuse skips a value that is not allowed or has the wrong form, and notes a fault.
func (s *scanner) refuse(detail string) error {
	if err := s.Skip(); err != nil {
		return err
	}
	s.Here(detail)
	return nil
}

func (s *scanner) require(pointer string, present bool) {
	if !present {
		s.fault(pointer, "is required")
	}
}

// size notes a fault if a value is too large. An error ends the reading, as at the scanner's limit.
func (s *scanner) size(pointer string, size int) error {
	if size <= MaxEventSize {
		return nil
	}
	s.Add(tooLarge(pointer))
	return jsonscan.ErrStop
}

func tooLarge(pointer string) Fault {
	return Fault{Pointer: pointer, Detail: fmt.Sprintf("is larger than %d bytes", MaxEventSize), TooLarge: true}
}

// check notes a fault that counts only for the event types in s.on; "" is no fault.
func (s *scanner) check(detail string) {
	if detail == "" {
		return
	}
	switch {
	case s.on == 0:
		s.Here(detail)
	case len(s.scoped) <= jsonscan.MaxFaults: // more faults would not be listed
		pointer, _ := s.Pointer()
		s.scoped = append(s.scoped, scopedFault{Fault{Pointer: pointer, Detail: detail}, s.on})
	}
}

// decide notes the scoped faults of an event that count for its type.
func (s *scanner) decide(t domain.EventType) {
	for _, fault := range s.scoped {
		if fault.on&setOf(t) != 0 {
			s.Add(fault.Fault)
		}
	}
	s.scoped = s.scoped[:0]
}

func (s *scanner) fault(pointer, detail string) { s.Add(Fault{Pointer: pointer, Detail: detail}) }
