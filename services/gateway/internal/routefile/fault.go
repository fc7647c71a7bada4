package routefile

import (
	"errors"
	"strings"

	"waybill.dev/shared/problem"
)

// Fault is one fault of a folder.
type Fault struct {
	File string
	// Operation is the operationId, or method and path; empty: the fault concerns no operation.
	Operation string
	Pointer   string // into the file
	Message   string
}

// Error returns the fault in one line.
func (f Fault) Error() string {
	parts := make([]string, 0, 4)
	for _, part := range []string{f.File, f.Operation, f.Pointer, f.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults is the list of all faults.
type Faults []Fault

// Error returns all faults, one per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// formFaults returns the faults that a form of package input found.
func formFaults(err error) []problem.Fault {
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p.Faults
	}
	return nil
}
