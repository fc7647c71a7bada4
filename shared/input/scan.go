// Package input reads request bodies and queries strictly: nothing is guessed, nothing is ignored,
// and all faults of a request are reported at once, up to a limit.
package input

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"

	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/problem"
)

// MaxDepth is how deep arrays and objects in a body may be nested.
const MaxDepth = jsonscan.MaxDepth

// maxMembers bounds the members of an object that is read as a form, where every name must be known.
const maxMembers = 1000

// Check returns the faults of a JSON value that is not the body of a request: it is not JSON, or
// has something that JSON allows and Waybill does not. Faults call the value what. If ctx ends
// before that is known, Check returns no faults.
func Check(ctx context.Context, value []byte, what string) []problem.Fault {
	return check(ctx, value, what, jsonscan.Options{})
}

// CheckExact is Check for a value that is used for exact arithmetic: numbers must not be too long for that.
func CheckExact(ctx context.Context, value []byte, what string) []problem.Fault {
	return check(ctx, value, what, jsonscan.Options{Exact: true})
}

func check(ctx context.Context, value []byte, what string, options jsonscan.Options) []problem.Fault {
	found, err := jsonscan.Check(ctx, value, options)
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return []problem.Fault{{Detail: syntaxDetail(value, what, syntax)}}
	}
	return shownFaults(found)
}

// shownFaults returns faults in the form that the caller gets.
func shownFaults(found []jsonscan.Fault) []problem.Fault {
	if len(found) == 0 {
		return nil
	}
	faults := make([]problem.Fault, len(found))
	for i, fault := range found {
		faults[i] = problem.Fault{Pointer: fault.Pointer, Detail: fault.Detail}
	}
	return faults
}

// scan reads a whole body once. It fails when the body is not JSON at all, because nothing after
// the first syntax error can be trusted. Nesting that is too deep ends it with a fault.
func scan(body []byte) ([]problem.Fault, error) {
	faults, err := jsonscan.Check(context.Background(), body, jsonscan.Options{}) // the size of the body bounds the check
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return nil, problem.Invalid(problem.Fault{Detail: syntaxDetail(body, "body", syntax)})
	}
	return shownFaults(faults), nil
}

func syntaxDetail(body []byte, what string, err *jsonscan.SyntaxError) string {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return "The " + what + " is empty."
	case err.Reason == jsonscan.Second:
		return "The " + what + " has more than one JSON value."
	}
	return "The " + what + " is not valid JSON, from byte " + strconv.Itoa(err.Offset) + " on."
}

// members returns the members of an object that scan found valid; ok is false when it has more than limit.
func members(object jsonscan.Value, limit int) (names []string, values map[string]jsonscan.Value, ok bool) {
	values = make(map[string]jsonscan.Value)
	for raw, value := range object.Members() {
		if len(values) == limit {
			return nil, nil, false
		}
		name, _ := raw.Text()
		if _, repeated := values[name]; !repeated {
			names = append(names, name)
		}
		values[name] = value
	}
	return names, values, true
}

// elements returns the elements of an array that scan found valid; ok is false when there are fewer
// than minimum or more than maximum.
func elements(array jsonscan.Value, minimum, maximum int) (values []jsonscan.Value, ok bool) {
	for element := range array.Elements() {
		if len(values) == maximum {
			return nil, false
		}
		values = append(values, element)
	}
	return values, len(values) >= minimum
}

// faultList are the faults of a body, only as many as are shown.
type faultList struct {
	faults []problem.Fault
	more   bool
}

func (n *faultList) add(fault problem.Fault) {
	if len(n.faults) == jsonscan.MaxFaults {
		n.more = true
		return
	}
	n.faults = append(n.faults, fault)
}

// err returns the faults in the order of their places, each place once, as a *problem.Problem; nil:
// there are none.
func (n *faultList) err(compare func(a, b problem.Fault) int) error {
	if len(n.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(n.faults, compare)
	faults := slices.CompactFunc(n.faults, func(a, b problem.Fault) bool { return compare(a, b) == 0 })
	if n.more {
		faults = append(faults[:min(len(faults), jsonscan.MaxFaults-1)], problem.Fault{Detail: jsonscan.More})
	}
	return problem.Invalid(faults...)
}
