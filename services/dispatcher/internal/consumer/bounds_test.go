package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/consumer"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// TestOnlySoMuchIsTakenOffTheBus holds what is in flight of large messages to the room, and
// brings all of them in the end.
func TestOnlySoMuchIsTakenOffTheBus(t *testing.T) {
	t.Parallel()
	const messages, size, limit = 120, 256 << 10, 8 << 20
	body := make([]byte, size)
	for _, stage := range []struct {
		name    string
		publish func(*bus.Bus, *nats.Conn) error
		consume func(ctx context.Context, b *bus.Bus, room *admission.Budget, inFlight *admission.Messages, handle func(*bus.Message)) error
	}{
		{"events", func(_ *bus.Bus, nc *nats.Conn) error { return nc.Publish("events.default.shipment.created", body) },
			func(ctx context.Context, b *bus.Bus, _ *admission.Budget, inFlight *admission.Messages, handle func(*bus.Message)) error {
				return consumer.Events(ctx, b, discard, inFlight, handle)
			}},
		{"records", func(_ *bus.Bus, nc *nats.Conn) error { return nc.Publish("records", body) },
			func(ctx context.Context, b *bus.Bus, _ *admission.Budget, inFlight *admission.Messages, handle func(*bus.Message)) error {
				return consumer.Records(ctx, b, discard, inFlight, handle)
			}},
		{"due", func(_ *bus.Bus, nc *nats.Conn) error {
			return nc.Publish(fmt.Sprintf("d.%d.%s", webhook.Shard(), webhook.Token()), body)
		},
			func(ctx context.Context, b *bus.Bus, room *admission.Budget, inFlight *admission.Messages, handle func(*bus.Message)) error {
				return consumer.Due(ctx, b, discard, webhook.Shard(), room, func(m *bus.Message) {
					inFlight.Add(m)
					handle(m)
				})
			}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Start(t)
			b := connect(t, server)
			if err := b.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			nc, err := nats.Connect(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			for range messages {
				if err := stage.publish(b, nc); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			room := admission.NewBudget(limit)
			// What is in flight is reported as in progress, so that none of it comes again.
			inFlight := admission.NewRecords(room)
			ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
			defer stop()
			go func() { _ = inFlight.Run(ctx) }()
			taken := make(chan *bus.Message, messages)
			ended := make(chan error, 1)
			go func() { ended <- stage.consume(ctx, b, room, inFlight, func(m *bus.Message) { taken <- m }) }()
			// Nothing is done with what comes, until it is as much as there is room for.
			stuck(t, inFlight)
			held := inFlight.Len()
			if state := room.State(); int64(held)*size > limit || held < 4 || state.Used > limit {
				t.Errorf("%d messages of %d bytes are in flight, room %+v, want no more than %d bytes", held, size, state, limit)
			}
			for done := range messages {
				select {
				case m := <-taken:
					if err := m.AckWait(ctx); err != nil {
						t.Fatal(err)
					}
					inFlight.Done(m)
				case <-ctx.Done():
					t.Fatalf("%d of %d messages came", done, messages)
				}
			}
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, domain.ErrUnavailable) {
				t.Error(err)
			}
			if used := room.State().Used; used != 0 {
				t.Errorf("%d bytes are still taken at the end", used)
			}
		})
	}
}

// TestAFullProcessKeepsItsPlace has the one that the server serves with records have no room
// for more, for longer than the server waits for one that is gone. No other is served
// meanwhile, and all comes to the first, in order.
func TestAFullProcessKeepsItsPlace(t *testing.T) {
	t.Parallel()
	const messages, size, limit = 40, 256 << 10, 4 << 20
	server := bustest.Start(t)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	consume := func(room *admission.Budget) (*admission.Messages, chan *bus.Message) {
		b := connect(t, server)
		if err := b.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		inFlight, taken := admission.NewRecords(room), make(chan *bus.Message, 2*messages)
		running.Go(func() { _ = inFlight.Run(ctx) })
		running.Go(func() { _ = consumer.Records(ctx, b, discard, inFlight, func(m *bus.Message) { taken <- m }) })
		return inFlight, taken
	}
	first, taken := consume(admission.NewBudget(limit))
	for range messages {
		if err := nc.Publish("records", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	stuck(t, first)
	_, others := consume(admission.NewBudget(limit))
	select {
	case m := <-others:
		t.Fatalf("message %d went to another process", m.Sequence)
	case <-time.After(4 * time.Second): // the server waits for 1.6 s
	}
	for sequence := range uint64(messages) {
		select {
		case m := <-taken:
			if m.Sequence != sequence+1 {
				t.Fatalf("message %d came, want %d", m.Sequence, sequence+1)
			}
			m.Ack()
			first.Done(m)
		case m := <-others:
			t.Fatalf("message %d went to another process", m.Sequence)
		case <-ctx.Done():
			t.Fatalf("message %d did not come", sequence+1)
		}
	}
}

// stuck waits until nothing more comes in flight.
func stuck(t *testing.T, inFlight *admission.Messages) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	last, same := 0, 0
	for deadline := time.Now().Add(30 * time.Second); same < 20 && time.Now().Before(deadline); {
		<-ticker.C
		n := inFlight.Len()
		if n == last && n > 0 {
			same++
		} else {
			last, same = n, 0
		}
	}
}
