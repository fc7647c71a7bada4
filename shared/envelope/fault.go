package envelope

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"waybill.dev/shared/jsonscan"
)

// ErrTooLarge matches Faults in errors.Is when an event is larger than MaxEventSize.
var ErrTooLarge = errors.New("event too large")

// Fault is one fault in a body: the place and the rule, never the value that was found there.
// TooLarge: an event is larger than MaxEventSize.
type Fault = jsonscan.Fault

// Faults are the faults in a body, in about the order of their places: at most jsonscan.MaxFaults
// of them; the last one may say that there are more.
type Faults []Fault

// Error lists the faults, the first ten of them, in printable ASCII on one line.
func (f Faults) Error() string {
	const shown = 10
	var b strings.Builder
	for i, fault := range f {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(f)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if fault.Pointer != "" {
			b.WriteString(printable(fault.Pointer))
			b.WriteString(": ")
		}
		b.WriteString(fault.Detail)
	}
	return b.String()
}

// printable quotes a pointer that contains other than visible ASCII characters, because the text
// goes into logs and into headers of the bus.
func printable(text string) string {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}

// Is makes errors.Is(faults, ErrTooLarge) report whether any event is too large.
func (f Faults) Is(target error) bool {
	if target != ErrTooLarge {
		return false
	}
	for _, fault := range f {
		if fault.TooLarge {
			return true
		}
	}
	return false
}

// Err returns f as an error, nil when there is no fault.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
