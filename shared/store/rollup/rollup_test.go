package rollup_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
	"waybill.dev/shared/store/storetest"
)

const other = "other"

// shown is a row without what has tests of its own.
type shown struct {
	Start                                            string
	Of                                               string
	Events, Deliveries, Attempts, Succeeded, Latency int64
}

func show(rows []rollup.Row) []shown {
	list := make([]shown, len(rows))
	for i, r := range rows {
		list[i] = shown{
			Of: string(r.Webhook) + string(r.Type) + string(r.Class), Events: r.Events, Deliveries: r.Deliveries,
			Attempts: r.Attempts, Succeeded: r.Succeeded, Latency: r.Latency.Total(),
		}
		if !r.Start.IsZero() {
			list[i].Start = r.Start.Format("2 15:04")
		}
	}
	return list
}

func want(t *testing.T, what string, rows []rollup.Row, want []shown) {
	t.Helper()
	if diff := cmp.Diff(want, show(rows)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// testExact records attempts of two accounts, three webhooks and two types over two hours,
// each batch twice, and compares the counts before, between and after merges.
func testExact(t *testing.T, b *bench) {
	mine, second := b.Webhook(t), b.Webhook(t)
	foreign := b.Webhook(t, func(w *domain.Webhook) { w.Account = other })
	record := func(w domain.Webhook, eventType domain.EventType, statuses ...domain.Status) {
		t.Helper()
		e := domain.Event{Account: w.Account, ID: fmt.Sprintf("evt_%d", b.Next()), Type: eventType, Timestamp: "2025-06-10T12:00:00Z", Payload: []byte("{}"), ReceivedAt: b.Clock.Now()}
		o := b.Outcome(e, w, statuses[0])
		batches := []domain.RecordBatch{{Outcomes: []domain.Outcome{o}}}
		for _, status := range statuses[1:] {
			o = b.After(o, status)
			if status == domain.StatusDelivered {
				o.Attempt.Status, o.Attempt.Class = 200, domain.ClassOK
			}
			batches = append(batches, domain.RecordBatch{Outcomes: []domain.Outcome{o}})
		}
		for range 2 {
			for _, batch := range batches {
				b.RecordedBatch(t, batch)
			}
			b.RecordedBatch(t, batches...)
		}
	}
	delivered, retrying := domain.StatusDelivered, domain.StatusRetrying
	record(mine, domain.ShipmentCreated, delivered)
	record(mine, domain.ShipmentDelivered, retrying, delivered)
	record(second, domain.ShipmentCreated, retrying, retrying)
	b.Clock.Advance(time.Hour)
	record(mine, domain.ShipmentCreated, delivered)
	record(foreign, domain.ShipmentCreated, delivered)
	record(foreign, domain.ShipmentException, retrying)

	since, until := storetest.Noon(), b.Clock.Now().Add(time.Minute)
	check := func(when string) {
		t.Helper()
		want(t, when+": by hour", b.read(t, domain.DefaultAccount, rollup.Query{Since: since, Until: until, Step: rollup.Hour}), []shown{
			{Start: "10 12:00", Deliveries: 3, Attempts: 5, Succeeded: 2, Latency: 5},
			{Start: "10 13:00", Deliveries: 1, Attempts: 1, Succeeded: 1, Latency: 1},
		})
		first, last := mine.ID, second.ID
		rows := []shown{{Of: string(first), Deliveries: 3, Attempts: 4, Succeeded: 3, Latency: 4}, {Of: string(last), Deliveries: 1, Attempts: 2, Latency: 2}}
		if first > last {
			rows[0], rows[1] = rows[1], rows[0]
		}
		want(t, when+": by webhook", b.read(t, domain.DefaultAccount, rollup.Query{Since: since, Until: until, By: rollup.ByWebhook}), rows)
		want(t, when+": by type", b.read(t, domain.DefaultAccount, rollup.Query{Since: since, Until: until, By: rollup.ByType}), []shown{
			{Of: "shipment.created", Deliveries: 3, Attempts: 4, Succeeded: 2, Latency: 4},
			{Of: "shipment.delivered", Deliveries: 1, Attempts: 2, Succeeded: 1, Latency: 2},
		})
		want(t, when+": by class, of a webhook", b.read(t, domain.DefaultAccount, rollup.Query{Since: since, Until: until, Webhook: mine.ID, By: rollup.ByClass, Step: rollup.Day}), []shown{
			{Start: "10 00:00", Of: "http_5xx", Deliveries: 1, Attempts: 1, Latency: 1},
			{Start: "10 00:00", Of: "ok", Deliveries: 2, Attempts: 3, Succeeded: 3, Latency: 3},
		})
		want(t, when+": of the other account", b.read(t, other, rollup.Query{Since: since, Until: until}), []shown{{Deliveries: 2, Attempts: 2, Succeeded: 1, Latency: 2}})
		want(t, when+": of a foreign webhook", b.read(t, domain.DefaultAccount, rollup.Query{Since: since, Until: until, Webhook: foreign.ID}), []shown{})
	}
	check("before the merge")
	if n := b.merge(t); n != 8 {
		t.Errorf("%d deltas were merged, want one for each of 8 batches that added something", n)
	}
	check("after the merge")
	if n := b.merge(t); n != 0 {
		t.Errorf("%d deltas were merged twice", n)
	}
	record(mine, domain.ShipmentCreated, delivered)
	b.merge(t)
	want(t, "after a second merge", b.read(t, domain.DefaultAccount, rollup.Query{Since: b.Clock.Now(), Until: until, Step: rollup.Minute}), []shown{
		{Start: "10 13:00", Deliveries: 2, Attempts: 2, Succeeded: 2, Latency: 2},
	})
}

// testEvents has events accepted over REST and from the bus, and repeats of both.
func testEvents(t *testing.T, b *bench) {
	b.Accepted(t, "evt_1")
	b.Accepted(t, "evt_2")
	again := b.Submit(t, pipeline.Submission{Account: domain.DefaultAccount, Events: []domain.Event{event("evt_2", domain.ShipmentCreated), event("evt_3", domain.ShipmentDelivered)}})
	if !again.Events[0].Duplicate || again.Events[1].Duplicate {
		t.Fatalf("receipt %+v", again)
	}
	b.Submit(t, pipeline.Submission{Account: domain.DefaultAccount, Events: []domain.Event{event("evt_1", domain.ShipmentCreated)}})
	b.Submit(t, pipeline.Submission{Account: other, Events: []domain.Event{event("evt_1", domain.ShipmentCreated)}})
	over := event("evt_4", domain.ShipmentException)
	over.Account, over.ReceivedAt = domain.DefaultAccount, b.Clock.Now()
	known := event("evt_1", domain.ShipmentCreated)
	known.Account, known.ReceivedAt = domain.DefaultAccount, b.Clock.Now().Add(time.Second)
	for range 2 {
		b.RecordedBatch(t, domain.RecordBatch{Events: []domain.Event{over, known}})
		b.RecordedBatch(t, domain.RecordBatch{Events: []domain.Event{over}})
	}
	all := rollup.Query{Since: storetest.Noon(), Until: storetest.Noon().Add(time.Minute), By: rollup.ByType}
	for _, when := range []string{"before the merge", "after the merge"} {
		want(t, when, b.read(t, domain.DefaultAccount, all), []shown{
			{Of: "shipment.created", Events: 2}, {Of: "shipment.delivered", Events: 1}, {Of: "shipment.exception", Events: 1},
		})
		want(t, when+", of the other account", b.read(t, other, all), []shown{{Of: "shipment.created", Events: 1}})
		for _, by := range []rollup.By{rollup.ByWebhook, rollup.ByClass} {
			want(t, when+", by "+string(by), b.read(t, domain.DefaultAccount, rollup.Query{Since: all.Since, Until: all.Until, By: by}), []shown{})
		}
		b.merge(t)
	}
}

func event(id string, eventType domain.EventType) domain.Event {
	return domain.Event{ID: id, Type: eventType, Timestamp: "2025-06-10T12:00:00Z", Payload: []byte("{}")}
}

// testSpans reads spans that no row fits, over three days.
func testSpans(t *testing.T, b *bench) {
	w := b.Webhook(t)
	times := []string{"10T12:00", "10T12:59", "10T13:00", "10T23:59", "11T00:00", "11T12:30", "12T00:00", "12T01:00", "12T01:01"}
	for i, text := range times {
		at, err := time.Parse("2006-01-02T15:04", "2025-06-"+text)
		if err != nil {
			t.Fatal(err)
		}
		b.Clock.Set(at.Add(30 * time.Second))
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", i)), w, domain.StatusDelivered)
		b.Recorded(t, o)
	}
	parse := func(text string) time.Time {
		at, err := time.Parse("2006-01-02T15:04:05", "2025-06-"+text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, merged := range []bool{false, true} {
		for since, untils := range map[string]map[string]int64{
			"10T12:00:00": {"10T12:00:00": 0, "10T12:00:01": 1, "10T12:59:00": 1, "10T13:00:00": 2, "12T01:01:00": 8, "12T01:02:00": 9},
			"10T12:00:59": {"10T12:01:00": 1, "11T00:00:00": 4},
			"10T12:01:00": {"10T12:59:00": 0, "12T01:02:00": 8, "13T00:00:00": 8},
			"10T23:59:00": {"11T00:00:00": 1, "12T00:01:00": 4},
		} {
			for until, n := range untils {
				q := rollup.Query{Since: parse(since), Until: parse(until)}
				for _, q.Step = range []rollup.Step{0, rollup.Minute, rollup.Hour, rollup.Day} {
					for _, q.Webhook = range []domain.WebhookID{"", w.ID} {
						var got int64
						for _, row := range b.read(t, domain.DefaultAccount, q) {
							got += row.Attempts
						}
						if got != n {
							t.Errorf("%s to %s, step %d, merged %t: %d attempts, want %d", since, until, q.Step, merged, got, n)
						}
					}
				}
			}
		}
		b.merge(t)
	}
}

// testConcurrent records, merges and reads at the same time.
func testConcurrent(t *testing.T, b *bench) {
	const recorders, batches, attempts = 3, 15, 4
	w := b.Webhook(t)
	q := rollup.Query{Since: storetest.Noon(), Until: storetest.Noon().Add(time.Minute), Webhook: w.ID}
	var working sync.WaitGroup
	for r := range recorders {
		working.Go(func() {
			for i := range batches {
				var batch domain.RecordBatch
				for j := range attempts {
					e := event(fmt.Sprintf("evt_%d_%d_%d", r, i, j), domain.ShipmentCreated)
					e.Account, e.ReceivedAt = domain.DefaultAccount, b.Clock.Now()
					batch.Outcomes = append(batch.Outcomes, b.Outcome(e, w, domain.StatusDelivered))
				}
				for range 2 {
					if _, err := b.Record(t.Context(), []domain.RecordBatch{batch}); err != nil {
						t.Errorf("record: %v", err)
					}
				}
			}
		})
	}
	recorded := make(chan struct{})
	var around sync.WaitGroup
	for range 2 {
		around.Go(func() {
			var before int64
			for over := false; !over; {
				select {
				case <-recorded:
					over = true
				default:
				}
				if _, _, err := b.rollups.Merge(t.Context()); err != nil {
					t.Errorf("merge: %v", err)
				}
				lists, err := b.rollups.Read(t.Context(), domain.DefaultAccount, q)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				var now int64
				for _, row := range lists[0] {
					now += row.Attempts
				}
				if now < before || now%attempts != 0 {
					t.Errorf("%d attempts after %d, in batches of %d", now, before, attempts)
				}
				before = now
			}
		})
	}
	working.Wait()
	close(recorded)
	around.Wait()
	const all = recorders * batches * attempts
	want(t, "in the end", b.read(t, domain.DefaultAccount, q), []shown{{Deliveries: all, Attempts: all, Succeeded: all, Latency: all}})
	b.merge(t)
	want(t, "merged", b.read(t, domain.DefaultAccount, q), []shown{{Deliveries: all, Attempts: all, Succeeded: all, Latency: all}})
	if backlog, err := b.rollups.Backlog(t.Context()); err != nil || backlog != (rollup.Backlog{}) {
		t.Errorf("what is not merged: %+v, %v", backlog, err)
	}
}

// testLarge has one event for very many webhooks, which takes one row.
func testLarge(t *testing.T, b *bench) {
	const webhooks = 1500
	e := b.Accepted(t, "evt_1")
	b.merge(t)
	for range 3 {
		var batch domain.RecordBatch
		for range webhooks {
			o := b.Outcome(e, domain.Webhook{ID: domain.WebhookID(fmt.Sprintf("00000000-0000-4000-8000-%012d", b.Next()))}, domain.StatusDelivered)
			batch.Outcomes = append(batch.Outcomes, o)
		}
		b.RecordedBatch(t, batch)
	}
	backlog, err := b.rollups.Backlog(t.Context())
	if err != nil || backlog.Deltas != 3 || backlog.Bytes > 3*webhooks*64 || !backlog.Oldest.Equal(storetest.Noon()) {
		t.Errorf("what is not merged: %+v, %v", backlog, err)
	}
	b.merge(t)
	rows := b.read(t, domain.DefaultAccount, rollup.Query{Since: storetest.Noon(), Until: storetest.Noon().Add(time.Hour), By: rollup.ByWebhook})
	if len(rows) != 3*webhooks || rows[0].Attempts != 1 {
		t.Errorf("%d webhooks have rows, want %d; the first is %+v", len(rows), 3*webhooks, rows[0])
	}
}

func testBounded(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for i := range 3 {
		b.Recorded(t, b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", i)), w, domain.StatusDelivered))
		b.Clock.Advance(time.Minute)
	}
	q := rollup.Query{Since: storetest.Noon(), Until: b.Clock.Now(), Step: rollup.Minute, Most: 2}
	for range 2 {
		if _, err := b.rollups.Read(t.Context(), domain.DefaultAccount, q); !errors.Is(err, domain.ErrLimit) {
			t.Errorf("three rows of two: %v", err)
		}
		b.merge(t)
	}
	q.Most = 3
	if rows := b.read(t, domain.DefaultAccount, q); len(rows) != 3 {
		t.Errorf("%d rows, want 3", len(rows))
	}
}

func testPurge(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.Recorded(t, b.Outcome(b.Accepted(t, "evt_1"), w, domain.StatusDelivered))
	b.merge(t)
	b.Clock.Advance(24 * time.Hour)
	b.Recorded(t, b.Outcome(b.Accepted(t, "evt_2"), w, domain.StatusDelivered))
	b.merge(t)
	q := rollup.Query{Since: storetest.Noon(), Until: b.Clock.Now().Add(time.Minute)}
	maintain(t, b, 48*time.Hour)
	if rows := b.read(t, domain.DefaultAccount, q); rows[0].Attempts != 2 {
		t.Errorf("within the retention: %+v", rows)
	}
	maintain(t, b, 11*time.Hour)
	if rows := b.read(t, domain.DefaultAccount, q); len(rows) != 1 || rows[0].Attempts != 1 || rows[0].Events != 1 {
		t.Errorf("after the retention: %+v", rows)
	}
}

func maintain(t *testing.T, b *bench, retention time.Duration) {
	t.Helper()
	if _, err := b.Maintain(t.Context(), b.Clock.Now(), retention); err != nil {
		t.Fatal(err)
	}
}

func testLast(t *testing.T, b *bench) {
	w := b.Webhook(t)
	o := b.Outcome(b.Accepted(t, "evt_1"), w, domain.StatusRetrying)
	b.Recorded(t, o)
	b.Clock.Advance(24 * time.Hour)
	o = b.After(o, domain.StatusDelivered)
	o.Attempt.Status, o.Attempt.Class = 200, domain.ClassOK
	b.Recorded(t, o)
	q := rollup.Query{Since: storetest.Noon(), Until: b.Clock.Now().Add(time.Minute), Webhook: w.ID, By: rollup.ByClass}
	for range 2 {
		rows := b.read(t, domain.DefaultAccount, q)
		if len(rows) != 2 || !rows[0].Last.Equal(storetest.Noon().Add(time.Millisecond)) || !rows[1].Last.Equal(b.Clock.Now().Add(time.Millisecond)) {
			t.Errorf("rows %+v", rows)
		}
		b.merge(t)
	}
}
