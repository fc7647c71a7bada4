package pipeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

const week = 7 * 24 * time.Hour

func maintainTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"drops whole days past the retention": testMaintainDrops,
		"expires what is undelivered":         testMaintainExpires,
		"purges the outbox":                   testMaintainOutbox,
		"purges keys and tombstones":          testMaintainPurges,
		"purges numbers of shipments":         testMaintainSequences,
		"works in batches":                    testMaintainBatches,
	}
}

func (b *bench) maintain(t *testing.T) pipeline.MaintainResult {
	t.Helper()
	result, err := b.Maintain(t.Context(), b.Clock.Now(), week)
	if err != nil {
		t.Fatalf("maintain: %v", err)
	}
	return result
}

func testMaintainDrops(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for i := range 3 {
		e := b.Accepted(t, fmt.Sprintf("evt_%d", i))
		o := b.Outcome(e, w, domain.StatusRetrying)
		b.Recorded(t, o)
		b.Recorded(t, b.After(o, domain.StatusDelivered))
		b.RecordedBatch(t, domain.RecordBatch{Settled: []domain.EventKey{e.Key()}})
		b.Clock.Advance(24 * time.Hour)
	}
	// It is noon of the 13th; the days that are past a week wholly end on the 5th.
	if r := b.maintain(t); r.Expired != 0 || slices.ContainsFunc(r.Dropped, func(d time.Time) bool { return d.After(noon.AddDate(0, 0, -5)) }) {
		t.Errorf("result %+v", r)
	}
	if n := len(listEvents(t, b, pipeline.EventFilter{Limit: 10})); n != 3 {
		t.Errorf("%d events, want all", n)
	}
	b.Clock.Set(time.Date(2025, time.June, 18, 0, 0, 0, 0, time.UTC))
	r := b.maintain(t)
	if len(r.Dropped) == 0 || !r.Dropped[len(r.Dropped)-1].Equal(domain.Day(noon)) {
		t.Errorf("dropped %v, want up to %v", r.Dropped, domain.Day(noon))
	}
	var got []string
	for _, e := range listEvents(t, b, pipeline.EventFilter{Limit: 10}) {
		got = append(got, e.ID)
	}
	if diff := cmp.Diff([]string{"evt_2", "evt_1"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := len(b.Deliveries(t, pipeline.DeliveryFilter{})); n != 2 {
		t.Errorf("%d deliveries", n)
	}
	if r := b.maintain(t); len(r.Dropped) != 0 {
		t.Errorf("again: %+v", r)
	}
}

func testMaintainExpires(t *testing.T, b *bench) {
	w, names := b.Webhook(t), map[domain.DeliveryID]string{}
	ids := b.everyStatus(t, w, names, "old-")
	b.Clock.Advance(time.Millisecond)
	b.everyStatus(t, w, names, "new-")
	b.Clock.Set(noon.Add(week + time.Millisecond))
	if r := b.maintain(t); r.Expired != 3 {
		t.Errorf("result %+v", r)
	}
	want := map[domain.Status][]string{
		domain.StatusDelivered: {"new-delivered", "old-delivered"},
		domain.StatusFailed:    {"new-failed", "old-failed", "old-held", "old-pending", "old-retrying"},
		domain.StatusPending:   {"new-pending"},
		domain.StatusRetrying:  {"new-retrying"},
		domain.StatusHeld:      {"new-held"},
	}
	if diff := cmp.Diff(want, b.byStatus(t, names)); diff != "" {
		t.Errorf("by status (-want +got):\n%s", diff)
	}
	d, _ := b.Delivery(t, ids[domain.StatusRetrying])
	if d.Reason != domain.ReasonRetention || !d.NextAttemptAt.IsZero() {
		t.Errorf("delivery %+v", d)
	}
	// A dispatcher that did not know says something about the old run.
	late := b.Outcome(domain.Event{Account: account, ID: "evt_old-retrying", ReceivedAt: noon}, w, domain.StatusRetrying)
	late.Rev = 6
	b.Recorded(t, late)
	if d, _ := b.Delivery(t, ids[domain.StatusRetrying]); d.Status != domain.StatusFailed {
		t.Errorf("delivery %+v", d)
	}
	if items, _, err := b.Restorable(t.Context(), time.Time{}, "", 100); err != nil || len(items) != 2 {
		t.Errorf("%d restorable, %v", len(items), err)
	}
}

func testMaintainOutbox(t *testing.T, b *bench) {
	b.Accepted(t, "evt_1")
	b.Clock.Advance(time.Hour)
	b.Accepted(t, "evt_2")
	b.Clock.Set(noon.Add(week + time.Minute))
	if r := b.maintain(t); r.Unsettled != 1 {
		t.Errorf("result %+v", r)
	}
	if got := b.unsettled(t, noon.AddDate(1, 0, 0)); !cmp.Equal(got, []string{"evt_2"}) {
		t.Errorf("unsettled %v", got)
	}
}

func testMaintainPurges(t *testing.T, b *bench) {
	kept, deleted := b.Webhook(t), b.Webhook(t)
	for _, w := range []domain.Webhook{kept, deleted} {
		b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: w.ID, FailingSince: noon, At: noon}}})
	}
	if err := b.DeleteWebhook(t.Context(), account, deleted.ID); err != nil {
		t.Fatal(err)
	}
	b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event("evt_1")}, Once: once("key", "a", respondIDs)})
	o := b.Outcome(pipelinetest.Event("evt_1"), kept, domain.StatusFailed)
	o.Delivery = domain.NewDeliveryID(domain.EventKey{Account: account, ID: "evt_1", ReceivedAt: noon}, kept.ID)
	b.Recorded(t, o)
	if _, err := b.RequestRetry(t.Context(), account, o.Delivery); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(week + 12*time.Hour)
	b.maintain(t)
	if changed, _, err := b.Webhooks(t.Context(), 1); err != nil || len(changed) != 2 {
		t.Errorf("%d webhooks before the tombstone's time, %v", len(changed), err)
	}
	b.Clock.Advance(13 * time.Hour)
	b.maintain(t)
	changed, _, err := b.Webhooks(t.Context(), 1)
	if err != nil || len(changed) != 1 || changed[0].ID != kept.ID {
		t.Errorf("webhooks %v, %v", webhookIDs(changed), err)
	}
	healths, err := b.Healths(t.Context(), time.Time{})
	if err != nil || len(healths) != 1 || healths[0].Webhook != kept.ID {
		t.Errorf("healths %+v, %v", healths, err)
	}
	if left := b.openRequests(t, b.Clock.Now()); len(left) != 0 {
		t.Errorf("%d requests left", len(left))
	}
}

func testMaintainBatches(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var batch domain.RecordBatch
	for i := range 2500 {
		e := pipelinetest.Event(fmt.Sprintf("evt_%d", i))
		e.ReceivedAt = noon
		batch.Outcomes = append(batch.Outcomes, b.Outcome(e, w, domain.StatusHeld))
	}
	b.RecordedBatch(t, batch)
	b.Clock.Advance(week + time.Hour)
	if r := b.maintain(t); r.Expired != 2500 {
		t.Errorf("result %+v", r)
	}
	b.Clock.Advance(24 * time.Hour)
	b.maintain(t)
	if n := len(b.Deliveries(t, pipeline.DeliveryFilter{Limit: 1000})); n != 0 {
		t.Errorf("%d deliveries left", n)
	}
}
