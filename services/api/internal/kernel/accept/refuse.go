package accept

import (
	"errors"
	"fmt"
	"strconv"

	"waybill.dev/shared/envelope"
	"waybill.dev/shared/problem"
)

// Refuse returns the problem for the faults of an event.
func Refuse(faults envelope.Faults) error {
	p := problem.Invalid()
	if errors.Is(faults, envelope.ErrTooLarge) {
		p = problem.New(problem.TooLarge, fmt.Sprintf("An event may have at most %d bytes.", envelope.MaxEventSize))
	} else if len(faults) > 1 {
		p.Detail = "The request has " + strconv.Itoa(len(faults)) + " faults; see errors."
	}
	p.Faults = make([]problem.Fault, len(faults))
	for i, f := range faults {
		p.Faults[i] = problem.Fault{Pointer: f.Pointer, Detail: f.Detail}
	}
	return p
}
