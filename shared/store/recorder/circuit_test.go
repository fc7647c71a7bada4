package recorder_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

// testCircuit has what is said of a circuit come late, twice, and without an answer.
func testCircuit(t *testing.T, b *bench) {
	w, healthy := b.Webhook(t), b.Webhook(t)
	at := b.Clock.Now()
	say := func(c domain.Circuit) {
		t.Helper()
		b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: w.ID, Circuit: &c, At: c.SaidAt}}})
	}
	check := func(want domain.Circuit) {
		t.Helper()
		got, err := b.GetCircuit(t.Context(), w.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("circuit (-want +got):\n%s", diff)
		}
	}
	check(domain.Circuit{})
	open := domain.Circuit{
		OpenSince: at, Failures: 21, FailingSince: at.Add(-time.Minute), NextProbeAt: at.Add(5 * time.Second), SaidAt: at.Add(time.Second),
		Last: &domain.Answer{At: at, Status: 503, Class: domain.Class5xx, Body: "busy"},
	}
	say(open)
	say(open)
	say(domain.Circuit{Failures: 3, FailingSince: at, SaidAt: at}) // late
	check(open)
	failing, err := b.FailingCircuits(t.Context())
	if diff := cmp.Diff(map[domain.WebhookID]domain.Circuit{w.ID: open}, failing); err != nil || diff != "" {
		t.Errorf("failing circuits: %v (-want +got):\n%s", err, diff)
	}
	closed := domain.Circuit{SaidAt: at.Add(2 * time.Second), Last: &domain.Answer{At: at.Add(time.Second), Class: domain.ClassTimeout, Body: "a\x00b"}}
	say(closed)
	closed.Last.Body = "a\uFFFDb"
	check(closed)
	closed.SaidAt = at.Add(3 * time.Second)
	say(domain.Circuit{SaidAt: closed.SaidAt})
	check(closed)
	if failing, err = b.FailingCircuits(t.Context()); err != nil || len(failing) > 0 {
		t.Errorf("failing circuits after a success: %v, %v", failing, err)
	}
	if got, err := b.GetCircuit(t.Context(), healthy.ID); err != nil || got != (domain.Circuit{}) {
		t.Errorf("another webhook's circuit: %+v, %v", got, err)
	}
}

// testFailingSince has two dispatchers say that a webhook began to fail: the earlier beginning counts,
// but none from before the webhook was activated again.
func testFailingSince(t *testing.T, b *bench) {
	w := b.Webhook(t)
	begins := func(at time.Time) {
		t.Helper()
		b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: w.ID, FailingSince: at, At: b.Clock.Now()}}})
	}
	check := func(want time.Time) {
		t.Helper()
		_, health, err := b.GetWebhook(t.Context(), w.Account, w.ID)
		if err != nil || !health.FailingSince.Equal(want) {
			t.Errorf("failing since %v (%v), want %v", health.FailingSince, err, want)
		}
	}
	first := b.Clock.Now()
	begins(first)
	b.Clock.Advance(time.Second)
	begins(b.Clock.Now())
	check(first)
	b.Clock.Advance(time.Minute)
	for _, active := range []bool{false, true} {
		if _, _, err := b.UpdateWebhook(t.Context(), w.Account, w.ID, func(now *domain.Webhook) error { now.Active = active; return nil }); err != nil {
			t.Fatal(err)
		}
		b.Clock.Advance(time.Second)
	}
	again := b.Clock.Now()
	begins(again)
	check(again)
	b.Clock.Advance(time.Second)
	begins(b.Clock.Now())
	check(again)
}
