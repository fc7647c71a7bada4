package fanout_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/fanout"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// threeEach has three webhooks for each account.
type threeEach struct{ oneEach }

func (threeEach) Subscribers(event *domain.Event) []*index.Hook {
	return []*index.Hook{
		{ID: "0199a1f5-6f3e-7a50-8c38-0e55a2c0ff01", Account: event.Account},
		{ID: "0199a1f5-6f3e-7a50-8c38-0e55a2c0ff02", Account: event.Account},
		{ID: "0199a1f5-6f3e-7a50-8c38-0e55a2c0ff03", Account: event.Account},
	}
}

// offered hands deliveries over to the test.
type offered chan *deliver.Job

func (offered) Room(context.Context) error { return nil }

func (o offered) Offer(_ *index.Hook, job *deliver.Job) { o <- job }

// emitted hands what is to be recorded over to the test.
type emitted chan record.Item

func (e emitted) Emit(item record.Item) { e <- item }

// dispatched publishes one event of REST and returns its three deliveries, and what is emitted.
func dispatched(t *testing.T) (b *bus.Bus, key domain.EventKey, jobs []*deliver.Job, items emitted) {
	t.Helper()
	b, err := bus.Connect(bus.Options{URL: bustest.Start(t).URL(), Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
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
	offers, items := make(offered, 3), make(emitted, 3)
	f := fanout.New(fanout.Options{
		Bus: b, Deliverer: offers, Emitter: items, Log: &slowLog{}, Index: threeEach{}, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	event := domain.Event{Account: "default", ID: "evt_1", Type: domain.ShipmentCreated, Payload: []byte(`{}`), ReceivedAt: time.UnixMilli(1_700_000_000_000).UTC()}
	published := make(chan error, 1)
	b.PublishEvent(bus.AcceptedEvent{Event: event, Version: 1}, 0, func(_ bool, err error) { published <- err })
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case job := <-offers:
			jobs = append(jobs, job)
		case <-time.After(30 * time.Second):
			t.Fatal("the deliveries of the event do not come")
		}
	}
	return b, event.Key(), jobs, items
}

// acknowledged waits until no event is in flight.
func acknowledged(t *testing.T, b *bus.Bus) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		state, err := b.Stream(bus.StreamEvents).ConsumerState(t.Context(), bus.ConsumerFanout)
		if err == nil && state.Acknowledged == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the event is not acknowledged: %+v, %v", state, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// settles checks that an item settles the event, on the server of its outcomes alone.
func settles(t *testing.T, b *bus.Bus, key domain.EventKey, item record.Item) {
	t.Helper()
	if diff := cmp.Diff(&key, item.Settled); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	if server := b.Server(); !item.In.Holds(server) || item.In.Holds("another") {
		t.Errorf("it is settled in the epoch %q, want that of %q", item.In, server)
	}
}

// The batch that has an event's last outcomes settles it.
func TestTheLastOutcomesSettleTheirEvent(t *testing.T) {
	t.Parallel()
	b, key, jobs, items := dispatched(t)
	settler := jobs[0].Origin.SettlingEvent()
	if got := settler.Settle(2); got != nil {
		t.Errorf("two of three outcomes settle %v", got)
	}
	jobs[0].Origin.Stored()
	jobs[1].Origin.Stored()
	settlement := settler.Settle(1)
	if settlement == nil {
		t.Fatal("the last one does not settle the event")
	}
	settles(t, b, key, *settlement)
	jobs[2].Origin.Stored()
	settlement.Done()
	acknowledged(t, b)
	select {
	case item := <-items:
		t.Errorf("the event is settled again: %+v", item)
	default:
	}
}

// An event whose outcomes were in several batches at a time is settled by a record of its own.
func TestOutcomesInSeveralBatchesAreFollowedByTheSettlement(t *testing.T) {
	t.Parallel()
	b, key, jobs, items := dispatched(t)
	settler := jobs[0].Origin.SettlingEvent()
	if settler.Settle(2) != nil || settler.Settle(1) != nil {
		t.Error("a part of the outcomes settles the event")
	}
	for _, job := range jobs {
		job.Origin.Stored()
	}
	select {
	case item := <-items:
		settles(t, b, key, item)
		item.Done()
	case <-time.After(30 * time.Second):
		t.Fatal("nothing settles the event")
	}
	acknowledged(t, b)
}

// An event with a delivery that was given up is not settled: the bus hands it out again.
func TestWhatWasAbandonedIsNotSettled(t *testing.T) {
	t.Parallel()
	_, _, jobs, items := dispatched(t)
	settler := jobs[0].Origin.SettlingEvent()
	jobs[0].Origin.Abandoned()
	jobs[1].Origin.Stored()
	if got := settler.Settle(1); got != nil {
		t.Errorf("the last outcome settles %v", got)
	}
	jobs[2].Origin.Stored()
	select {
	case item := <-items:
		t.Errorf("the event is settled: %+v", item)
	default:
	}
}
