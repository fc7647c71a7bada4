package pipeline_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func logTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"lists events in pages":            testEventPages,
		"filters events":                   testEventFilters,
		"lists deliveries in pages":        testDeliveryPages,
		"filters deliveries":               testDeliveryFilters,
		"filters deliveries by status":     testDeliveryStatus,
		"shows the circuit that opened":    testDeliveryCut,
		"shows what a deletion leaves":     testDeliveryDeleted,
		"refuses cursors of others":        testCursors,
		"filters deliveries by all else":   testFilters,
		"filters events by all else":       testEventsByAllElse,
		"refuses cursors of other filters": testCursorOfAnotherFilter,
		"finds nothing for other ids":      testDeliveryNotFound,
		"shows an event's own deliveries":  testEventDeliveries,
	}
}

func testEventPages(t *testing.T, b *bench) {
	var want []string
	for i := range 7 {
		// Three commits: ids within one sort downwards.
		sub := pipeline.Submission{Account: account, Events: []domain.Event{pipelinetest.Event(fmt.Sprintf("evt_%d", i))}}
		if i%3 == 0 {
			b.Clock.Advance(13 * time.Hour)
			sub.Events = append(sub.Events, pipelinetest.Event(fmt.Sprintf("evt_%d_b", i)))
		}
		b.Submit(t, sub)
		for _, e := range sub.Events {
			want = append([]string{e.ID}, want...)
		}
	}
	b.Submit(t, pipeline.Submission{Account: "other", Events: []domain.Event{pipelinetest.Event("evt_other")}})
	events := listEvents(t, b, pipeline.EventFilter{Limit: 3})
	var got []string
	for _, e := range events {
		got = append(got, e.ID)
	}
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	slices.Sort(want)
	if diff := cmp.Diff(want, sorted); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(events, func(a, b domain.Event) int { return b.ReceivedAt.Compare(a.ReceivedAt) }) {
		t.Errorf("not newest first: %v", got)
	}
}

func listEvents(t *testing.T, b *bench, f pipeline.EventFilter) []domain.Event {
	t.Helper()
	f.Account = account
	var all []domain.Event
	for {
		page, next, err := b.ListEvents(t.Context(), f)
		if err != nil {
			t.Fatalf("list events: %v", err)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		if len(page) != f.Limit {
			t.Fatalf("a page of %d before the last, limit %d", len(page), f.Limit)
		}
		f.Cursor = next
	}
}

func testEventFilters(t *testing.T, b *bench) {
	for i, kind := range domain.EventTypes() {
		e := pipelinetest.Event(fmt.Sprintf("evt_%d", i))
		e.Type = kind
		b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{e}})
		b.Clock.Advance(10 * time.Hour)
	}
	for _, c := range []struct {
		name   string
		filter pipeline.EventFilter
		want   []string
	}{
		{"all", pipeline.EventFilter{}, []string{"evt_3", "evt_2", "evt_1", "evt_0"}},
		{"type", pipeline.EventFilter{Type: domain.ShipmentInTransit}, []string{"evt_1"}},
		{"since is inclusive", pipeline.EventFilter{Since: noon.Add(20 * time.Hour)}, []string{"evt_3", "evt_2"}},
		{"since, just after", pipeline.EventFilter{Since: noon.Add(20*time.Hour + 1)}, []string{"evt_3"}},
		{"until is exclusive", pipeline.EventFilter{Until: noon.Add(10 * time.Hour)}, []string{"evt_0"}},
		{"until, just after", pipeline.EventFilter{Until: noon.Add(10*time.Hour + time.Microsecond)}, []string{"evt_1", "evt_0"}},
		{"between", pipeline.EventFilter{Since: noon.Add(1), Until: noon.Add(30 * time.Hour)}, []string{"evt_2", "evt_1"}},
		{"nothing", pipeline.EventFilter{Since: noon.Add(99 * time.Hour)}, nil},
	} {
		c.filter.Limit = 1
		var got []string
		for _, e := range listEvents(t, b, c.filter) {
			got = append(got, e.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func testDeliveryPages(t *testing.T, b *bench) {
	webhooks := []domain.Webhook{b.Webhook(t), b.Webhook(t), b.Webhook(t)}
	var want []domain.DeliveryID
	var outcomes []domain.Outcome
	for i := range 5 {
		e := b.Accepted(t, fmt.Sprintf("evt_%d", i))
		for _, w := range webhooks {
			o := b.Outcome(e, w, domain.StatusDelivered)
			want = append(want, o.Delivery)
			outcomes = append(outcomes, o)
		}
		b.Clock.Advance(9 * time.Hour)
	}
	b.Recorded(t, outcomes...)
	slices.SortFunc(want, func(a, b domain.DeliveryID) int { return -strings.Compare(string(a), string(b)) })
	for _, limit := range []int{1, 4, 15, 1000} {
		if diff := cmp.Diff(want, b.Deliveries(t, pipeline.DeliveryFilter{Limit: limit})); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	if list, _, err := b.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: "other"}); err != nil || len(list) != 0 {
		t.Errorf("another account sees %d, %v", len(list), err)
	}
}

func testDeliveryFilters(t *testing.T, b *bench) {
	one, two := b.Webhook(t), b.Webhook(t)
	names := map[domain.DeliveryID]string{}
	for i := range 3 {
		e := b.Accepted(t, fmt.Sprintf("evt_%d", i))
		for name, w := range map[string]domain.Webhook{"one": one, "two": two} {
			o := b.Outcome(e, w, domain.StatusDelivered)
			names[o.Delivery] = fmt.Sprintf("%d-%s", i, name)
			b.Recorded(t, o)
		}
		b.Clock.Advance(20 * time.Hour)
	}
	for _, c := range []struct {
		name   string
		filter pipeline.DeliveryFilter
		want   []string
	}{
		{"webhook", pipeline.DeliveryFilter{Webhook: one.ID}, []string{"0-one", "1-one", "2-one"}},
		{"event", pipeline.DeliveryFilter{EventID: "evt_1"}, []string{"1-one", "1-two"}},
		{"both", pipeline.DeliveryFilter{EventID: "evt_1", Webhook: two.ID}, []string{"1-two"}},
		{"unknown event", pipeline.DeliveryFilter{EventID: "evt_9"}, nil},
		{"since is inclusive", pipeline.DeliveryFilter{Since: noon.Add(40 * time.Hour)}, []string{"2-one", "2-two"}},
		{"since, just after", pipeline.DeliveryFilter{Since: noon.Add(40*time.Hour + 1)}, nil},
		{"until is exclusive", pipeline.DeliveryFilter{Until: noon.Add(20 * time.Hour), Webhook: one.ID}, []string{"0-one"}},
		{"until, just after", pipeline.DeliveryFilter{Until: noon.Add(20*time.Hour + 1), Webhook: one.ID}, []string{"0-one", "1-one"}},
		{"long ago", pipeline.DeliveryFilter{Since: time.Time{}.AddDate(1, 0, 0), Webhook: one.ID}, []string{"0-one", "1-one", "2-one"}},
		{"type of status", pipeline.DeliveryFilter{Status: domain.StatusFailed}, nil},
	} {
		c.filter.Limit = 1
		var got []string
		for _, id := range b.Deliveries(t, c.filter) {
			got = append(got, names[id])
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// byStatus lists what shows with each status, and checks that what lists as such reads
// as such.
func (b *bench) byStatus(t *testing.T, names map[domain.DeliveryID]string) map[domain.Status][]string {
	t.Helper()
	got := map[domain.Status][]string{}
	var total int
	for _, status := range domain.Statuses() {
		for _, id := range b.Deliveries(t, pipeline.DeliveryFilter{Status: status}) {
			total++
			got[status] = append(got[status], names[id])
			if d, _ := b.Delivery(t, id); d.Status != status {
				t.Errorf("%s lists as %s and reads as %s", names[id], status, d.Status)
			}
		}
		slices.Sort(got[status])
	}
	if all := b.Deliveries(t, pipeline.DeliveryFilter{}); len(all) != total {
		t.Errorf("%d deliveries, %d by status", len(all), total)
	}
	return got
}

// everyStatus records a delivery in each status and names them after it.
func (b *bench) everyStatus(t *testing.T, w domain.Webhook, names map[domain.DeliveryID]string, prefix string) map[domain.Status]domain.DeliveryID {
	t.Helper()
	ids := map[domain.Status]domain.DeliveryID{}
	for _, status := range domain.Statuses() {
		o := b.Outcome(b.Accepted(t, "evt_"+prefix+string(status)), w, status)
		ids[status], names[o.Delivery] = o.Delivery, prefix+string(status)
		b.Recorded(t, o)
	}
	return ids
}

// What overflowed before its webhook's circuit opened is shown as waiting for the circuit, until that closes.
func testDeliveryCut(t *testing.T, b *bench) {
	w, other := b.Webhook(t), b.Webhook(t)
	overflowed := func(id string, of domain.Webhook) domain.DeliveryID {
		e := b.Accepted(t, id)
		o := b.Outcome(e, of, domain.StatusPending)
		o.Attempt, o.Attempts, o.InLane, o.Reason = nil, 0, true, domain.ReasonOverCap
		b.Recorded(t, o)
		return o.Delivery
	}
	id, others := overflowed("evt_1", w), overflowed("evt_2", other)
	circuit := domain.Circuit{OpenSince: b.Clock.Now(), Failures: 20, FailingSince: b.Clock.Now(), SaidAt: b.Clock.Now()}
	for _, open := range []bool{true, false} {
		if !open {
			circuit = domain.Circuit{SaidAt: b.Clock.Now().Add(time.Second)}
		}
		if _, err := b.Record(t.Context(), []domain.RecordBatch{{Health: []domain.HealthChange{{Webhook: w.ID, At: circuit.SaidAt, Circuit: &circuit}}}}); err != nil {
			t.Fatal(err)
		}
		status, reason, waits := domain.StatusPending, domain.ReasonOverCap, []domain.DeliveryID{others, id}
		var cut []domain.DeliveryID
		if open {
			status, reason, waits, cut = domain.StatusRetrying, domain.ReasonCircuitOpen, waits[:1], waits[1:]
		}
		if d, _ := b.Delivery(t, id); d.Status != status || d.Reason != reason {
			t.Errorf("open %v: it is %s, %s; want %s, %s", open, d.Status, d.Reason, status, reason)
		}
		if d, _ := b.Delivery(t, others); d.Status != domain.StatusPending || d.Reason != domain.ReasonOverCap {
			t.Errorf("open %v: that of another webhook is %s, %s", open, d.Status, d.Reason)
		}
		for _, tc := range []struct {
			filter pipeline.DeliveryFilter
			want   []domain.DeliveryID
		}{
			{pipeline.DeliveryFilter{Status: domain.StatusPending}, waits}, {pipeline.DeliveryFilter{Reason: domain.ReasonOverCap}, waits},
			{pipeline.DeliveryFilter{Status: domain.StatusRetrying}, cut}, {pipeline.DeliveryFilter{Reason: domain.ReasonCircuitOpen}, cut},
		} {
			got := b.Deliveries(t, tc.filter) // in the order of their ids, which are drawn by lot
			if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(tc.want))) {
				t.Errorf("open %v: %+v lists %v, want %v", open, tc.filter, got, tc.want)
			}
		}
	}
}

func testDeliveryStatus(t *testing.T, b *bench) {
	w, names := b.Webhook(t), map[domain.DeliveryID]string{}
	ids := b.everyStatus(t, w, names, "")
	want := map[domain.Status][]string{}
	for _, status := range domain.Statuses() {
		want[status] = []string{string(status)}
	}
	if diff := cmp.Diff(want, b.byStatus(t, names)); diff != "" {
		t.Errorf("by status (-want +got):\n%s", diff)
	}
	// What is asked for again shows as pending.
	for _, status := range []domain.Status{domain.StatusDelivered, domain.StatusFailed, domain.StatusHeld} {
		if d, err := b.RequestRetry(t.Context(), account, ids[status]); err != nil || d.Status != domain.StatusPending {
			t.Errorf("retry of %s: %s, %v", status, d.Status, err)
		}
	}
	want = map[domain.Status][]string{
		domain.StatusPending:  {"delivered", "failed", "held", "pending"},
		domain.StatusRetrying: {"retrying"},
	}
	if diff := cmp.Diff(want, b.byStatus(t, names)); diff != "" {
		t.Errorf("by status (-want +got):\n%s", diff)
	}
}

func testDeliveryDeleted(t *testing.T, b *bench) {
	w, other, names := b.Webhook(t), b.Webhook(t), map[domain.DeliveryID]string{}
	ids := b.everyStatus(t, w, names, "")
	asked := b.everyStatus(t, w, names, "asked-")
	b.everyStatus(t, other, names, "other-")
	for _, status := range []domain.Status{domain.StatusDelivered, domain.StatusFailed, domain.StatusHeld} {
		if _, err := b.RequestRetry(t.Context(), account, asked[status]); err != nil {
			t.Fatal(err)
		}
	}
	test, err := b.RequestTest(t.Context(), pipelinetest.Event("evt_test"), w.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	names[test] = "test"
	if err := b.DeleteWebhook(t.Context(), account, w.ID); err != nil {
		t.Fatal(err)
	}
	want := map[domain.Status][]string{
		domain.StatusDelivered: {"asked-delivered", "delivered", "other-delivered"},
		domain.StatusFailed: {
			"asked-failed", "asked-held", "asked-pending", "asked-retrying",
			"failed", "held", "other-failed", "pending", "retrying", "test",
		},
		domain.StatusPending:  {"other-pending"},
		domain.StatusRetrying: {"other-retrying"},
		domain.StatusHeld:     {"other-held"},
	}
	if diff := cmp.Diff(want, b.byStatus(t, names)); diff != "" {
		t.Errorf("by status (-want +got):\n%s", diff)
	}
	d, attempts := b.Delivery(t, ids[domain.StatusRetrying])
	if d.Reason != domain.ReasonWebhookDeleted || !d.NextAttemptAt.IsZero() || len(attempts) != 1 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
	if _, err := b.RequestRetry(t.Context(), account, ids[domain.StatusFailed]); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("retry: %v, want a conflict", err)
	}
}

func testCursors(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for i := range 3 {
		b.Recorded(t, b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", i)), w, domain.StatusDelivered))
	}
	_, events, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: account, Limit: 1})
	if err != nil || events == "" {
		t.Fatalf("cursor %q, %v", events, err)
	}
	_, deliveries, err := b.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: account, Limit: 1})
	if err != nil || deliveries == "" {
		t.Fatalf("cursor %q, %v", deliveries, err)
	}
	for _, c := range []struct{ account, cursor string }{
		{account, "nonsense!"}, {account, "bm9uc2Vuc2U"}, {account, "e30"}, {"other", events}, {"other", deliveries},
		{account, events[:len(events)-3]},
	} {
		_, _, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: c.account, Cursor: c.cursor})
		if !errors.Is(err, store.ErrCursor) {
			t.Errorf("events of %s after %q: %v", c.account, c.cursor, err)
		}
		_, _, err = b.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: c.account, Cursor: c.cursor})
		if !errors.Is(err, store.ErrCursor) {
			t.Errorf("deliveries of %s after %q: %v", c.account, c.cursor, err)
		}
	}
	if _, _, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: account, Cursor: deliveries}); !errors.Is(err, store.ErrCursor) {
		t.Errorf("another list's cursor: %v", err)
	}
	for _, cursor := range forgedCursors(events, deliveries) {
		_, _, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: account, Cursor: cursor})
		if !errors.Is(err, store.ErrCursor) {
			t.Errorf("events after %q: %v", cursor, err)
		}
		_, _, err = b.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: account, Cursor: cursor})
		if !errors.Is(err, store.ErrCursor) {
			t.Errorf("deliveries after %q: %v", cursor, err)
		}
	}
}

// forgedCursors returns what looks like cursors of the two lists and is none: made up, with
// the checksum and without it, and damaged ones.
func forgedCursors(events, deliveries string) []string {
	var list []string
	for _, text := range []string{
		`{"l":"e","a":"default","t":9223372036854775807,"i":"evt_1"}`, `{"l":"e","a":"default","t":-9223372036854775808,"i":"evt_1"}`,
		`{"l":"e","a":"default","t":253402300800000,"i":"evt_1"}`, `{"l":"e","a":"default","t":-1,"i":"evt_1"}`,
		`{"l":"e","a":"default","t":9999999999999999999,"i":"evt_1"}`, `{"l":"e","a":"default","t":1.5,"i":"evt_1"}`, `{"l":"e","a":"default","t":1e400,"i":"evt_1"}`,
		`{"l":"e","a":"default","t":1750000000000,"i":"a\u0000b"}`, `{"l":"e","a":"default","t":1750000000000,"i":""}`, `{"l":"e","a":"default","t":1750000000000}`,
		`{"l":"e","a":"default","t":1750000000000,"i":"\ud800"}`, "{\"l\":\"e\",\"a\":\"default\",\"t\":1750000000000,\"i\":\"\xff\"}",
		`{"l":"e","a":"default","t":1750000000000,"i":"evt_1","x":1}`, `{"L":"e","a":"default","t":1750000000000,"i":"evt_1"}`,
		`{"l":"e","a":"default","t":1750000000000,"i":"evt_1"} `, `{"l":"e","l":"e","a":"default","t":1750000000000,"i":"evt_1"}`,
		`{"l":"e","a":"default","t":1750000000000,"i":"` + strings.Repeat("x", 1<<16) + `"}`, `{"l":"e","a":"def\u0000ault","t":1750000000000,"i":"evt_1"}`,
		`{"l":"d","a":"default","i":"zzzzzzzzzzzzzzzzzzzzzz"}`, `{"l":"d","a":"default","i":"7n42DGM5Tflk9n8mt7Fhc7"}`, `{"l":"d","a":"default","i":"evt_1"}`,
		`{"l":"d","a":"default","i":"` + string(domain.DeliveryIDFloor(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))) + `"}`,
		`{"l":"d","a":"default","t":1,"i":"` + string(domain.DeliveryIDFloor(noon)) + `"}`, `{"l":"d","a":"default","i":"\u0000"}`,
		`{"l":"x","a":"default","i":"evt_1"}`, `null`, `[]`, `{}`, `"e"`, ``, "\x00",
	} {
		sum := binary.BigEndian.AppendUint32([]byte(text), crc32.ChecksumIEEE([]byte(text)))
		if text != "" {
			list = append(list, base64.RawURLEncoding.EncodeToString([]byte(text)))
		}
		list = append(list, base64.RawURLEncoding.EncodeToString(sum))
	}
	for _, good := range []string{events, deliveries} {
		list = append(list, good+"=", good+"A", good[:len(good)-1], good+"\n", "\n"+good, good+"\x00", good+"\xff", good+good)
		for i := range good {
			for _, c := range "A_9\n" {
				if bad := good[:i] + string(c) + good[i+1:]; bad != good {
					list = append(list, bad)
				}
			}
		}
	}
	return list
}

func testDeliveryNotFound(t *testing.T, b *bench) {
	o := b.Outcome(b.Accepted(t, "evt_1"), b.Webhook(t), domain.StatusDelivered)
	b.Recorded(t, o)
	for name, c := range map[string]struct {
		account string
		id      domain.DeliveryID
	}{
		"another account": {"other", o.Delivery},
		"no id":           {account, "nonsense"},
		"unknown":         {account, domain.DeliveryIDFloor(noon)},
		"far future":      {account, domain.DeliveryIDFloor(noon.AddDate(3000, 0, 0))},
	} {
		_, _, err := b.GetDelivery(t.Context(), c.account, c.id)
		storetest.WantNotFound(t, name, err)
		_, err = b.RequestRetry(t.Context(), c.account, c.id)
		storetest.WantNotFound(t, "retry of "+name, err)
	}
}

func testEventDeliveries(t *testing.T, b *bench) {
	w, other := b.Webhook(t), b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	// The same id in two accounts, in one commit and so in one millisecond.
	receipts, err := b.Accept(t.Context(), []pipeline.Submission{
		{Account: account, Events: []domain.Event{pipelinetest.Event("evt_1"), pipelinetest.Event("evt_2")}},
		{Account: "other", Events: []domain.Event{pipelinetest.Event("evt_1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs, second := pipelinetest.Event("evt_1"), pipelinetest.Event("evt_1"), pipelinetest.Event("evt_2")
	theirs.Account = "other"
	for _, e := range []*domain.Event{&mine, &theirs, &second} {
		e.ReceivedAt = receipts[0].Events[0].ReceivedAt
	}
	o := b.Outcome(mine, w, domain.StatusDelivered)
	b.Recorded(t, o, b.Outcome(theirs, other, domain.StatusDelivered), b.Outcome(second, w, domain.StatusDelivered))
	if diff := cmp.Diff([]domain.DeliveryID{o.Delivery}, b.Deliveries(t, pipeline.DeliveryFilter{EventID: "evt_1"})); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	// The id again after a day: the newest event, the deliveries of both.
	b.Clock.Advance(25 * time.Hour)
	again := b.Accepted(t, "evt_1")
	later := b.Outcome(again, w, domain.StatusDelivered)
	b.Recorded(t, later)
	got, err := b.GetEvent(t.Context(), account, "evt_1")
	if err != nil || !got.ReceivedAt.Equal(again.ReceivedAt) {
		t.Errorf("event of %v, %v", got.ReceivedAt, err)
	}
	if diff := cmp.Diff([]domain.DeliveryID{later.Delivery, o.Delivery}, b.Deliveries(t, pipeline.DeliveryFilter{EventID: "evt_1"})); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}
