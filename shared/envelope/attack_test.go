package envelope_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"waybill.dev/shared/envelope"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/jsonscan/attack"
)

// hold makes sure that what is told of a body is bounded, too.
func hold(t *testing.T, size int, read func() envelope.Faults) {
	t.Helper()
	attack.Hold(t, size, attack.Allowance{}, func() {
		faults := read()
		if len(faults) > jsonscan.MaxFaults || len(faults.Error()) > 16<<10 {
			t.Errorf("%d faults with a text of %d bytes", len(faults), len(faults.Error()))
		}
		for _, fault := range faults {
			if len(fault.Pointer) > jsonscan.MaxPointer {
				t.Errorf("a pointer of %d bytes", len(fault.Pointer))
			}
		}
	})
}

// Whatever a publisher sends, over REST or the bus, in whatever form: it costs no more than
// its size allows.
func TestAttacks(t *testing.T) {
	const largest = 255 << 10 // an event that is not refused for its size alone
	for _, body := range attack.Bodies(largest - 200) {
		t.Run(body.Name, func(t *testing.T) {
			text := string(body.Text)
			event := []byte(ok(`,"x":` + text))
			cloud := []byte(`{"specversion":"1.0","id":"a","source":"/s","type":"shipment.created","data":{"shipmentId":"s","x":` + text + `}}`)
			for _, form := range [][]byte{event, cloud, body.Text} {
				hold(t, len(form), func() envelope.Faults { _, faults := envelope.Decode(form); return faults })
				for _, header := range []map[string][]string{nil, header("content-type", "application/cloudevents+json"), binary(), binary("ce-id", "")} {
					hold(t, len(form), func() envelope.Faults {
						_, err := envelope.FromBus("acme", header, form)
						faults, _ := errors.AsType[envelope.Faults](err)
						return faults
					})
				}
			}
		})
	}
	for _, size := range []int{1 << 20, 8 << 20} {
		for _, body := range attack.Bodies(size) {
			t.Run("batch: "+body.Name, func(t *testing.T) {
				batch := slices.Concat([]byte(`[`+ok(`,"x":`)[:len(ok(`,"x":`))-2]), body.Text, []byte(`}}]`))
				hold(t, len(batch), func() envelope.Faults {
					_, _, faults, _ := envelope.DecodeAny(t.Context(), batch)
					return faults
				})
				hold(t, len(batch), func() envelope.Faults {
					_, err := envelope.FromBus("acme", nil, batch)
					faults, _ := errors.AsType[envelope.Faults](err)
					return faults
				})
			})
		}
	}
}

// A message that is too large is refused before it is read: what a publisher may put on the
// bus is larger than an event may be.
func TestSizeComesFirst(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]map[string][]string{"plain": nil, "structured": header("content-type", "application/cloudevents+json"), "binary": binary()} {
		_, err := envelope.FromBus("acme", headers, []byte(strings.Repeat("[", envelope.MaxEventSize+1)))
		if faults, _ := errors.AsType[envelope.Faults](err); len(faults) != 1 || !errors.Is(err, envelope.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A batch is given up with the request that brought it.
func TestBatchEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch := "[" + strings.TrimSuffix(strings.Repeat(ok(`,"x":"`+strings.Repeat("x", 1000)+`"`)+",", 1000), ",") + "]"
	if _, _, _, err := envelope.DecodeAny(ctx, []byte(batch)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// FuzzBus looks for messages of the bus, headers and all, that cost too much, or whose
// refusal has what a header of the bus can't carry.
func FuzzBus(f *testing.F) {
	f.Add("acme", "Nats-Msg-Id", "acme.e1", "ce-id", "c%31", []byte(ok("")))
	f.Add("acme", "ce-specversion", "1.0", "ce-type", "shipment.created", []byte(busData))
	f.Add("acme", "content-type", "application/cloudevents+json; charset=\"", "CE-ID", "%", []byte(structuredSeed))
	f.Add("", "Content-Type", "application/cloudevents-batch+json", "ce-", "\xff", []byte("[]"))
	for _, body := range attack.Bodies(4 << 10) {
		f.Add("acme", "content-type", "application/cloudevents+json", "ce-time", "now", body.Text)
	}
	f.Fuzz(func(t *testing.T, account, name, value, second, other string, body []byte) {
		if size := len(body) + len(name) + len(value) + len(second) + len(other); size > 1<<20 {
			return
		}
		headers := map[string][]string{name: {value}, second: {other}, "ce-source": {"/s"}}
		attack.Hold(t, len(body)+len(value)+len(other), attack.Allowance{}, func() {
			event, err := envelope.FromBus(account, headers, body)
			if err == nil {
				if !event.Type.Valid() || len(event.Payload()) == 0 {
					t.Errorf("an event without a type: %q", event.Payload())
				}
				return
			}
			faults, isFaults := errors.AsType[envelope.Faults](err)
			if !isFaults || len(faults) == 0 || len(faults) > jsonscan.MaxFaults {
				t.Errorf("error %v", err)
			}
			if text := err.Error(); len(text) > 16<<10 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("text %q", text)
			}
		})
	})
}

const structuredSeed = `{"specversion":"1.0","id":"c1","source":"/warehouse","type":"shipment.created","data":{"shipmentId":"s"},"ext":null}`
