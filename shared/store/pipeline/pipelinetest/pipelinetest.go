// Package pipelinetest makes the data with which the test suites of the pipeline's tables begin:
// events, webhooks, and outcomes as dispatchers record them.
package pipelinetest

import (
	"fmt"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
)

// Account is the account that has everything.
const Account = domain.DefaultAccount

// Bench has the tables, everything that writes them, and a clock that is set by hand.
type Bench struct {
	*storetest.Bench
	*pipeline.Pipeline
	*recorder.Recorder
	*auditlog.Log
}

// New returns a bench on a migrated store.
func New(b *storetest.Bench) *Bench {
	return &Bench{Bench: b, Pipeline: pipeline.New(b.DB), Recorder: recorder.New(b.DB), Log: auditlog.New(b.DB)}
}

// Event returns an event that has not been published yet.
func Event(id string) domain.Event {
	return domain.Event{
		Account: Account, ID: id, Type: domain.ShipmentCreated, Timestamp: "2025-06-10T14:00:00.0+02:00",
		Payload: []byte(`{"id":"` + id + `","type":"shipment.created","timestamp":"2025-06-10T14:00:00.0+02:00","data":{"shipmentId":"SH-1","weightKg":0.1000}}`),
	}
}

// Accepted submits one event and returns it as stored.
func (b *Bench) Accepted(t *testing.T, id string) domain.Event {
	t.Helper()
	e := Event(id)
	receipt := b.Submit(t, pipeline.Submission{Account: Account, Events: []domain.Event{e}})
	if receipt.Events[0].Duplicate {
		t.Fatalf("event %s: taken for a duplicate", id)
	}
	e.ReceivedAt = receipt.Events[0].ReceivedAt
	return e
}

// Submit submits events.
func (b *Bench) Submit(t *testing.T, sub pipeline.Submission) pipeline.Receipt {
	t.Helper()
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{sub})
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	if len(receipts) != 1 {
		t.Fatalf("accept: %d receipts for one submission", len(receipts))
	}
	return receipts[0]
}

// Webhook registers a webhook for all event types.
func (b *Bench) Webhook(t *testing.T, change ...func(*domain.Webhook)) domain.Webhook {
	t.Helper()
	w := domain.Webhook{
		Account: Account, URL: fmt.Sprintf("https://receiver.example/%d", b.Next()), Events: domain.EventTypes(),
		Active: true, Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Secret: domain.NewSecret(),
	}
	for _, c := range change {
		c(&w)
	}
	created, _, err := b.CreateWebhook(t.Context(), w, nil)
	if err != nil {
		t.Fatalf("create webhook: %v", err)
	}
	return created
}

// Outcome returns the outcome of a first attempt that ended with status.
func (b *Bench) Outcome(e domain.Event, w domain.Webhook, status domain.Status) domain.Outcome {
	now := b.Clock.Now().Truncate(time.Microsecond)
	o := domain.Outcome{
		Delivery: domain.NewDeliveryID(e.Key(), w.ID), Account: e.Account, Webhook: w.ID,
		EventID: e.ID, EventType: e.Type, Status: status, Rev: 2, Attempts: 1, RunAttempts: 1,
		RunStartedAt: now, UpdatedAt: now,
		Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: 1500 * time.Microsecond, Status: 200, Class: domain.ClassOK, ResponseBody: "ok", Transcript: []byte{1, 0, 0xff}},
	}
	if status == domain.StatusRetrying {
		o.NextAttemptAt = now.Add(5 * time.Second)
	}
	if status != domain.StatusDelivered {
		o.Attempt.Status, o.Attempt.Class, o.Attempt.ResponseBody = 500, domain.Class5xx, "out of order"
	}
	return o
}

// After returns the next state of the delivery, one attempt later.
func (b *Bench) After(o domain.Outcome, status domain.Status) domain.Outcome {
	now := b.Clock.Now().Truncate(time.Microsecond)
	o.Status, o.Rev, o.Attempts, o.RunAttempts, o.UpdatedAt = status, o.Rev+2, o.Attempts+1, o.RunAttempts+1, now
	o.NextAttemptAt = time.Time{}
	o.Attempt = &domain.Attempt{
		ID: domain.AttemptID(), Number: o.Attempts, StartedAt: now, Duration: time.Millisecond, Status: 503, Class: domain.Class5xx, Transcript: []byte{1, 0, 0xfe},
	}
	if status == domain.StatusDelivered {
		o.Attempt.Status, o.Attempt.Class = 200, domain.ClassOK
	}
	return o
}

// Recorded records outcomes.
func (b *Bench) Recorded(t *testing.T, outcomes ...domain.Outcome) recorder.RecordResult {
	t.Helper()
	return b.RecordedBatch(t, domain.RecordBatch{Outcomes: outcomes})
}

// RecordedBatch records batches.
func (b *Bench) RecordedBatch(t *testing.T, batches ...domain.RecordBatch) recorder.RecordResult {
	t.Helper()
	result, err := b.Record(t.Context(), batches)
	if err != nil {
		t.Fatalf("record: %v", err)
	}
	return result
}

// Delivery returns a delivery of the account with its attempts.
func (b *Bench) Delivery(t *testing.T, id domain.DeliveryID) (domain.Delivery, []domain.Attempt) {
	t.Helper()
	d, attempts, err := b.GetDelivery(t.Context(), Account, id)
	if err != nil {
		t.Fatalf("get delivery: %v", err)
	}
	return d, attempts
}

// Deliveries returns the ids on all pages of a filter. It reads small pages.
func (b *Bench) Deliveries(t *testing.T, f pipeline.DeliveryFilter) []domain.DeliveryID {
	t.Helper()
	f.Account = Account
	if f.Limit == 0 {
		f.Limit = 2
	}
	var ids []domain.DeliveryID
	for {
		page, next, err := b.ListDeliveries(t.Context(), f)
		if err != nil {
			t.Fatalf("list deliveries: %v", err)
		}
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		if next == "" {
			return ids
		}
		f.Cursor = next
	}
}
