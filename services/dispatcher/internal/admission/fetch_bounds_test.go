package admission_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// stage hands what it takes off the bus to taken, as functions that finish it.
type stage func(ctx context.Context, b *bus.Bus, room *admission.Budget, taken chan<- func())

// TestOnlySoMuchIsTakenOffTheBus holds what is in flight of large messages to the room, and
// brings all of them in the end.
func TestOnlySoMuchIsTakenOffTheBus(t *testing.T) {
	t.Parallel()
	const messages, size, limit = 120, 256 << 10, 8 << 20
	body := make([]byte, size)
	// fetched has what a stage fetches in flight until it is finished.
	fetched := func(fetch func(context.Context, admission.Bus, *slog.Logger, *admission.Messages, func(*bus.Message))) stage {
		return func(ctx context.Context, b *bus.Bus, room *admission.Budget, taken chan<- func()) {
			// What is in flight is reported as in progress, so that none of it comes again.
			inFlight := admission.NewRecords(room)
			go func() { _ = inFlight.Run(ctx) }()
			fetch(ctx, b, discard, inFlight, func(m *bus.Message) {
				taken <- func() {
					if err := m.AckWait(ctx); err != nil {
						t.Error(err)
					}
					inFlight.Done(m)
				}
			})
		}
	}
	for _, row := range []struct {
		name    string
		publish func(b *bus.Bus, n int) error
		consume stage
	}{
		{"events", func(b *bus.Bus, n int) error {
			event := event()
			event.ID, event.Payload = strconv.Itoa(n), body
			return publish(b, event)
		}, fetched(admission.Events)},
		{"records", func(b *bus.Bus, _ int) error {
			stored := make(chan error, 1)
			b.PublishRecords(body, func(err error) { stored <- err })
			return <-stored
		}, fetched(admission.Records)},
		{"due", func(b *bus.Bus, n int) error {
			task := task()
			task.Delivery, task.Body = domain.NewDeliveryID(domain.EventKey{ID: strconv.Itoa(n)}, webhook), body
			return bustest.Schedule(t.Context(), b, task, time.Now())
		}, func(ctx context.Context, b *bus.Bus, room *admission.Budget, taken chan<- func()) {
			_ = due(ctx, b, room, func(job *deliver.Job) { taken <- job.Origin.Stored })
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := connect(t, bustest.Start(t))
			for n := range messages {
				if err := row.publish(b, n); err != nil {
					t.Fatal(err)
				}
			}
			room := admission.NewBudget(limit)
			ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
			defer stop()
			taken := make(chan func(), messages)
			var consuming sync.WaitGroup
			consuming.Go(func() { row.consume(ctx, b, room, taken) })
			// Nothing is done with what comes, until it is as much as there is room for.
			stuck(t, func() int { return len(taken) })
			held := len(taken)
			if state := room.State(); int64(held)*size > limit || held < 4 || state.Used > limit {
				t.Errorf("%d messages of %d bytes are in flight, room %+v, want no more than %d bytes", held, size, state, limit)
			}
			for done := range messages {
				select {
				case finish := <-taken:
					finish()
				case <-ctx.Done():
					t.Fatalf("%d of %d messages came", done, messages)
				}
			}
			stop()
			consuming.Wait()
			eventually(t, func() error {
				if used := room.State().Used; used != 0 {
					return fmt.Errorf("%d bytes are still taken at the end", used)
				}
				return nil
			})
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
		running.Go(func() { admission.Records(ctx, b, discard, inFlight, func(m *bus.Message) { taken <- m }) })
		return inFlight, taken
	}
	first, taken := consume(admission.NewBudget(limit))
	for range messages {
		if err := nc.Publish("records", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	stuck(t, first.Len)
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
func stuck(t *testing.T, inFlight func() int) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	last, same := 0, 0
	for deadline := time.Now().Add(30 * time.Second); same < 20 && time.Now().Before(deadline); {
		<-ticker.C
		n := inFlight()
		if n == last && n > 0 {
			same++
		} else {
			last, same = n, 0
		}
	}
}
