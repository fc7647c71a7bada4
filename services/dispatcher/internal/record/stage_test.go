package record_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

const patience = 30 * time.Second

// writer tells what is written.
type writer chan domain.RecordBatch

func (w writer) Record(_ context.Context, batches []domain.RecordBatch) (recorder.RecordResult, error) {
	for _, b := range batches {
		w <- b
	}
	return recorder.RecordResult{}, nil
}

// next returns the next batch that has something in it.
func (w writer) next(t *testing.T) domain.RecordBatch {
	t.Helper()
	select {
	case b := <-w:
		return b
	case <-time.After(patience):
		t.Fatal("nothing was written")
		return domain.RecordBatch{}
	}
}

func connect(t *testing.T, server *bustest.Server) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{URL: server.URL(), Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func publish(t *testing.T, b *bus.Bus, batch domain.RecordBatch) {
	t.Helper()
	stored := make(chan error, 1)
	b.PublishRecords(record.Encode(&batch), func(err error) { stored <- err })
	select {
	case err := <-stored:
		if err != nil {
			t.Fatalf("publish records: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("records were not stored")
	}
}

func outcome(event string) domain.RecordBatch {
	return domain.RecordBatch{Outcomes: []domain.Outcome{{Delivery: domain.DeliveryID(event), EventID: event, Rev: 2}}}
}

func settled(event string) domain.RecordBatch {
	return domain.RecordBatch{Settled: []domain.EventKey{{Account: domain.DefaultAccount, ID: event}}}
}

func start(t *testing.T, b *bus.Bus) writer {
	t.Helper()
	w := make(writer, 64)
	run(t, record.NewStage(b, w, record.RowsSQLite, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)))
	return w
}

// run runs a stage until the test ends.
func run(t *testing.T, stage *record.Stage) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- stage.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestEventsAreSettledInTheOrderOfRecords(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	w := start(t, b)
	for _, event := range []string{"evt_1", "evt_2"} {
		publish(t, b, outcome(event))
		publish(t, b, settled(event))
		if got := w.next(t); len(got.Outcomes) != 1 || got.Outcomes[0].EventID != event {
			t.Fatalf("written: %+v, want the outcome of %s", got, event)
		}
		if got := w.next(t); len(got.Settled) != 1 || got.Settled[0].ID != event {
			t.Fatalf("written: %+v, want %s settled", got, event)
		}
	}
}

// What another process has in flight, or died with, is not written yet: an event that came
// after it may be one of its own.
func TestNothingIsSettledBeforeWhatAnotherProcessHasInFlight(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	publisher, other := connect(t, server), connect(t, server)
	publish(t, publisher, outcome("evt_1"))
	taken, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		admission.Records(taken, other, slog.New(slog.DiscardHandler), admission.NewMessages(nil), func(*bus.Message) { stop() }) // and is never heard of again
	}()
	select {
	case <-taken.Done():
	case <-time.After(patience):
		t.Fatal("the other process got nothing")
	}
	<-gone

	w := start(t, publisher)
	publish(t, publisher, settled("evt_1"))
	// The server serves this process when it no longer hears of the other, and brings the
	// outcome again when it has waited for it. The event is settled in a later write.
	for written, deadline := false, time.Now().Add(patience); ; {
		if time.Now().After(deadline) {
			t.Fatal("the event is not settled though all is written")
		}
		got := w.next(t)
		if len(got.Settled) > 0 {
			if !written {
				t.Fatalf("written: %+v, want nothing settled while an outcome is in another's hand", got)
			}
			return
		}
		written = written || len(got.Outcomes) == 1
	}
}

// sizes tells how many changes of health each transaction has.
type sizes chan int

func (s sizes) Record(_ context.Context, batches []domain.RecordBatch) (recorder.RecordResult, error) {
	n := 0
	for _, b := range batches {
		n += len(b.Health)
	}
	s <- n
	return recorder.RecordResult{}, nil
}

// Each change of health is a row, and may be an alert: a transaction that takes all that wait lasts for seconds.
func TestChangesOfHealthBoundATransaction(t *testing.T) {
	t.Parallel()
	const messages, changes = 12, 100
	b := connect(t, bustest.Start(t))
	for range messages {
		publish(t, b, domain.RecordBatch{Health: make([]domain.HealthChange, changes)})
	}
	w := make(sizes, messages)
	run(t, record.NewStage(b, w, record.RowsSQLite, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)))
	for left := messages * changes; left > 0; {
		select {
		case n := <-w:
			if n > 200+changes { // late ones may have 200, and the message with which they do is whole
				t.Errorf("one transaction has %d changes of health", n)
			}
			left -= n
		case <-time.After(patience):
			t.Fatalf("%d changes were not written", left)
		}
	}
}
