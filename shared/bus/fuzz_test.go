package bus_test

import (
	"strings"
	"testing"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/jsonscan/attack"
)

// FuzzSubject looks for a subject that is read as that of an event and is not.
func FuzzSubject(f *testing.F) {
	for _, subject := range []string{"events.acme.shipment.created", "events..shipment.created", "events.a", "events.\x00.\xff", "rejected.acme", "events." + strings.Repeat("a.", 1400)} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		if len(subject) > 1<<20 {
			return
		}
		attack.Hold(t, len(subject), attack.Allowance{}, func() {
			account, kind, ok := bus.ParseEventSubject(subject)
			if ok && (account == "" || strings.Contains(account, ".") || bus.EventSubject(account, kind) != subject) {
				t.Errorf("%q is read as %q and %q", subject, account, kind)
			}
		})
	})
}

// FuzzTask looks for headers that are read as a task's, and cost much or make the reader fail.
func FuzzTask(f *testing.F) {
	f.Add("1 d a w e shipment.created 1 2 3 4 5 6 7 - 8", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", []byte("{}"))
	f.Add(strings.Repeat(" ", 14), "", []byte{})
	f.Fuzz(func(t *testing.T, task, trace string, body []byte) {
		if len(task)+len(trace)+len(body) > 1<<20 {
			return
		}
		header := map[string][]string{"Waybill-Task": {task}, "Traceparent": {trace}, "traceparent": {trace}}
		attack.Hold(t, len(task)+len(trace)+len(body), attack.Allowance{Times: 16}, func() {
			if read, err := bus.ParseTask(header, body); err == nil && read == nil {
				t.Error("no task and no error")
			}
		})
	})
}
