package record

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"waybill.dev/shared/domain"
)

// TestWeightIsCloseToWhatIsEncoded: a batch is closed by it, and the memory of records is
// bounded by it.
func TestWeightIsCloseToWhatIsEncoded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	key := domain.EventKey{Account: domain.DefaultAccount, ID: "evt_" + uuid.NewString(), ReceivedAt: now}
	hook := domain.WebhookID(uuid.NewString())
	outcome := func(change func(*domain.Outcome)) *domain.Outcome {
		o := &domain.Outcome{
			Delivery: domain.NewDeliveryID(key, hook), Account: key.Account, Webhook: hook, EventID: key.ID,
			EventType: domain.ShipmentCreated, EventSeq: 123_456_789, Status: domain.StatusDelivered, Rev: 2, Attempts: 1, RunAttempts: 1,
			RunStartedAt: now, UpdatedAt: now,
		}
		change(o)
		return o
	}
	attempt := func(body string) *domain.Attempt {
		return &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: 29 * time.Second, Status: 200, ResponseBody: body}
	}
	for name, item := range map[string]Item{
		"held":              {Outcome: outcome(func(o *domain.Outcome) { o.Reason, o.InLane = domain.ReasonInactive, true })},
		"no answer":         {Outcome: outcome(func(o *domain.Outcome) { o.Attempt = attempt(""); o.Attempt.Error = "no answer within 15 s" })},
		"a short answer":    {Outcome: outcome(func(o *domain.Outcome) { o.Attempt = attempt(`{"ok":true}`) })},
		"the longest":       {Outcome: outcome(func(o *domain.Outcome) { o.Attempt = attempt(strings.Repeat("x", 4096)) })},
		"markup and quotes": {Outcome: outcome(func(o *domain.Outcome) { o.Attempt = attempt(strings.Repeat("\"<\u2028", 800)) })},
		"a late run": {Outcome: outcome(func(o *domain.Outcome) {
			o.Attempt = attempt(`gone`)
			o.Rev, o.Attempts, o.Request, o.EventSeq = 1_000_000, 10_000, uuid.NewString(), 1<<48
		})},
		"an event": {Outcome: outcome(func(*domain.Outcome) {}), Event: &domain.Event{
			Account: key.Account, ID: key.ID, Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11Z", Payload: make([]byte, 256<<10), ReceivedAt: now}},
		"the last of an event": {Outcome: outcome(func(o *domain.Outcome) { o.Attempt = attempt("") }), Of: alone{key}},
		"settled":              {Settled: &key},
		"health":               {Health: &domain.HealthChange{Webhook: hook, FailingSince: now, DisabledVersion: 1 << 40, DisabledReason: domain.DisabledFailing, At: now}},
		"a certificate":        {Health: &domain.HealthChange{Webhook: hook, At: now, Certificate: &domain.Certificate{ExpiresAt: now, Version: 1 << 40}}},
	} {
		encoded := len(Encode(gather([]Item{item}, ""))) - len(Encode(&domain.RecordBatch{}))
		if got := weight(&item); got < encoded || got > encoded+64 {
			t.Errorf("%s weighs %d, encoded it has %d bytes", name, got, encoded)
		}
	}
}

// alone is an event that one outcome settles.
type alone struct{ key domain.EventKey }

// Settle implements Settler.
func (a alone) Settle(int, string) *domain.EventKey { return &a.key }

// of is an event with several outcomes, all of which one batch must have.
type of struct {
	key   domain.EventKey
	n     int
	asked []string // servers
}

// Settle implements Settler.
func (o *of) Settle(n int, server string) *domain.EventKey {
	o.asked = append(o.asked, server)
	if n < o.n || server != "one" {
		return nil
	}
	return &o.key
}

// A batch settles the events of which it has all outcomes. A batch that could not be stored
// may reach another server, so the question is asked anew.
func TestABatchSettlesWhatItCompletes(t *testing.T) {
	t.Parallel()
	whole := &of{key: domain.EventKey{Account: "a", ID: "whole"}, n: 2}
	part := &of{key: domain.EventKey{Account: "a", ID: "part"}, n: 2}
	item := func(o *of) Item {
		return Item{Outcome: &domain.Outcome{Account: "a", EventID: o.key.ID}, Of: o}
	}
	items := []Item{item(whole), item(part), item(whole), {Outcome: &domain.Outcome{Account: "a"}}}
	batch := gather(items, "one")
	if len(batch.Outcomes) != len(items) {
		t.Errorf("%d outcomes, want %d", len(batch.Outcomes), len(items))
	}
	if len(batch.Settled) != 1 || batch.Settled[0] != whole.key {
		t.Errorf("settled is %v, want %v alone", batch.Settled, whole.key)
	}
	if again := gather(items, "two"); len(again.Settled) != 0 {
		t.Errorf("on another server %v is settled", again.Settled)
	}
	if diff := cmp.Diff([]string{"one", "two"}, whole.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// stalled stores nothing until it is told to.
type stalled struct{ waiting chan func(error) }

// PublishRecords implements Publisher.
func (s stalled) PublishRecords(_ []byte, done func(error)) { s.waiting <- done }

// Server implements Publisher.
func (stalled) Server() string { return "one" }

func TestAnEmitterThatMayNotGoOnIsFull(t *testing.T) {
	t.Parallel()
	publisher := stalled{make(chan func(error), 100)}
	e := NewEmitter(publisher, RowsPostgres, 10_000, slog.New(slog.DiscardHandler))
	go func() { _ = e.Run(t.Context()) }()
	item := Item{Settled: &domain.EventKey{Account: "a", ID: strings.Repeat("i", 1000)}}
	n := 0
	for ; !e.Full(); n++ {
		e.Emit(item)
	}
	if n < 9 || n > 10 {
		t.Errorf("it is full with %d items of 1000 bytes, bound 10,000", n)
	}
	go func() {
		for done := range publisher.waiting {
			done(nil)
		}
	}()
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e.Full() || e.Bytes() != 0 {
		t.Errorf("%d bytes count as waiting when everything is stored", e.Bytes())
	}
}

// timed tells how many outcomes each batch has, and when it came.
type timed struct {
	began time.Time
	came  chan came
}

type came struct {
	after time.Duration
	items int
}

func (p timed) PublishRecords(body []byte, done func(error)) {
	batch, err := Parse(body)
	p.came <- came{time.Since(p.began), len(batch.Outcomes)}
	done(err)
}

func (timed) Server() string { return "one" }

func TestABatchWaitsForMore(t *testing.T) {
	t.Parallel()
	plain, inTurn := Item{Outcome: &domain.Outcome{EventID: "e"}}, Item{Outcome: &domain.Outcome{EventID: "e", Sequence: 7}}
	for name, row := range map[string]struct {
		emit func(e *Emitter)
		want []came
	}{
		"alone": {func(e *Emitter) { e.Emit(plain) }, []came{{linger, 1}}},
		"of one moment": {func(e *Emitter) {
			e.Emit(plain)
			<-time.After(linger / 2)
			e.Emit(plain)
		}, []came{{linger, 2}}},
		"in turn": {func(e *Emitter) {
			e.Emit(plain)
			<-time.After(linger / 2)
			e.Emit(inTurn)
			<-time.After(lingerInTurn / 2)
			e.Emit(inTurn)
		}, []came{{linger/2 + lingerInTurn, 3}}},
		"enough": {func(e *Emitter) {
			for range 2*RowsSQLite + 1 {
				e.Emit(plain)
			}
		}, []came{{0, min(RowsSQLite, enough)}, {0, min(RowsSQLite, enough)}, {0, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := timed{time.Now(), make(chan came, 8)}
				e := NewEmitter(p, RowsSQLite, 1<<20, slog.New(slog.DiscardHandler))
				go func() { _ = e.Run(t.Context()) }()
				row.emit(e)
				var got []came
				for range row.want {
					got = append(got, <-p.came)
				}
				// Batches are published side by side.
				slices.SortFunc(got, func(a, b came) int { return b.items - a.items })
				if !slices.Equal(got, row.want) {
					t.Errorf("batches came as %v, want %v", got, row.want)
				}
			})
		})
	}
}
