// Package storetest is the test suite that the store must pass on every database. It checks what
// callers rely on, through the store's exported methods only.
package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// Opener opens a store on a fresh database of its own, with the clock and the keys that
// the options name, and closes it at the end of the test. It need not migrate.
type Opener func(t *testing.T, o store.Options) *store.Store

// Run runs the suite.
func Run(t *testing.T, open Opener) {
	t.Helper()
	for _, group := range []struct {
		name  string
		tests map[string]func(*testing.T, *bench)
	}{
		{"accept", acceptTests()},
		{"webhooks", webhookTests()},
		{"log", logTests()},
		{"pages", pageTests()},
		{"record", recordTests()},
		{"requests", requestTests()},
		{"relay", relayTests()},
		{"maintain", maintainTests()},
		{"accounts", accountTests()},
		{"buckets", bucketTests()},
		{"consumers", consumerTests()},
		{"keys", keyTests()},
		{"audit", auditTests()},
	} {
		for name, test := range group.tests {
			t.Run(group.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, newBench(t, open))
			})
		}
	}
}

// bench is a migrated store with a clock that stands still until it is moved.
type bench struct {
	*store.Store
	clock *clock
	serial
}

// Noon is when the suite's clock starts: far from midnight.
func Noon() time.Time { return noon }

var noon = time.Date(2025, time.June, 10, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

const account = domain.DefaultAccount

func newBench(t *testing.T, open Opener) *bench {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{now: noon}
	s := open(t, store.Options{Keys: keys, Now: c.Now})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return &bench{Store: s, clock: c}
}

// clock is a clock that is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// serial counts what a test makes.
type serial struct {
	mu sync.Mutex
	n  int
}

func (s *serial) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return s.n
}

func event(id string) domain.Event {
	return domain.Event{
		Account: account, ID: id, Type: domain.ShipmentCreated, Timestamp: "2025-06-10T14:00:00.0+02:00",
		Payload: []byte(`{"id":"` + id + `","type":"shipment.created","timestamp":"2025-06-10T14:00:00.0+02:00","data":{"shipmentId":"SH-1","weightKg":0.1000}}`),
	}
}

// accept submits one event and returns it as stored.
func (b *bench) accept(t *testing.T, id string) domain.Event {
	t.Helper()
	e := event(id)
	receipt := b.submit(t, store.Submission{Account: account, Events: []domain.Event{e}})
	if receipt.Events[0].Duplicate {
		t.Fatalf("event %s: taken for a duplicate", id)
	}
	e.ReceivedAt = receipt.Events[0].ReceivedAt
	return e
}

func (b *bench) submit(t *testing.T, sub store.Submission) store.Receipt {
	t.Helper()
	receipts, err := b.Accept(t.Context(), []store.Submission{sub})
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	if len(receipts) != 1 {
		t.Fatalf("accept: %d receipts for one submission", len(receipts))
	}
	return receipts[0]
}

func (b *bench) webhook(t *testing.T, change ...func(*domain.Webhook)) domain.Webhook {
	t.Helper()
	w := domain.Webhook{
		Account: account, URL: fmt.Sprintf("https://receiver.example/%d", b.next()), Events: domain.EventTypes(),
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

// outcome is a first attempt that ended with status.
func (b *bench) outcome(e domain.Event, w domain.Webhook, status domain.Status) domain.Outcome {
	now := b.clock.Now().Truncate(time.Microsecond)
	o := domain.Outcome{
		Delivery: domain.NewDeliveryID(e.Key(), w.ID), Account: e.Account, Webhook: w.ID,
		EventID: e.ID, EventType: e.Type, Status: status, Rev: 2, Attempts: 1, RunAttempts: 1,
		RunStartedAt: now, UpdatedAt: now,
		Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: 1500 * time.Microsecond, Status: 200, ResponseBody: "ok"},
	}
	if status == domain.StatusRetrying {
		o.NextAttemptAt = now.Add(5 * time.Second)
	}
	if status != domain.StatusDelivered {
		o.Attempt.Status, o.Attempt.ResponseBody = 500, "out of order"
	}
	return o
}

// after returns the next state of the delivery, one attempt later.
func (b *bench) after(o domain.Outcome, status domain.Status) domain.Outcome {
	now := b.clock.Now().Truncate(time.Microsecond)
	o.Status, o.Rev, o.Attempts, o.RunAttempts, o.UpdatedAt = status, o.Rev+2, o.Attempts+1, o.RunAttempts+1, now
	o.NextAttemptAt = time.Time{}
	o.Attempt = &domain.Attempt{ID: domain.AttemptID(), Number: o.Attempts, StartedAt: now, Duration: time.Millisecond, Status: 503}
	return o
}

func (b *bench) record(t *testing.T, outcomes ...domain.Outcome) store.RecordResult {
	t.Helper()
	return b.recordBatch(t, domain.RecordBatch{Outcomes: outcomes})
}

func (b *bench) recordBatch(t *testing.T, batches ...domain.RecordBatch) store.RecordResult {
	t.Helper()
	result, err := b.Record(t.Context(), batches)
	if err != nil {
		t.Fatalf("record: %v", err)
	}
	return result
}

// get returns a delivery of the suite's account with its attempts.
func (b *bench) get(t *testing.T, id domain.DeliveryID) (domain.Delivery, []domain.Attempt) {
	t.Helper()
	d, attempts, err := b.GetDelivery(t.Context(), account, id)
	if err != nil {
		t.Fatalf("get delivery: %v", err)
	}
	return d, attempts
}

// list returns the ids of all pages of a filter, asking for few at a time.
func (b *bench) list(t *testing.T, f store.DeliveryFilter) []domain.DeliveryID {
	t.Helper()
	f.Account = account
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
