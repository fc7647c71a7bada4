package recorder_test

import (
	"fmt"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

// furnish makes two consumers of a bucket, of which the first has a plan with so many deliveries.
func furnish(t *testing.T, b *bench, quota int64) *metering.Metering {
	t.Helper()
	now := store.InstantOf(b.DB.Now())
	exec := func(query string, args ...any) {
		if err := b.DB.Writing(t.Context()).Exec(query, args...).Error; err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ('b1', ?, 'partners', '', '', ?, ?, ?)`, account, true, now, now)
	for _, id := range []string{"c1", "c2"} {
		exec(`INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES (?, 'b1', ?, '', '', '', '', ?, ?)`, id, id, now, now)
	}
	m, bucket := metering.New(b.DB), domain.BucketKey{Account: account, Bucket: "partners"}
	_, err := m.CreateMeter(t.Context(), domain.Meter{Bucket: bucket, Slug: "deliveries", Aggregation: domain.AggregationCount, EventType: domain.EventDeliveries})
	if err == nil {
		_, err = m.CreateFeature(t.Context(), bucket, domain.Feature{Key: "deliveries", MeterSlug: "deliveries"})
	}
	var p domain.Plan
	if err == nil {
		card := domain.RateCard{Key: "deliveries", FeatureKey: "deliveries", Entitlement: &domain.Entitlement{Type: domain.EntitlementMetered, IssueAfterReset: quota}}
		p, err = m.CreatePlan(t.Context(), bucket, domain.Plan{Key: "basic", BillingCadence: domain.Daily, Phases: []domain.Phase{{Key: "only", RateCards: []domain.RateCard{card}}}})
	}
	if err == nil {
		_, err = m.PublishPlan(t.Context(), bucket, p.ID)
	}
	if err == nil {
		_, err = m.PutSubscription(t.Context(), metering.ConsumerKey{BucketKey: bucket, Consumer: "c1"}, "basic", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func owned(consumer string) func(*domain.Webhook) {
	return func(w *domain.Webhook) { w.ConsumerID = consumer }
}

// testMetering counts deliveries of webhooks with an owner: each once, tests not, whatever comes
// again. With the one that uses up the quota, the consumer's webhooks become inactive.
func testMetering(t *testing.T, b *bench) {
	m := furnish(t, b, 4)
	mine, mine2, theirs, nobodys := b.Webhook(t, owned("c1")), b.Webhook(t, owned("c1")), b.Webhook(t, owned("c2")), b.Webhook(t)
	counted := func() (n [2]int64) {
		t.Helper()
		hours, err := m.HoursOf(t.Context(), "", []string{"c1", "c2"}, b.DB.Now().Add(-48*time.Hour), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for key, count := range hours.Counts {
			n[key.Consumer[1]-'1'] += count.Events
		}
		return n
	}
	want := func(step string, c1, c2 int64) {
		t.Helper()
		if got := counted(); got != [2]int64{c1, c2} {
			t.Errorf("%s: %v counted, want %d and %d", step, got, c1, c2)
		}
	}
	e1, e2, e3 := b.Accepted(t, "e1"), b.Accepted(t, "e2"), b.Accepted(t, "e3")
	first := b.Outcome(e1, mine, domain.StatusDelivered)
	of := b.Outcome(e1, theirs, domain.StatusDelivered)
	none := b.Outcome(e1, nobodys, domain.StatusDelivered)
	test := b.Outcome(e2, mine2, domain.StatusDelivered)
	test.Test = true
	b.Recorded(t, first, of, none, test)
	want("first attempts", 1, 1)
	b.Recorded(t, first, of, none, test)
	want("again", 1, 1)
	failed := b.Outcome(e2, mine, domain.StatusRetrying)
	b.Recorded(t, failed)
	want("a failure", 1, 1)
	retried := b.After(failed, domain.StatusDelivered)
	b.Recorded(t, retried)
	b.Recorded(t, retried, failed)
	want("a retry", 2, 1)
	asked := b.After(retried, domain.StatusDelivered)
	b.Recorded(t, asked)
	want("one that was delivered before", 2, 1)
	b.Recorded(t, b.Outcome(e3, mine, domain.StatusRetrying), b.After(b.Outcome(e3, mine, domain.StatusRetrying), domain.StatusDelivered))
	want("a failure and a retry together", 3, 1)

	result := b.Recorded(t, b.Outcome(e3, mine2, domain.StatusDelivered))
	want("the last one", 4, 1)
	if len(result.Disabled) != 2 {
		t.Errorf("%d webhooks are disabled, want both of the consumer", len(result.Disabled))
	}
	for _, w := range []struct {
		domain.Webhook
		reason domain.DisabledReason
	}{{mine, domain.DisabledQuota}, {mine2, domain.DisabledQuota}, {theirs, ""}, {nobodys, ""}} {
		got, health, err := b.GetWebhook(t.Context(), account, w.ID)
		reason, _ := got.Inactive(health)
		_, end := domain.Daily.Period(noon, b.DB.Now())
		if err != nil || reason != w.reason || reason != "" && !health.DisabledUntil.Equal(end) {
			t.Errorf("%s: reason %q until %s (%v), want %q until %s", w.ID, reason, health.DisabledUntil, err, w.reason, end)
		}
	}
	again := b.Recorded(t, b.Outcome(b.Accepted(t, "e4"), mine, domain.StatusDelivered))
	want("what was in flight", 5, 1)
	if len(again.Disabled) != 0 {
		t.Errorf("disabled again: %+v", again.Disabled)
	}
}

// testMeteringCost has a transaction with a consumer's deliveries look at as many pages with a long log as
// with a short one.
func testMeteringCost(t *testing.T, b *bench) {
	if !b.DB.SQLite() {
		return // the statement is the same
	}
	furnish(t, b, 1_000_000)
	w := b.Webhook(t, owned("c1"))
	log := func(n int) {
		outcomes := make([]domain.Outcome, n)
		for i := range outcomes {
			e := pipelinetest.Event(fmt.Sprintf("evt_%d", b.Next()))
			e.ReceivedAt = b.Clock.Now()
			outcomes[i] = b.Outcome(e, w, domain.StatusDelivered)
		}
		b.Recorded(t, outcomes...)
	}
	writing, _ := b.DB.Handles()
	log(500)
	short := storetest.PagesRead(t, writing, func() { log(20) })
	log(5000)
	if long := storetest.PagesRead(t, writing, func() { log(20) }); long > 2*short {
		t.Errorf("20 deliveries look at %d pages with 5520 in the log, at %d with 500", long, short)
	}
}
