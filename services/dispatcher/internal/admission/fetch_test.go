package admission_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

func TestRecordsComeAsPublishedInOrder(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	now := time.UnixMilli(1_770_000_000_123).UTC()
	var sent []domain.RecordBatch
	for i := range 3 {
		sent = append(sent, domain.RecordBatch{
			Outcomes: []domain.Outcome{{
				Delivery: task().Delivery, Account: "default", Webhook: webhook, Status: domain.StatusDelivered, Rev: domain.Revision(i),
				UpdatedAt: now, Attempt: &domain.Attempt{ID: "a", Number: 1, StartedAt: now, Duration: 1500 * time.Microsecond, Status: 200, Class: domain.ClassOK, ResponseBody: "ok \"✓\""},
			}},
			Events:  []domain.Event{event()},
			Settled: []domain.EventKey{event().Key()},
			Health:  []domain.HealthChange{{Webhook: webhook, FailingSince: now, At: now}},
		})
	}
	for i := range sent {
		stored := make(chan error, 1)
		b.PublishRecords(record.Encode(&sent[i]), func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	var got []domain.RecordBatch
	for _, m := range take(t, len(sent), func(ctx context.Context, handle func(*bus.Message)) {
		admission.Records(ctx, b, discard, admission.NewMessages(nil), handle)
	}) {
		batch, err := record.Parse(m.Body())
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		got = append(got, batch)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("records changed on their way (-sent +got):\n%s", diff)
	}
}

func TestConsumptionGoesOnAfterTheBusWasLost(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := make(chan string, 10)
	var consuming sync.WaitGroup
	consuming.Go(func() {
		inFlight := admission.NewMessages(nil)
		admission.Events(ctx, b, discard, inFlight, func(m *bus.Message) { m.Ack(); inFlight.Done(m); got <- string(m.Body()) })
	})
	if err := publish(b, event()); err != nil {
		t.Fatalf("publish: %v", err)
	}
	if body := <-got; body != `{"id":"evt_1"}` {
		t.Errorf("first event: %s", body)
	}
	server.Stop()
	if err := b.Ready(); err == nil {
		eventually(t, func() error {
			if b.Ready() == nil {
				return errors.New("bus still counts as ready")
			}
			return nil
		})
	}
	if err := publish(b, event()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("publication without a server: %v, want ErrUnavailable", err)
	}
	server.Wipe()
	server.Start()
	eventually(t, func() error { return publish(b, event()) })
	select {
	case <-got:
	case <-ctx.Done():
		t.Fatal("no event came after the bus was made anew")
	}
	cancel()
	consuming.Wait()
}

func TestOnlyOneConsumerOfAShardIsServed(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	one, two := connect(t, server), connect(t, server)
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan string, 100)
	var consuming sync.WaitGroup
	for name, b := range map[string]*bus.Bus{"one": one, "two": two} {
		consuming.Go(func() {
			_ = due(ctx, b, nil, func(job *deliver.Job) {
				job.Origin.Stored()
				served <- name
			})
		})
	}
	for i := range 40 {
		task := task()
		task.Delivery = domain.NewDeliveryID(domain.EventKey{Account: "default", ID: strconv.Itoa(i)}, webhook)
		if err := bustest.Schedule(t.Context(), one, task, time.Now()); err != nil {
			t.Fatalf("schedule: %v", err)
		}
	}
	changes, last := 0, <-served
	for range 39 {
		name := <-served
		if name != last {
			changes++
		}
		last = name
	}
	// The server takes another one when it has heard nothing for three seconds, as on a machine that
	// stood still.
	if most := int(time.Since(start) / (3 * time.Second)); changes > most {
		t.Errorf("another one was served %d times, want %d at most", changes, most)
	}
	cancel()
	consuming.Wait()
}
