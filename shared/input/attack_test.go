package input_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"waybill.dev/shared/input"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/jsonscan/attack"
	"waybill.dev/shared/problem"
)

// hold reads a body as every reader of this package does, within what its size allows.
func hold(t *testing.T, body []byte) {
	t.Helper()
	attack.Hold(t, len(body), attack.Allowance{}, func() { bounded(t, input.Check(t.Context(), body, "body")) })
	text := string(body)
	copied := attack.Allowance{Times: 1} // read and readList take texts
	attack.Hold(t, len(body), copied, func() { bounded(t, problems(read(text))) })
	attack.Hold(t, len(body), copied, func() { bounded(t, problems(readList(text))) })
}

func problems(err error) []problem.Fault {
	p, _ := errors.AsType[*problem.Problem](err)
	if p == nil {
		return nil
	}
	return p.Faults
}

func bounded(t *testing.T, faults []problem.Fault) {
	t.Helper()
	if len(faults) > jsonscan.MaxFaults {
		t.Errorf("%d faults", len(faults))
	}
	for _, fault := range faults {
		if len(fault.Pointer)+len(fault.Parameter) > jsonscan.MaxPointer || fault.Detail == "" {
			t.Errorf("a place of %d bytes: %q", len(fault.Pointer)+len(fault.Parameter), fault.Detail)
		}
	}
}

// A form of 1 MiB, in every member, costs no more than its size allows.
func TestAttacks(t *testing.T) {
	for _, body := range attack.Bodies(1<<20 - 100) {
		t.Run(body.Name, func(t *testing.T) { hold(t, body.Text) })
	}
	for _, body := range attack.Bodies(256 << 10) {
		t.Run("within: "+body.Name, func(t *testing.T) {
			for _, around := range [][2]string{{`{"name":`, `}`}, {`{"words":`, `}`}, {`{"waits":`, `}`}, {`{"pairs":`, `}`}, {`{"ignored":`, `}`}, {`[{"people":`, `}]`}, {`[{"data":`, `}]`}} {
				hold(t, slices.Concat([]byte(around[0]), body.Text, []byte(around[1])))
			}
		})
	}
}

// Of a thousand wrong parameters with long names, a hundred are told, each with the beginning
// of its name.
func TestFaultsOfQueriesAreBounded(t *testing.T) {
	t.Parallel()
	var raw []byte
	for i := range 1000 {
		raw = fmt.Appendf(raw, "%d%s=1&", i, strings.Repeat("é", 200))
	}
	q := input.ParseQuery(string(raw))
	if found := problems(q.Err()); len(found) != jsonscan.MaxFaults || found[99].Detail != jsonscan.More {
		t.Errorf("%d faults", len(found))
	} else {
		bounded(t, found)
	}
}
