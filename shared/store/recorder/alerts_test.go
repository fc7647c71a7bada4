package recorder_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
)

// told is the data of an alert.
type told struct {
	Type           domain.EventType
	WebhookID      domain.WebhookID
	Host           string
	Class          domain.Class
	StatusCode     int
	FailuresInARow int
	Since          time.Time
	SampleAnswer   string
	Reason         string
	EventID        string
	DeliveryID     domain.DeliveryID
	LeftOut        int
	Link           string
}

// alertsOf returns the alerts that are in an account's log, the oldest first.
func alertsOf(t *testing.T, b *bench, account string) []told {
	t.Helper()
	var list []told
	for cursor := ""; ; {
		page, next, err := b.ListEvents(t.Context(), pipeline.EventFilter{Account: account, Source: domain.SourceWaybill, Limit: 1000, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			var body struct {
				ID, Type, Timestamp string
				Data                told
			}
			if err := json.Unmarshal(e.Payload, &body); err != nil || body.ID != e.ID || body.Type != string(e.Type) || body.Timestamp != e.Timestamp {
				t.Errorf("payload of %s: %v: %s", e.ID, err, e.Payload)
			}
			body.Data.Type = e.Type
			list = append(list, body.Data)
		}
		if cursor = next; next == "" {
			slices.Reverse(list)
			return list
		}
	}
}

func typesOf(list []told) []domain.EventType {
	types := make([]domain.EventType, len(list))
	for i, a := range list {
		types[i] = a.Type
	}
	return types
}

// wantAlerts compares the types of the alerts in the log.
func wantAlerts(t *testing.T, b *bench, account string, want ...domain.EventType) []told {
	t.Helper()
	got := alertsOf(t, b, account)
	if diff := cmp.Diff(want, typesOf(got)); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("alerts of %s (-want +got):\n%s", account, diff)
	}
	return got
}

func forAlerts(w *domain.Webhook) { w.Events = domain.AlertTypes() }

// ofAccount registers a webhook of another account.
func ofAccount(account string, more ...func(*domain.Webhook)) []func(*domain.Webhook) {
	return append(more, func(w *domain.Webhook) { w.Account = account })
}

// says is what a webhook's owner says of its circuit after a number of failures.
func says(w domain.Webhook, at time.Time, failures int, since time.Time, open bool) domain.HealthChange {
	c := &domain.Circuit{Failures: failures, SaidAt: at, Alarming: failures >= domain.FailingFrom}
	if failures > 0 {
		c.FailingSince = since
		c.Last = &domain.Answer{At: at, Status: 503, Class: domain.Class5xx, Body: "busy"}
	}
	if open {
		c.OpenSince, c.NextProbeAt = at, at.Add(5*time.Second)
	}
	return domain.HealthChange{Webhook: w.ID, Circuit: c, At: at}
}

func testAlerts(t *testing.T, b *bench) {
	w := b.Webhook(t, func(w *domain.Webhook) { w.URL = "https://receiver.example:8443/hook?token=1" })
	b.Webhook(t, forAlerts)
	stranger := b.Webhook(t, ofAccount("another", forAlerts)...)
	since := b.Clock.Now()
	at := func(n int) time.Time { return since.Add(time.Duration(n) * time.Second) }
	said := []domain.RecordBatch{
		{Health: []domain.HealthChange{says(w, at(1), 4, since, false)}},
		{Health: []domain.HealthChange{says(w, at(2), 5, since, false)}},
		{Health: []domain.HealthChange{says(w, at(3), 19, since, false)}},
		{Health: []domain.HealthChange{says(w, at(4), 20, since, true)}},
		{Health: []domain.HealthChange{says(w, at(5), 21, since, false)}}, // another owner, that knows of no open circuit
		{Health: []domain.HealthChange{says(w, at(6), 22, since, true)}},
		{Health: []domain.HealthChange{says(w, at(7), 0, since, false)}},
		{Health: []domain.HealthChange{says(w, at(8), 4, since, false), says(w, at(9), 0, since, false)}},
	}
	var keys []domain.EventKey
	for i := range said {
		// Whatever was written comes again when the record stage was killed before it could say so.
		for _, batches := range [][]domain.RecordBatch{said[:i+1], said[i : i+1]} {
			keys = append(keys, b.RecordedBatch(t, batches...).Alerts...)
		}
	}
	got := wantAlerts(t, b, account, domain.WebhookFailing, domain.WebhookCircuitOpened, domain.WebhookRecovered)
	link := "/console/webhooks/" + string(w.ID)
	want := []told{
		{Type: domain.WebhookFailing, FailuresInARow: 5, Class: domain.Class5xx, StatusCode: 503, SampleAnswer: "busy"},
		{Type: domain.WebhookCircuitOpened, FailuresInARow: 20, Class: domain.Class5xx, StatusCode: 503, SampleAnswer: "busy"},
		{Type: domain.WebhookRecovered, FailuresInARow: 22, Class: domain.ClassOK},
	}
	for i := range want {
		want[i].WebhookID, want[i].Host, want[i].Since, want[i].Link = w.ID, "receiver.example:8443", since, link
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	if len(keys) != len(want) {
		t.Errorf("told that %d alerts were added, want %d", len(keys), len(want))
	}
	wantAlerts(t, b, stranger.Account)

	page, err := b.Unpublished(t.Context(), 10)
	if err != nil || len(page) != 3 || page[0].Relayed != -1 || page[0].Version == 0 {
		t.Fatalf("unpublished: %+v, %v", page, err)
	}
	if err := b.MarkRelayed(t.Context(), keys[:2], at(10)); err != nil {
		t.Fatal(err)
	}
	if page, err = b.Unpublished(t.Context(), 10); err != nil || len(page) != 1 || page[0].Event.Key() != keys[2] {
		t.Errorf("unpublished after two were: %+v, %v", page, err)
	}
	rest, _, err := b.Unsettled(t.Context(), at(11), pipeline.OutboxCursor{}, 10)
	if err != nil || len(rest) != 3 || rest[0].Relayed != 0 {
		t.Errorf("unsettled: %+v, %v", rest, err)
	}
	b.RecordedBatch(t, domain.RecordBatch{Settled: keys})
	if rest, _, err = b.Unsettled(t.Context(), at(11), pipeline.OutboxCursor{}, 10); err != nil || len(rest) != 0 {
		t.Errorf("unsettled after all were settled: %+v, %v", rest, err)
	}
}

// Two dispatchers that see other failures of one webhook at the same time tell of it once.
func testAlertsOfTwo(t *testing.T, b *bench) {
	const webhooks = 8
	b.Webhook(t, forAlerts)
	since := b.Clock.Now()
	var failing [2]domain.RecordBatch
	for range webhooks {
		w := b.Webhook(t)
		first := says(w, since.Add(time.Second), 20, since, true)
		second := says(w, since.Add(2*time.Second), 25, since.Add(-time.Second), true)
		second.Circuit.Last = &domain.Answer{At: since, Class: domain.ClassTimeout}
		failing[0].Health, failing[1].Health = append(failing[0].Health, first), append([]domain.HealthChange{second}, failing[1].Health...)
	}
	var recording sync.WaitGroup
	for _, batch := range failing {
		recording.Go(func() {
			if _, err := b.Record(t.Context(), []domain.RecordBatch{batch}); err != nil {
				t.Errorf("record: %v", err)
			}
		})
	}
	recording.Wait()
	count := make(map[domain.WebhookID]map[domain.EventType]int)
	for _, a := range alertsOf(t, b, account) {
		if count[a.WebhookID] == nil {
			count[a.WebhookID] = make(map[domain.EventType]int)
		}
		count[a.WebhookID][a.Type]++
	}
	if len(count) != webhooks {
		t.Errorf("alerts tell of %d webhooks, want %d", len(count), webhooks)
	}
	for id, got := range count {
		if diff := cmp.Diff(map[domain.EventType]int{domain.WebhookFailing: 1, domain.WebhookCircuitOpened: 1}, got); diff != "" {
			t.Errorf("alerts of %s (-want +got):\n%s", id, diff)
		}
	}
}

func testAlertsExhausted(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.Webhook(t, forAlerts)
	const n = recorder.MaxExhaustedAlerts + 7
	var batch domain.RecordBatch
	exhausted := func(id string) domain.Outcome {
		o := b.Outcome(b.Accepted(t, id), w, domain.StatusFailed)
		o.Reason = domain.ReasonExhausted
		return o
	}
	for i := range n {
		batch.Outcomes = append(batch.Outcomes, exhausted(fmt.Sprintf("evt_%d", i)))
	}
	first := batch.Outcomes[0]
	b.Recorded(t, first)
	b.Recorded(t, first)
	got := wantAlerts(t, b, account, domain.DeliveryExhausted)
	want := told{
		Type: domain.DeliveryExhausted, WebhookID: w.ID, Host: "receiver.example", Class: domain.Class5xx, StatusCode: 500, FailuresInARow: 1,
		Since: first.RunStartedAt, SampleAnswer: "out of order", EventID: first.EventID, DeliveryID: first.Delivery, Link: "/console/webhooks/" + string(w.ID),
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("alert (-want +got):\n%s", diff)
	}
	batch.Outcomes = batch.Outcomes[1:]
	b.RecordedBatch(t, batch)
	if got := alertsOf(t, b, account); len(got) != recorder.MaxExhaustedAlerts {
		t.Errorf("%d alerts in a minute, want %d", len(got), recorder.MaxExhaustedAlerts)
	}
	b.Clock.Advance(time.Minute)
	later := exhausted("evt_later")
	b.Recorded(t, later)
	got = alertsOf(t, b, account)
	if last := got[len(got)-1]; last.DeliveryID != later.Delivery || last.LeftOut != 7 {
		t.Errorf("the first alert of the next minute %+v", last)
	}
	b.Clock.Advance(time.Second)
	b.Recorded(t, exhausted("evt_last"))
	if got = alertsOf(t, b, account); got[len(got)-1].LeftOut != 0 {
		t.Errorf("the second alert of the next minute %+v", got[len(got)-1])
	}

	// No alert is about a delivery of an alert.
	before := len(got)
	o := exhausted("evt_alert")
	o.EventType = domain.WebhookFailing
	b.Recorded(t, o)
	if got = alertsOf(t, b, account); len(got) != before {
		t.Errorf("an alert about the delivery of an alert: %+v", got[len(got)-1])
	}
}

func testAlertsDisabled(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.Webhook(t, forAlerts)
	at := b.Clock.Now()
	disable := func(version int64, reason domain.DisabledReason) {
		t.Helper()
		h := domain.HealthChange{Webhook: w.ID, DisabledVersion: version, DisabledReason: reason, At: at}
		for range 2 {
			b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: w.ID, FailingSince: at.Add(-time.Hour), At: at}, h}})
		}
	}
	disable(w.Version, domain.DisabledGone)
	at = at.Add(time.Second)
	disable(w.Version+1, domain.DisabledFailing) // another dispatcher, which has not heard of it
	got := wantAlerts(t, b, account, domain.WebhookDisabled)
	want := told{
		Type: domain.WebhookDisabled, WebhookID: w.ID, Host: "receiver.example", Class: domain.ClassGone, StatusCode: 410, FailuresInARow: 1,
		Since: at.Add(-time.Hour - time.Second), Reason: "gone", Link: "/console/webhooks/" + string(w.ID),
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("alert (-want +got):\n%s", diff)
	}
}

// testAlertsUsedUp uses up a quota of deliveries, beside what else the log gets: each webhook that becomes
// inactive by that is told once, to its account alone.
func testAlertsUsedUp(t *testing.T, b *bench) {
	furnish(t, b, 2)
	mine, mine2, nobodys := b.Webhook(t, owned("c1")), b.Webhook(t, owned("c1")), b.Webhook(t)
	b.Webhook(t, forAlerts)
	b.Webhook(t, ofAccount("other", forAlerts)...)
	first := b.Outcome(b.Accepted(t, "e1"), mine, domain.StatusDelivered)
	if result := b.Recorded(t, first); len(result.Alerts) != 0 {
		t.Errorf("told of %v", result.Alerts)
	}
	e2 := b.Accepted(t, "e2")
	last := []domain.Outcome{b.Outcome(e2, mine2, domain.StatusDelivered), b.Outcome(e2, nobodys, domain.StatusDelivered), first}
	if result := b.Recorded(t, last...); len(result.Alerts) != 2 || len(result.Disabled) != 2 {
		t.Errorf("told of %v, disabled %v, want 2 of each", result.Alerts, result.Disabled)
	}
	if result := b.Recorded(t, last...); len(result.Alerts) != 0 {
		t.Errorf("told again of %v", result.Alerts)
	}
	got := wantAlerts(t, b, account, domain.WebhookDisabled, domain.WebhookDisabled)
	wantAlerts(t, b, "other")
	of := map[domain.WebhookID]bool{}
	for _, one := range got {
		of[one.WebhookID] = true
		if one.Reason != "quota" || one.Class != domain.ClassOK || one.FailuresInARow != 0 || one.Host != "receiver.example" || !one.Since.Equal(b.DB.Now()) {
			t.Errorf("told: %+v", one)
		}
	}
	if !of[mine.ID] || !of[mine2.ID] {
		t.Errorf("told of %v, want both webhooks of the consumer", of)
	}
}

func testAlertsOfItself(t *testing.T, b *bench) {
	self := b.Webhook(t, func(w *domain.Webhook) { w.Events = domain.WebhookTypes() })
	since := b.Clock.Now()
	failing := func(w domain.Webhook, n int) {
		t.Helper()
		at := since.Add(time.Duration(n) * time.Second)
		b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{says(w, at, 5, since, false)}})
	}
	failing(self, 1)
	wantAlerts(t, b, account)
	// It is told of another one, but not of one that gets nothing but alerts itself.
	failing(b.Webhook(t), 2)
	failing(b.Webhook(t, forAlerts), 3)
	wantAlerts(t, b, account, domain.WebhookFailing)
	// One that fails because of alerts alone is not told of.
	other := b.Webhook(t)
	quiet := says(other, since.Add(4*time.Second), 30, since, true)
	quiet.Circuit.Alarming = false
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{quiet, says(other, since.Add(5*time.Second), 0, since, false)}})
	wantAlerts(t, b, account, domain.WebhookFailing)
}
