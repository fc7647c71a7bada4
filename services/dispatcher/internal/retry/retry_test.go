package retry_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/retry"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

const webhook = domain.WebhookID("0199a1f5-6f3e-7a50-8c38-0e55a2c0ffee")

const (
	patience = 30 * time.Second
	// soon is shorter than a lost acknowledgement is waited for.
	soon = 4 * time.Second
)

type offers chan *deliver.Job

func (o offers) Offer(_ *index.Hook, job *deliver.Job) { o <- job }
func (o offers) End(job *deliver.Job, _ domain.Change) { o <- job }

type anyHook struct{}

func (anyHook) Find(id domain.WebhookID, answer func(*index.Hook, error)) {
	answer(&index.Hook{ID: id}, nil)
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

func schedule(t *testing.T, b *bus.Bus, event string, rev domain.Revision) {
	t.Helper()
	scheduleAt(t, b, event, rev, time.Now())
}

func scheduleAt(t *testing.T, b *bus.Bus, event string, rev domain.Revision, at time.Time) {
	t.Helper()
	id := domain.NewDeliveryID(domain.EventKey{Account: domain.DefaultAccount, ID: event, ReceivedAt: time.UnixMilli(1_790_000_000_000)}, webhook)
	task := domain.Task{
		Delivery: id, Account: domain.DefaultAccount, Webhook: webhook, EventID: event,
		EventType: domain.ShipmentCreated, ReceivedAt: at, Rev: rev, Attempts: int(rev / 2), Body: []byte(`{}`),
	}
	if err := bustest.Schedule(t.Context(), b, &task, at); err != nil {
		t.Fatalf("schedule: %v", err)
	}
}

func (o offers) next(t *testing.T, event string, rev domain.Revision, within time.Duration) *deliver.Job {
	t.Helper()
	select {
	case job := <-o:
		if job.Task.EventID != event || job.Task.Rev != rev {
			t.Fatalf("revision %d of %s is offered, want %d of %s", job.Task.Rev, job.Task.EventID, rev, event)
		}
		return job
	case <-time.After(within):
		t.Fatalf("revision %d of %s is not offered within %s", rev, event, within)
		return nil
	}
}

// run has it consume the webhook's shard until the test ends.
func run(t *testing.T, due *retry.DueDeliveries) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		_ = due.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	due.Own(webhook.Shard(), true)
}

// A wait ends at its time: never before it, and on a machine with nothing else to do at most some
// milliseconds later, however short it is.
func TestWaitsEndAtTheirTime(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	offered := make(offers, 8)
	run(t, retry.New(b, offered, anyHook{}, nil, slog.New(slog.DiscardHandler)))
	for _, wait := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
		least := patience
		for i := 0; i < 20 && least > wait/5; i++ { // other programs may keep this one from its processor
			event := fmt.Sprintf("evt_%d_%d", wait, i)
			at := time.Now().Add(wait)
			scheduleAt(t, b, event, 2, at)
			offered.next(t, event, 2, patience).Origin.Stored()
			late := time.Since(at)
			if late < 0 {
				t.Errorf("a wait of %s ends %s early", wait, -late)
			}
			least = min(least, late)
		}
		if least > wait/5 {
			t.Errorf("waits of %s end %s late at least", wait, least)
		}
	}
}

// What an attempt has scheduled may be due before the attempt's record is stored: the
// stream of the schedules may have a leader seconds before that of the records.
func TestWhatTookOverIsTakenThoughTheLastIsNotStored(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	offered := make(offers, 8)
	run(t, retry.New(b, offered, anyHook{}, nil, slog.New(slog.DiscardHandler)))

	schedule(t, b, "evt_1", 2)
	first := offered.next(t, "evt_1", 2, patience)
	schedule(t, b, "evt_1", 4)
	second := offered.next(t, "evt_1", 4, patience)
	first.Origin.Stored()
	schedule(t, b, "evt_1", 4) // a copy, while it is attempted
	schedule(t, b, "evt_2", 2)
	offered.next(t, "evt_2", 2, patience).Origin.Stored()
	second.Origin.Stored()
}

// A bus that is lost answers no acknowledgement. What the last attempt has scheduled on
// the one that came after it may be due before that is given up.
func TestWhatTookOverIsTakenThoughTheLastIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	offered := make(offers, 8)
	due := retry.New(b, offered, anyHook{}, nil, slog.New(slog.DiscardHandler))
	run(t, due)

	// An acknowledgement beyond the end of the new stream is not answered at all.
	for range 10 {
		schedule(t, b, "evt_0", 2)
		offered.next(t, "evt_0", 2, patience).Origin.Stored()
	}
	schedule(t, b, "evt_1", 2)
	job := offered.next(t, "evt_1", 2, patience)
	schedule(t, b, "evt_1", 2) // a copy, while it is attempted
	schedule(t, b, "evt_2", 2)
	offered.next(t, "evt_2", 2, patience)

	server.Wipe()
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	schedule(t, b, "evt_3", 2)
	offered.next(t, "evt_3", 2, patience)
	job.Origin.Stored()
	schedule(t, b, "evt_1", 4)
	offered.next(t, "evt_1", 4, soon)
}
