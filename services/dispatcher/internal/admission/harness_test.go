package admission_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/retry"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const webhook = domain.WebhookID("0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001")

var discard = slog.New(slog.DiscardHandler)

func connect(t *testing.T, server *bustest.Server) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{URL: server.URL(), Name: "test", Logger: discard, MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait: %v", err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return b
}

// publish publishes an event.
func publish(b *bus.Bus, event domain.Event) error {
	done := make(chan error, 1)
	b.PublishEvent(bus.AcceptedEvent{Event: event}, 0, func(_ bool, err error) { done <- err })
	return <-done
}

// take consumes until want messages came, and acknowledges them.
func take(t *testing.T, want int, consume func(ctx context.Context, handle func(*bus.Message))) []*bus.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []*bus.Message
	consume(ctx, func(m *bus.Message) {
		m.Ack()
		if got = append(got, m); len(got) == want {
			cancel()
		}
	})
	if len(got) < want {
		t.Fatalf("%d messages came, want %d", len(got), want)
	}
	return got
}

// events takes what EVENTS hands out.
func events(b *bus.Bus) func(context.Context, func(*bus.Message)) {
	return func(ctx context.Context, handle func(*bus.Message)) {
		admission.Events(ctx, b, discard, admission.NewMessages(nil), handle)
	}
}

// due takes the due deliveries of the webhook's shard until ctx is done. room bounds what is in flight; nil: nothing does.
func due(ctx context.Context, b *bus.Bus, room *admission.Budget, handle offers) error {
	d := retry.New(b, handle, anyHook{}, room, discard)
	var attending sync.WaitGroup
	attending.Go(func() { _ = d.Attend(ctx) })
	defer attending.Wait()
	d.Own(webhook.Shard(), true)
	return d.Run(ctx)
}

type offers func(*deliver.Job)

func (o offers) Offer(_ *index.Hook, job *deliver.Job) { o(job) }
func (o offers) End(job *deliver.Job, _ domain.Change) { o(job) }

type anyHook struct{}

func (anyHook) Find(id domain.WebhookID, answer func(*index.Hook, error)) {
	answer(&index.Hook{ID: id}, nil)
}

func event() domain.Event {
	return domain.Event{
		Account: "default", ID: "evt_1", Type: domain.ShipmentCreated,
		Payload: []byte(`{"id":"evt_1"}`), ReceivedAt: time.UnixMilli(1_770_000_000_123).UTC(),
	}
}

func task() *domain.Task {
	received := time.UnixMilli(1_770_000_000_123).UTC()
	key := domain.EventKey{Account: "default", ID: "evt_1", ReceivedAt: received}
	return &domain.Task{
		Delivery: domain.NewDeliveryID(key, webhook), Account: "default", Webhook: webhook, EventID: "evt_1",
		EventType: domain.ShipmentException, EventSeq: 7, ReceivedAt: received, Attempts: 3, RunAttempts: 2,
		RunStartedAt: received.Add(time.Second), Rev: 2004, Test: true, Overflowed: true, Request: "req1",
		HeldAt: received.Add(time.Minute), Body: []byte("{}"),
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	within(t, time.Minute, check)
}

func within(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-ticker.C
	}
}
