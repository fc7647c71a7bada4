package recorder_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func recordTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"writes deliveries and attempts":       testRecord,
		"is idempotent":                        testRecordTwice,
		"collapses outcomes of a delivery":     testRecordCollapse,
		"ignores states that come late":        testRecordOrder,
		"breaks ties by time":                  testRecordTie,
		"keeps two first attempts":             testRecordTwoFirst,
		"grows from pending to delivered":      testRecordLife,
		"shows a late attempt once":            testRecordLate,
		"writes one batch in part known":       testRecordMixed,
		"settles events":                       testRecordSettles,
		"adds events of the bus":               testRecordEvents,
		"finds deliveries of a repeated event": testRecordRepeats,
		"spans days":                           testRecordDays,
		"counts what is outdated":              testRecordOutdated,
		"takes any text of a receiver":         testRecordText,
		"takes nothing":                        testRecordNothing,
		"counts once under concurrency":        testRecordConcurrent,
		"keeps how the last attempt ended":     testRecordLast,
		"tells revisions":                      testRevs,
		"keeps what is said of circuits":       testCircuit,
		"keeps since when a webhook fails":     testFailingSince,
		"tells of each transition once":        testAlerts,
		"tells of what is exhausted, bounded":  testAlertsExhausted,
		"tells of what becomes inactive":       testAlertsDisabled,
		"tells of a quota that is used up":     testAlertsUsedUp,
		"tells once what two dispatchers see":  testAlertsOfTwo,
		"never tells a webhook of itself":      testAlertsOfItself,
	}
}

func testRecord(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	o := b.Outcome(e, w, domain.StatusRetrying)
	o.Attempt.Error = "timeout"
	if r := b.Recorded(t, o); r.Attempts != 1 || r.Outdated != 0 {
		t.Errorf("result %+v", r)
	}
	d, attempts := b.Delivery(t, o.Delivery)
	want := domain.Delivery{
		LastClass: domain.Class5xx, LastStatus: 500, ID: o.Delivery, Account: account, Webhook: w.ID, EventID: e.ID, EventType: e.Type,
		Status: domain.StatusRetrying, Attempts: 1, NextAttemptAt: o.NextAttemptAt,
		CreatedAt: e.ReceivedAt, UpdatedAt: o.UpdatedAt,
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]domain.Attempt{*o.Attempt}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	b.Clock.Advance(5 * time.Second)
	second := b.After(o, domain.StatusDelivered)
	if r := b.Recorded(t, second); r.Attempts != 1 {
		t.Errorf("result %+v", r)
	}
	d, attempts = b.Delivery(t, o.Delivery)
	want.LastClass, want.LastStatus = domain.ClassOK, 200
	want.Status, want.Attempts, want.NextAttemptAt, want.UpdatedAt = domain.StatusDelivered, 2, time.Time{}, second.UpdatedAt
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]domain.Attempt{*o.Attempt, *second.Attempt}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func testRecordLast(t *testing.T, b *bench) {
	w := b.Webhook(t)
	check := func(when string, o domain.Outcome, class domain.Class, status int) {
		t.Helper()
		d, _ := b.Delivery(t, o.Delivery)
		if d.LastClass != class || d.LastStatus != status {
			t.Errorf("%s: the last attempt is %q %d, want %q %d", when, d.LastClass, d.LastStatus, class, status)
		}
		page, _, err := b.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: account, EventID: o.EventID})
		if err != nil || len(page) != 1 || page[0].LastClass != class || page[0].LastStatus != status {
			t.Errorf("%s: listed as %+v, %v", when, page, err)
		}
	}
	without := func(o domain.Outcome, status domain.Status) domain.Outcome {
		o.Status, o.Attempt, o.Rev, o.UpdatedAt = status, nil, o.Rev.Next(), o.UpdatedAt.Add(time.Second)
		return o
	}

	born := b.Outcome(b.Accepted(t, "evt_1"), w, domain.StatusDelivered)
	born.Attempt.Status = 204
	b.Recorded(t, born)
	check("at once", born, domain.ClassOK, 204)

	failed := b.Outcome(b.Accepted(t, "evt_2"), w, domain.StatusRetrying)
	failed.Attempt.Status, failed.Attempt.Class = 0, domain.ClassTimeout
	b.Recorded(t, failed)
	check("failed", failed, domain.ClassTimeout, 0)
	again := b.After(failed, domain.StatusRetrying)
	b.Recorded(t, again)
	check("failed again", again, domain.Class5xx, 503)
	held := without(again, domain.StatusHeld)
	b.Recorded(t, held)
	check("held", held, domain.Class5xx, 503)
	through := b.After(held, domain.StatusDelivered)
	through.Attempt.Status, through.Attempt.Class = 200, domain.ClassOK
	b.Recorded(t, through)
	check("delivered", through, domain.ClassOK, 200)
	b.Recorded(t, held, again)
	check("told once more", through, domain.ClassOK, 200)
	if _, attempts := b.Delivery(t, failed.Delivery); attempts[0].Class != domain.ClassTimeout || attempts[1].Class != domain.Class5xx || attempts[2].Class != domain.ClassOK {
		t.Errorf("the attempts are %+v", attempts)
	}

	waiting := b.Outcome(b.Accepted(t, "evt_3"), w, domain.StatusHeld)
	waiting.Attempt, waiting.Attempts = nil, 0
	b.Recorded(t, waiting)
	check("not tried", waiting, "", 0)
	tried := b.After(waiting, domain.StatusRetrying)
	b.Recorded(t, tried)
	check("tried", tried, domain.Class5xx, 503)

	once := b.Outcome(b.Accepted(t, "evt_4"), w, domain.StatusRetrying)
	b.Recorded(t, once, without(once, domain.StatusHeld))
	check("failed and held in one batch", once, domain.Class5xx, 500)
}

func testRecordTwice(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var batch domain.RecordBatch
	for i := range 120 {
		e := b.Accepted(t, fmt.Sprintf("evt_%d", i))
		o := b.Outcome(e, w, domain.StatusRetrying)
		batch.Outcomes = append(batch.Outcomes, o)
		if i%3 == 0 {
			batch.Outcomes = append(batch.Outcomes, b.After(o, domain.StatusDelivered))
		}
		batch.Settled = append(batch.Settled, e.Key())
	}
	if r := b.RecordedBatch(t, batch); r.Attempts != 160 {
		t.Errorf("first: %+v", r)
	}
	if r := b.RecordedBatch(t, batch, batch); r.Attempts != 0 || r.Outdated != 0 {
		t.Errorf("again: %+v", r)
	}
	_, attempts := b.Delivery(t, batch.Outcomes[0].Delivery)
	if len(attempts) != 2 {
		t.Errorf("%d attempts, want 2", len(attempts))
	}
	if n := len(b.Deliveries(t, pipeline.DeliveryFilter{Limit: 1000})); n != 120 {
		t.Errorf("%d deliveries, want 120", n)
	}
	if _, left, err := b.OldestUnsettled(t.Context()); err != nil || left {
		t.Errorf("unsettled events are left: %v", err)
	}
}

func testRecordCollapse(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	first := b.Outcome(e, w, domain.StatusRetrying)
	second := b.After(first, domain.StatusRetrying)
	third := b.After(second, domain.StatusDelivered)
	r := b.RecordedBatch(t, domain.RecordBatch{Outcomes: []domain.Outcome{third, first}}, domain.RecordBatch{Outcomes: []domain.Outcome{second}})
	if r.Attempts != 3 {
		t.Errorf("result %+v", r)
	}
	d, attempts := b.Delivery(t, first.Delivery)
	if d.Status != domain.StatusDelivered || d.Attempts != 3 {
		t.Errorf("delivery %+v", d)
	}
	for i, a := range attempts {
		if a.Number != i+1 {
			t.Errorf("attempt %d at position %d", a.Number, i)
		}
	}
	if len(attempts) != 3 {
		t.Errorf("%d attempts", len(attempts))
	}
}

func testRecordOrder(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	first := b.Outcome(e, w, domain.StatusRetrying)
	second := b.After(first, domain.StatusDelivered)
	b.Recorded(t, second)
	if r := b.Recorded(t, first); r.Attempts != 1 {
		t.Errorf("the late attempt: %+v", r)
	}
	d, attempts := b.Delivery(t, first.Delivery)
	if d.Status != domain.StatusDelivered || d.Attempts != 2 || len(attempts) != 2 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
	if r := b.Recorded(t, first, second); r.Attempts != 0 {
		t.Errorf("again: %+v", r)
	}
}

func testRecordTie(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	older := b.Outcome(e, w, domain.StatusRetrying)
	b.Clock.Advance(time.Millisecond)
	newer := b.Outcome(e, w, domain.StatusDelivered)
	b.Recorded(t, newer)
	b.Recorded(t, older)
	if d, attempts := b.Delivery(t, older.Delivery); d.Status != domain.StatusDelivered || len(attempts) != 2 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
}

func testRecordTwoFirst(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	one, two := b.Outcome(e, w, domain.StatusDelivered), b.Outcome(e, w, domain.StatusDelivered)
	if r := b.Recorded(t, one); r.Attempts != 1 {
		t.Errorf("result %+v", r)
	}
	if r := b.Recorded(t, one, two); r.Attempts != 1 {
		t.Errorf("result %+v", r)
	}
	if _, attempts := b.Delivery(t, one.Delivery); len(attempts) != 2 {
		t.Errorf("%d attempts, want both", len(attempts))
	}
}

func testRecordLife(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	o := b.Outcome(e, w, domain.StatusPending)
	o.Attempt, o.Attempts, o.Rev, o.InLane, o.Reason = nil, 0, 1, true, domain.ReasonOverCap
	if r := b.Recorded(t, o); r.Attempts != 0 {
		t.Errorf("result %+v", r)
	}
	if d, attempts := b.Delivery(t, o.Delivery); d.Status != domain.StatusPending || d.Reason != domain.ReasonOverCap || len(attempts) != 0 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
	o = b.After(o, domain.StatusDelivered)
	o.InLane, o.Reason = false, ""
	if r := b.Recorded(t, o); r.Attempts != 1 {
		t.Errorf("result %+v", r)
	}
	if d, attempts := b.Delivery(t, o.Delivery); d.Status != domain.StatusDelivered || d.Reason != "" || len(attempts) != 1 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
}

// An attempt that came late is not taken into the row as well when it comes once more,
// together with the next one.
func testRecordLate(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	waiting := b.Outcome(e, w, domain.StatusHeld)
	waiting.Attempt, waiting.Attempts = nil, 0
	late := b.After(waiting, domain.StatusRetrying)
	again := late
	again.Rev, again.Attempt, again.Status = late.Rev+2, nil, domain.StatusHeld
	b.Recorded(t, waiting)
	b.Recorded(t, again)
	if r := b.Recorded(t, late); r.Attempts != 1 {
		t.Errorf("the late attempt: %+v", r)
	}
	if r := b.Recorded(t, late, b.After(again, domain.StatusDelivered)); r.Attempts != 1 {
		t.Errorf("the next attempt: %+v", r)
	}
	d, attempts := b.Delivery(t, late.Delivery)
	if d.Status != domain.StatusDelivered || len(attempts) != 2 || attempts[0].Number != 1 || attempts[1].Number != 2 {
		t.Errorf("delivery %+v, attempts %+v", d, attempts)
	}
}

func testRecordMixed(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	known := b.Outcome(e, w, domain.StatusDelivered)
	b.Recorded(t, known)
	batch := []domain.Outcome{known}
	for range 70 {
		batch = append(batch, b.Outcome(e, b.Webhook(t), domain.StatusDelivered))
	}
	if r := b.Recorded(t, batch...); r.Attempts != 70 {
		t.Errorf("result %+v", r)
	}
	for _, o := range batch {
		if d, attempts := b.Delivery(t, o.Delivery); d.Status != domain.StatusDelivered || len(attempts) != 1 {
			t.Errorf("delivery %+v, %d attempts", d, len(attempts))
		}
	}
}

func testRecordSettles(t *testing.T, b *bench) {
	one, two := b.Accepted(t, "evt_1"), b.Accepted(t, "evt_2")
	never := domain.EventKey{Account: account, ID: "evt_3", ReceivedAt: noon}
	b.RecordedBatch(t, domain.RecordBatch{Settled: []domain.EventKey{one.Key(), never, one.Key()}})
	page, _, err := b.Unsettled(t.Context(), noon.Add(time.Hour), pipeline.OutboxCursor{}, 10)
	if err != nil || len(page) != 1 || page[0].Event.ID != two.ID {
		t.Errorf("unsettled %+v, %v", page, err)
	}
}

func testRecordEvents(t *testing.T, b *bench) {
	rest := b.Accepted(t, "evt_rest")
	bus := pipelinetest.Event("evt_bus")
	bus.ReceivedAt = noon.Add(-48 * time.Hour)
	repeated := pipelinetest.Event("evt_rest")
	repeated.ReceivedAt, repeated.Payload = noon.Add(5*time.Second), []byte(`{"other":1}`)
	for range 2 {
		b.RecordedBatch(t, domain.RecordBatch{Events: []domain.Event{bus, repeated}})
	}
	for _, want := range []domain.Event{bus, rest} {
		got, err := b.GetEvent(t.Context(), account, want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	if page, _, err := b.Unsettled(t.Context(), noon.Add(time.Hour), pipeline.OutboxCursor{}, 10); err != nil || len(page) != 1 {
		t.Errorf("%d unsettled, want the REST event alone (%v)", len(page), err)
	}
}

func testRecordRepeats(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var want []domain.DeliveryID
	var batch domain.RecordBatch
	for i := range 3 {
		e := pipelinetest.Event("evt_1")
		e.ReceivedAt = noon.Add(time.Duration(i) * time.Minute)
		o := b.Outcome(e, w, domain.StatusDelivered)
		want = append([]domain.DeliveryID{o.Delivery}, want...)
		batch.Events, batch.Outcomes = append(batch.Events, e), append(batch.Outcomes, o)
	}
	b.RecordedBatch(t, batch)
	b.RecordedBatch(t, batch)
	if diff := cmp.Diff(want, b.Deliveries(t, pipeline.DeliveryFilter{EventID: "evt_1"})); diff != "" {
		t.Errorf("deliveries of the event (-want +got):\n%s", diff)
	}
}

func testRecordDays(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var batch domain.RecordBatch
	for i := range 4 {
		e := pipelinetest.Event(fmt.Sprintf("evt_%d", i))
		e.ReceivedAt = noon.AddDate(0, 0, -i)
		batch.Events = append(batch.Events, e)
		batch.Outcomes = append(batch.Outcomes, b.Outcome(e, w, domain.StatusDelivered))
	}
	if r := b.RecordedBatch(t, batch); r.Attempts != 4 || r.Outdated != 0 {
		t.Errorf("result %+v", r)
	}
	if n := len(b.Deliveries(t, pipeline.DeliveryFilter{})); n != 4 {
		t.Errorf("%d deliveries", n)
	}
}

func testRecordOutdated(t *testing.T, b *bench) {
	w, week := b.Webhook(t), 7*24*time.Hour
	old := pipelinetest.Event("evt_old")
	old.ReceivedAt = noon.AddDate(0, 0, -20)
	if r := b.RecordedBatch(t, domain.RecordBatch{Events: []domain.Event{old}, Outcomes: []domain.Outcome{b.Outcome(old, w, domain.StatusRetrying)}}); r.Outdated != 0 {
		t.Errorf("before anything was dropped: %+v", r)
	}
	if _, err := b.Maintain(t.Context(), noon, week); err != nil {
		t.Fatal(err)
	}
	future := pipelinetest.Event("evt_future")
	future.ReceivedAt = noon.AddDate(1, 0, 0)
	fresh := b.Accepted(t, "evt_fresh")
	nonsense := b.Outcome(fresh, w, domain.StatusDelivered)
	nonsense.Delivery = "nonsense"
	// No account has such a name, and Postgres takes no such text.
	nobody := pipelinetest.Event("evt_nobody")
	nobody.Account = "no\x00body\xff"
	strange := b.Outcome(fresh, w, domain.StatusDelivered)
	strange.Account = nobody.Account
	for range 2 {
		r := b.RecordedBatch(t, domain.RecordBatch{
			Events: []domain.Event{old, future, nobody},
			Outcomes: []domain.Outcome{
				b.Outcome(old, w, domain.StatusDelivered), b.Outcome(future, w, domain.StatusDelivered),
				b.Outcome(fresh, w, domain.StatusDelivered), nonsense, strange,
			},
		})
		if r.Outdated != 7 || r.Attempts != 1 {
			t.Errorf("result %+v", r)
		}
	}
	if got := b.Deliveries(t, pipeline.DeliveryFilter{}); len(got) != 1 {
		t.Errorf("deliveries %v", got)
	}
}

func testRecordText(t *testing.T, b *bench) {
	e := b.Accepted(t, "evt_1")
	one, two := b.Outcome(e, b.Webhook(t), domain.StatusRetrying), b.Outcome(e, b.Webhook(t), domain.StatusRetrying)
	one.Attempt.ResponseBody, one.Attempt.Error = "a\x00b\xffc", "bad \xc3"
	one.Reason = "\x00"
	two = b.After(two, domain.StatusRetrying)
	two.Attempt.ResponseBody = "\x00\U0001F600"
	b.Recorded(t, one, two)
	if _, attempts := b.Delivery(t, one.Delivery); attempts[0].ResponseBody != "a\uFFFDb\uFFFDc" || attempts[0].Error != "bad \uFFFD" {
		t.Errorf("attempt %+v", attempts[0])
	}
	if _, attempts := b.Delivery(t, two.Delivery); attempts[0].ResponseBody != "\uFFFD\U0001F600" {
		t.Errorf("attempt %+v", attempts[0])
	}
}

func testRecordNothing(t *testing.T, b *bench) {
	if r := b.RecordedBatch(t); r.Attempts != 0 || r.Outdated != 0 {
		t.Errorf("result %+v", r)
	}
	if r := b.RecordedBatch(t, domain.RecordBatch{}); r.Attempts != 0 || r.Outdated != 0 {
		t.Errorf("result %+v", r)
	}
}

func testRecordConcurrent(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var batch domain.RecordBatch
	for i := range 40 {
		e := b.Accepted(t, fmt.Sprintf("evt_%d", i))
		o := b.Outcome(e, w, domain.StatusRetrying)
		batch.Outcomes = append(batch.Outcomes, o, b.After(o, domain.StatusDelivered))
		batch.Settled = append(batch.Settled, e.Key())
	}
	var mu sync.Mutex
	attempts := 0
	var wg sync.WaitGroup
	for c := range 6 {
		wg.Go(func() {
			part := domain.RecordBatch{Settled: batch.Settled}
			for i := range batch.Outcomes {
				part.Outcomes = append(part.Outcomes, batch.Outcomes[(i*7+c*11)%len(batch.Outcomes)])
			}
			half := len(part.Outcomes) / 2
			for _, p := range []domain.RecordBatch{{Outcomes: part.Outcomes[half:]}, {Outcomes: part.Outcomes[:half]}, part} {
				r, err := b.Record(t.Context(), []domain.RecordBatch{p})
				if err != nil {
					t.Errorf("record: %v", err)
				}
				mu.Lock()
				attempts += r.Attempts
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if attempts != 80 {
		t.Errorf("%d attempts counted, want 80", attempts)
	}
	for _, id := range b.Deliveries(t, pipeline.DeliveryFilter{Limit: 100}) {
		if d, attempts := b.Delivery(t, id); d.Status != domain.StatusDelivered || len(attempts) != 2 {
			t.Errorf("delivery %+v, %d attempts", d, len(attempts))
		}
	}
}

func testRevs(t *testing.T, b *bench) {
	w := b.Webhook(t)
	one, two := b.Outcome(b.Accepted(t, "evt_1"), w, domain.StatusDelivered), b.Outcome(b.Accepted(t, "evt_2"), w, domain.StatusDelivered)
	two.Rev = 4711
	b.Recorded(t, one, two)
	unknown := domain.NewDeliveryID(pipelinetest.Event("evt_3").Key(), w.ID)
	got, err := b.Revs(t.Context(), w.Account, []domain.DeliveryID{one.Delivery, two.Delivery, unknown, "nonsense"})
	if err != nil {
		t.Fatal(err)
	}
	if other, err := b.Revs(t.Context(), "another", []domain.DeliveryID{one.Delivery}); err != nil || len(other) != 0 {
		t.Errorf("another account's revisions: %v, %v", other, err)
	}
	if diff := cmp.Diff(map[domain.DeliveryID]domain.Revision{one.Delivery: 2, two.Delivery: 4711}, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}
