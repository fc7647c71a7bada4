package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func relayTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"pages through unsettled events": testUnsettled,
		"counts relayed events":          testMarkRelayed,
		"knows the oldest":               testOldestUnsettled,
		"restores what waited in order":  testRestorableInOrder,
		"restores what waited":           testRestorable,
		"keeps the times of streams":     testBusStreams,
	}
}

func (b *bench) unsettled(t *testing.T, before time.Time) []string {
	t.Helper()
	var ids []string
	var after pipeline.OutboxCursor
	for {
		page, next, err := b.Unsettled(t.Context(), before, after, 3)
		if err != nil {
			t.Fatalf("unsettled: %v", err)
		}
		if len(page) == 0 {
			return ids
		}
		for _, e := range page {
			ids = append(ids, e.Event.ID)
		}
		after = next
	}
}

func testUnsettled(t *testing.T, b *bench) {
	var want []string
	for i := range 4 {
		var events []domain.Event
		for j := range 4 {
			id := fmt.Sprintf("evt_%d_%d", i, j)
			events, want = append(events, pipelinetest.Event(id)), append(want, id)
		}
		b.Submit(t, pipeline.Submission{Account: account, Events: events})
		b.Clock.Advance(11 * time.Hour)
	}
	if diff := cmp.Diff(want, b.unsettled(t, noon.AddDate(1, 0, 0))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:8], b.unsettled(t, noon.Add(22*time.Hour))); diff != "" {
		t.Errorf("before the third commit (-want +got):\n%s", diff)
	}
	if got := b.unsettled(t, noon); len(got) != 0 {
		t.Errorf("before the first: %v", got)
	}
}

func testMarkRelayed(t *testing.T, b *bench) {
	one, two := b.Accepted(t, "evt_1"), b.Accepted(t, "evt_2")
	never := domain.EventKey{Account: "other", ID: "evt_1", ReceivedAt: one.ReceivedAt}
	for i := range 2 {
		if err := b.MarkRelayed(t.Context(), []domain.EventKey{two.Key(), never}, noon.Add(time.Duration(i+1)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.unsettled(t, noon.Add(2*time.Minute)); !cmp.Equal(got, []string{"evt_1"}) {
		t.Errorf("not relayed since: %v", got)
	}
	page, _, err := b.Unsettled(t.Context(), noon.Add(time.Hour), pipeline.OutboxCursor{}, 10)
	if err != nil || len(page) != 2 || page[0].Relayed != 0 || page[1].Relayed != 2 {
		t.Errorf("page %+v, %v", page, err)
	}
	if err := b.MarkRelayed(t.Context(), nil, noon); err != nil {
		t.Error(err)
	}
}

func testOldestUnsettled(t *testing.T, b *bench) {
	if _, found, err := b.OldestUnsettled(t.Context()); found || err != nil {
		t.Errorf("found one in an empty store, %v", err)
	}
	one := b.Accepted(t, "evt_1")
	b.Clock.Advance(time.Minute)
	b.Accepted(t, "evt_2")
	if at, found, err := b.OldestUnsettled(t.Context()); !found || !at.Equal(noon) || err != nil {
		t.Errorf("oldest %v, %v", at, err)
	}
	b.RecordedBatch(t, domain.RecordBatch{Settled: []domain.EventKey{one.Key()}})
	if at, found, err := b.OldestUnsettled(t.Context()); !found || !at.Equal(noon.Add(time.Minute)) || err != nil {
		t.Errorf("oldest %v, %v", at, err)
	}
}

func testRestorable(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var want []pipeline.RestoreItem
	add := func(status domain.Status, inLane, restored bool) domain.Outcome {
		e := b.Accepted(t, fmt.Sprintf("evt_%d", b.Next()))
		o := b.Outcome(e, w, status)
		o.InLane = inLane
		b.Recorded(t, o)
		item := pipeline.RestoreItem{
			Task: domain.Task{
				Delivery: o.Delivery, Account: account, Webhook: w.ID, EventID: e.ID, EventType: e.Type,
				ReceivedAt: e.ReceivedAt, Attempts: 1, RunAttempts: 1, RunStartedAt: o.RunStartedAt, Rev: 2, Body: e.Payload,
			},
			NextAttemptAt: o.NextAttemptAt, InLane: inLane, Status: status, UpdatedAt: o.UpdatedAt,
		}
		if inLane || status == domain.StatusHeld {
			item.Task.HeldAt = o.UpdatedAt
		}
		if restored {
			want = append(want, item)
		}
		b.Clock.Advance(7 * time.Hour)
		return o
	}
	add(domain.StatusRetrying, false, true)
	add(domain.StatusDelivered, false, false)
	add(domain.StatusHeld, true, true)
	add(domain.StatusPending, false, false) // its event is unsettled: that brings it back
	add(domain.StatusFailed, false, false)
	add(domain.StatusPending, true, true)
	asked := add(domain.StatusHeld, true, false)
	if _, err := b.RequestRetry(t.Context(), account, asked.Delivery); err != nil {
		t.Fatal(err)
	}
	add(domain.StatusRetrying, true, true)
	var got []pipeline.RestoreItem
	var after domain.DeliveryID
	for {
		page, next, err := b.Restorable(t.Context(), time.Time{}, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
		if after = next; after == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	last := want[len(want)-1]
	got, _, err := b.Restorable(t.Context(), last.UpdatedAt, "", 100)
	if diff := cmp.Diff([]pipeline.RestoreItem{last}, got); err != nil || diff != "" {
		t.Errorf("restored since the last change: %v (-want +got):\n%s", err, diff)
	}
}

func testBusStreams(t *testing.T, b *bench) {
	if got, err := b.BusStreams(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	first := map[string]domain.StreamMark{
		"EVENTS": {Created: noon, LastSeq: 7, Server: "a", SeenAt: noon.Add(time.Minute)},
		"HOLD":   {Created: noon.Add(time.Microsecond), Server: "a", SeenAt: noon},
	}
	later := map[string]domain.StreamMark{"EVENTS": {Created: noon.Add(time.Hour), LastSeq: 1 << 40, Server: "b", SeenAt: noon.Add(time.Hour)}}
	for _, marks := range []map[string]domain.StreamMark{first, nil, later} {
		if err := b.MarkBusStreams(t.Context(), marks); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.BusStreams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]domain.StreamMark{"EVENTS": later["EVENTS"], "HOLD": first["HOLD"]}, got); diff != "" {
		t.Errorf("streams (-want +got):\n%s", diff)
	}
}
