package dispatcher_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/pipeline"
)

// laterBy is a clock that goes on from now, moved by a test.
type laterBy struct{ by atomic.Int64 }

func (l *laterBy) Now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// subscribe makes a consumer, c1, with a plan of so many deliveries an hour.
func subscribe(t *testing.T, db *store.Store, deliveries int64) *metering.Metering {
	t.Helper()
	now := store.InstantOf(db.Now())
	for _, statement := range []string{
		`INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ('b1', 'default', 'partners', '', '', false, ?, ?)`,
		`INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES ('c1', 'b1', 'c1', '', '', '', '', ?, ?)`,
	} {
		if err := db.Writing(t.Context()).Exec(statement, now, now).Error; err != nil {
			t.Fatal(err)
		}
	}
	m, bucket := metering.New(db), domain.BucketKey{Account: domain.DefaultAccount, Bucket: "partners"}
	_, err := m.CreateMeter(t.Context(), domain.Meter{Bucket: bucket, Slug: "deliveries", Aggregation: domain.AggregationCount, EventType: domain.EventDeliveries})
	if err == nil {
		_, err = m.CreateFeature(t.Context(), bucket, domain.Feature{Key: "deliveries", MeterSlug: "deliveries"})
	}
	if err != nil {
		t.Fatal(err)
	}
	give(t, m, "basic", deliveries)
	return m
}

// give gives c1 a plan.
func give(t *testing.T, m *metering.Metering, key string, deliveries int64) {
	t.Helper()
	bucket := domain.BucketKey{Account: domain.DefaultAccount, Bucket: "partners"}
	card := domain.RateCard{Key: "deliveries", FeatureKey: "deliveries", Entitlement: &domain.Entitlement{Type: domain.EntitlementMetered, IssueAfterReset: deliveries}}
	p, err := m.CreatePlan(t.Context(), bucket, domain.Plan{Key: key, BillingCadence: domain.Hourly, Phases: []domain.Phase{{Key: "only", RateCards: []domain.RateCard{card}}}})
	if err == nil {
		_, err = m.PublishPlan(t.Context(), bucket, p.ID)
	}
	if err == nil {
		_, err = m.PutSubscription(t.Context(), metering.ConsumerKey{BucketKey: bucket, Consumer: "c1"}, key, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// With the delivery that uses up the quota the consumer's webhooks become inactive, and what comes then
// is held. With the next period it goes out in order. Each delivery counts once.
func TestQuotaUntilTheNextPeriod(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		quotaUsedUp(t, b, func(t *testing.T, _ *metering.Metering, p *pipeline.Pipeline, clock *laterBy) {
			clock.by.Store(int64(time.Hour))
			if n, err := p.ResumeQuotas(t.Context(), time.Time{}); err != nil || n != 2 {
				t.Errorf("%d webhooks are active again (%v), want 2", n, err)
			}
		})
	})
}

// The same with another plan, in the same period.
func TestQuotaUntilAnotherPlan(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		quotaUsedUp(t, b, func(t *testing.T, m *metering.Metering, _ *pipeline.Pipeline, _ *laterBy) { give(t, m, "more", 1000) })
	})
}

func quotaUsedUp(t *testing.T, b *bench, release func(*testing.T, *metering.Metering, *pipeline.Pipeline, *laterBy)) {
	const quota, events = 5, 30
	clock := &laterBy{}
	db, err := store.Open(t.Context(), store.Options{URL: b.url, Keys: b.keys, Logger: logger(t), MaxConns: 4, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	m, tables := subscribe(t, db, quota), pipeline.New(db)
	s, elsewhere := newSink(t, nil), newSink(t, nil)
	owned := func(w *domain.Webhook) { w.ConsumerID, w.MaxInFlight = "c1", 1 }
	mine, others := b.webhook(s.URL, owned), b.webhook(elsewhere.URL)
	idle := b.webhook(elsewhere.URL, owned, func(w *domain.Webhook) { w.Events = []domain.EventType{domain.ShipmentDelivered} })
	b.dispatch(func(o *dispatcher.Options) { o.Store = db })
	counted := func() (n int64) {
		hours, err := m.HoursOf(t.Context(), "", []string{"c1"}, time.Now().Add(-2*time.Hour), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, count := range hours.Counts {
			n += count.Events
		}
		return n
	}
	reason := func(id domain.WebhookID) domain.DisabledReason {
		w, health, err := tables.GetWebhook(t.Context(), domain.DefaultAccount, id)
		if err != nil {
			t.Fatal(err)
		}
		reason, _ := w.Inactive(health)
		return reason
	}
	var ids []string
	for range quota {
		ids = append(ids, b.accept(1)...)
		b.deliveries(mine.ID, domain.StatusDelivered, len(ids))
	}
	b.eventually(func() error {
		if a, b := reason(mine.ID), reason(idle.ID); a != domain.DisabledQuota || b != domain.DisabledQuota {
			return fmt.Errorf("the webhooks are inactive for %q and %q", a, b)
		}
		return nil
	})
	ids = append(ids, b.accept(events-quota)...)
	b.eventually(func() error {
		held, _, err := tables.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: domain.DefaultAccount, Webhook: mine.ID, Limit: 1000, Status: domain.StatusHeld})
		if err == nil && len(held) != events-quota {
			err = fmt.Errorf("%d are held", len(held))
		}
		return err
	})
	b.deliveries(others.ID, domain.StatusDelivered, events)
	if got := counted(); got != quota {
		t.Errorf("%d are counted, want %d", got, quota)
	}
	release(t, m, tables, clock)
	b.bus.Announce(bus.SubjectConfig, nil)
	b.deliveries(mine.ID, domain.StatusDelivered, events)
	if got := counted(); got != events {
		t.Errorf("%d are counted, want %d", got, events)
	}
	if got := reason(mine.ID); got != "" {
		t.Errorf("the webhook is inactive for %q", got)
	}
	var order []string
	calls, _ := s.seen()
	for _, c := range calls {
		order = append(order, c.id)
	}
	if !slices.Equal(order, ids) {
		t.Errorf("they came as %v, want %v, each once", order, ids)
	}
}
