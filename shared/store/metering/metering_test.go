package metering_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what the api, gateways and the record stage rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{
		"meters":        {"are made, changed and removed": testMeters, "are asked what they counted": testQueries},
		"features":      {"need their meter, and are archived": testFeatures},
		"plans":         {"go from draft to archived": testPlans},
		"subscriptions": {"give grants": testSubscriptions, "release webhooks": testResume},
		"counts":        {"of a gateway's batch count once": testCounts, "end after their time": testRetention},
	})
}

type bench struct {
	*storetest.Bench
	*metering.Metering
}

func newBench(b *storetest.Bench) *bench { return &bench{b, metering.New(b.DB)} }

var bucket = domain.BucketKey{Account: domain.DefaultAccount, Bucket: "partners"}

func key(name string) metering.ConsumerKey {
	return metering.ConsumerKey{BucketKey: bucket, Consumer: name}
}

// furnish makes the bucket with two consumers, c1 and c2, called bakery and florist.
func (b *bench) furnish(t *testing.T) {
	t.Helper()
	b.exec(t, `INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ('b1', 'default', 'partners', '', '', ?, ?, ?)`, true, b.now(), b.now())
	for id, name := range map[string]string{"c1": "bakery", "c2": "florist"} {
		b.exec(t, `INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES (?, 'b1', ?, '', '', '', '', ?, ?)`, id, name, b.now(), b.now())
	}
}

func (b *bench) now() store.Instant { return store.InstantOf(b.DB.Now()) }

func (b *bench) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if err := b.DB.Writing(t.Context()).Exec(query, args...).Error; err != nil {
		t.Fatal(err)
	}
}

func (b *bench) meter(t *testing.T, slug, kind string, a domain.Aggregation) domain.Meter {
	t.Helper()
	m, err := b.CreateMeter(t.Context(), domain.Meter{Bucket: bucket, Slug: slug, Name: slug, Aggregation: a, EventType: kind, GroupBy: map[string]string{"method": "$.method", "route": "$.route"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (b *bench) feature(t *testing.T, f domain.Feature) domain.Feature {
	t.Helper()
	f.Name = f.Key
	made, err := b.CreateFeature(t.Context(), bucket, f)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// plan makes an active plan with entitlements by feature.
func (b *bench) plan(t *testing.T, key string, entitlements map[string]domain.Entitlement) domain.Plan {
	t.Helper()
	phase := domain.Phase{Key: "only", Name: "Only"}
	for feature, e := range entitlements {
		phase.RateCards = append(phase.RateCards, domain.RateCard{Type: "flat_fee", Key: feature, Name: feature, FeatureKey: feature, Entitlement: &e})
	}
	p, err := b.CreatePlan(t.Context(), bucket, domain.Plan{Key: key, Name: key, Currency: "USD", BillingCadence: domain.Monthly, Phases: []domain.Phase{phase}})
	if err == nil {
		p, err = b.PublishPlan(t.Context(), bucket, p.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bench) count(t *testing.T, counts map[metering.HourKey]metering.Count) {
	t.Helper()
	err := b.DB.Tx(t.Context(), func(tx *gorm.DB) error { return metering.Add(t.Context(), b.DB.Beneath(tx), counts) })
	if err != nil {
		t.Fatal(err)
	}
}

func hourKey(consumer, kind string, at time.Time, d metering.Dims) metering.HourKey {
	return metering.HourKey{Bucket: "b1", Consumer: consumer, EventType: kind, Hour: metering.HourOf(at), Dims: d}
}

func testMeters(t *testing.T, b *bench) {
	b.furnish(t)
	made := b.meter(t, "requests", "requests", domain.AggregationCount)
	if len(made.ID) != 26 || strings.ToUpper(made.ID) != made.ID {
		t.Errorf("id %q is no ULID", made.ID)
	}
	for _, name := range []string{made.ID, made.Slug} {
		got, err := b.GetMeter(t.Context(), bucket, name)
		if diff := cmp.Diff(made, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	_, err := b.CreateMeter(t.Context(), made)
	storetest.WantConflict(t, "a slug that is taken", err)
	for _, other := range []domain.BucketKey{{Account: "second", Bucket: "partners"}, {Account: "default", Bucket: "none"}, {Account: "\x00"}} {
		_, err = b.GetMeter(t.Context(), other, made.ID)
		storetest.WantNotFound(t, "from another bucket", err)
		storetest.WantNotFound(t, "to be deleted from another bucket", b.DeleteMeter(t.Context(), other, made.ID))
	}
	b.Clock.Advance(time.Hour)
	changed, err := b.UpdateMeter(t.Context(), bucket, "requests", func(m *domain.Meter) { m.Name, m.GroupBy = "Requests", map[string]string{"status": "$.status"} })
	if err != nil || changed.Name != "Requests" || !changed.UpdatedOn.Equal(b.DB.Now()) {
		t.Errorf("changed: %+v, %v", changed, err)
	}
	feature := b.feature(t, domain.Feature{Key: "requests", MeterSlug: "requests", Filters: map[string]string{"status": "200"}})
	if _, err := b.UpdateMeter(t.Context(), bucket, "requests", func(m *domain.Meter) { m.GroupBy = nil }); !errors.Is(err, metering.ErrInUse) {
		t.Errorf("without a group that a feature goes by: %v", err)
	}
	if err := b.DeleteMeter(t.Context(), bucket, "requests"); !errors.Is(err, metering.ErrInUse) {
		t.Errorf("with a live feature: %v", err)
	}
	if err := b.ArchiveFeature(t.Context(), bucket, feature.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteMeter(t.Context(), bucket, made.ID); err != nil {
		t.Error(err)
	}
	if list, total, err := b.ListMeters(t.Context(), bucket, store.Page{Limit: 10}); err != nil || len(list) != 0 || total != 0 {
		t.Errorf("after all: %v, %d, %v", list, total, err)
	}
	for range domain.MaxMeters {
		b.meter(t, fmt.Sprint("m", b.Next()), "x", domain.AggregationCount)
	}
	if _, err := b.CreateMeter(t.Context(), domain.Meter{Bucket: bucket, Slug: "more"}); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("one more than may be: %v", err)
	}
}

func testQueries(t *testing.T, b *bench) {
	b.furnish(t)
	b.meter(t, "calls", "calls", domain.AggregationCount)
	b.meter(t, "units", "calls", domain.AggregationSum)
	noon := storetest.Noon()
	get, post := metering.Dims{Deployment: "shop", Route: "/a", Method: "GET", Status: "200"}, metering.Dims{Deployment: "shop", Route: "/a", Method: "POST", Status: "200"}
	b.count(t, map[metering.HourKey]metering.Count{
		hourKey("c1", "calls", noon, get):                    {Events: 3, Total: 30},
		hourKey("c1", "calls", noon, post):                   {Events: 1, Total: 5},
		hourKey("c2", "calls", noon.Add(time.Hour), get):     {Events: 4, Total: 4},
		hourKey("c1", "calls", noon.Add(13*time.Hour), get):  {Events: 2, Total: 2},
		hourKey("gone", "calls", noon.AddDate(0, 1, 0), get): {Events: 7, Total: 7},
		hourKey("c1", "another", noon.Add(time.Minute), get): {Events: 100, Total: 100},
	})
	ask := func(slug string, q metering.MeterQuery) string {
		values, err := b.QueryMeter(t.Context(), bucket, slug, q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		var lines []string
		for _, v := range values {
			line := strconv.FormatInt(v.Value, 10)
			if q.Window != "" {
				line = v.Start.Format("01-02T15 ") + line
			}
			if v.Subject != nil {
				line += " " + *v.Subject
			}
			if v.Groups != nil {
				line += fmt.Sprint(" ", v.Groups)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, ", ")
	}
	for want, got := range map[string]string{
		"17": ask("calls", metering.MeterQuery{}),
		"48": ask("units", metering.MeterQuery{}),
		"10": ask("calls", metering.MeterQuery{To: noon.AddDate(0, 0, 2)}),
		"1":  ask("calls", metering.MeterQuery{Filters: map[string][]string{"method": {"POST"}}}),
		"6":  ask("calls", metering.MeterQuery{Subjects: []string{"bakery"}}),
		"4":  ask("calls", metering.MeterQuery{Customers: []string{"c2"}}),
		"06-10T12 4, 06-10T13 4, 06-11T01 2, 07-10T12 7":         ask("calls", metering.MeterQuery{Window: metering.WindowHour}),
		"06-10T00 8, 06-11T00 2, 07-10T00 7":                     ask("calls", metering.MeterQuery{Window: metering.WindowDay}),
		"06-01T00 10, 07-01T00 7":                                ask("calls", metering.MeterQuery{Window: metering.WindowMonth}),
		"6 bakery, 4 florist, 7 gone":                            ask("calls", metering.MeterQuery{Groups: []string{"subject"}}),
		"16 map[method:GET], 1 map[method:POST]":                 ask("calls", metering.MeterQuery{Groups: []string{"method"}}),
		"06-01T00 6 bakery, 06-01T00 4 florist, 07-01T00 7 gone": ask("calls", metering.MeterQuery{Window: metering.WindowMonth, Groups: []string{"subject"}}),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if _, err := b.QueryMeter(t.Context(), bucket, "calls", metering.MeterQuery{Groups: []string{"status"}}); !errors.Is(err, metering.ErrQueryGroup) {
		t.Errorf("by a group that it does not have: %v", err)
	}
	if values, err := b.MeterValues(t.Context(), bucket, "calls", "method", noon, noon.Add(time.Hour)); err != nil || !cmp.Equal(values, []string{"GET", "POST"}) {
		t.Errorf("values: %v, %v", values, err)
	}
	if _, err := b.MeterValues(t.Context(), bucket, "calls", "x", time.Time{}, time.Time{}); !errors.Is(err, metering.ErrQueryGroup) {
		t.Errorf("values of no group: %v", err)
	}
}

func testFeatures(t *testing.T, b *bench) {
	b.furnish(t)
	b.meter(t, "calls", "calls", domain.AggregationCount)
	metered := b.feature(t, domain.Feature{Key: "calls", MeterSlug: "calls", Filters: map[string]string{"method": "POST"}, Metadata: map[string]string{"a": "b"}})
	b.feature(t, domain.Feature{Key: "support"})
	if got, err := b.GetFeature(t.Context(), bucket, metered.ID); err != nil || !cmp.Equal(got, metered) {
		t.Errorf("%v %s", err, cmp.Diff(metered, got))
	}
	_, err := b.CreateFeature(t.Context(), bucket, domain.Feature{Key: "calls"})
	storetest.WantConflict(t, "a key that is taken", err)
	if _, err := b.CreateFeature(t.Context(), bucket, domain.Feature{Key: "x", MeterSlug: "none"}); !errors.Is(err, metering.ErrNoMeter) {
		t.Errorf("without its meter: %v", err)
	}
	if _, err := b.CreateFeature(t.Context(), bucket, domain.Feature{Key: "x", MeterSlug: "calls", Filters: map[string]string{"x": "y"}}); !errors.Is(err, metering.ErrGroup) {
		t.Errorf("by a group that is not there: %v", err)
	}
	for range 2 {
		if err := b.ArchiveFeature(t.Context(), bucket, metered.ID); err != nil {
			t.Error(err)
		}
	}
	b.feature(t, domain.Feature{Key: "calls", MeterSlug: "calls"})
	for _, c := range []struct {
		filter metering.FeatureFilter
		want   int
	}{{metering.FeatureFilter{}, 2}, {metering.FeatureFilter{Archived: true}, 3}, {metering.FeatureFilter{MeterSlug: "calls"}, 1}, {metering.FeatureFilter{MeterSlug: "\x00"}, 0}} {
		c.filter.Limit = 10
		if list, total, err := b.ListFeatures(t.Context(), bucket, c.filter); err != nil || len(list) != c.want || total != c.want {
			t.Errorf("%+v: %d of %d, %v, want %d", c.filter, len(list), total, err, c.want)
		}
	}
	storetest.WantNotFound(t, "in another bucket", b.ArchiveFeature(t.Context(), domain.BucketKey{Account: "second", Bucket: "partners"}, metered.ID))
}

func testPlans(t *testing.T, b *bench) {
	b.furnish(t)
	b.feature(t, domain.Feature{Key: "support"})
	card := domain.RateCard{Type: "flat_fee", Key: "support", Name: "Support", FeatureKey: "support", Entitlement: &domain.Entitlement{Type: domain.EntitlementStatic, Config: []byte(`{"hours":24}`)}, Price: []byte(`{"type":"flat","amount":"10"}`)}
	plan := domain.Plan{Key: "basic", Name: "Basic", Currency: "USD", BillingCadence: domain.Monthly, Metadata: map[string]string{"a": "b"}, Phases: []domain.Phase{{Key: "only", Name: "Only", RateCards: []domain.RateCard{card}}}}
	first, err := b.CreatePlan(t.Context(), bucket, plan)
	if err != nil || first.Version != 1 || first.Status != domain.PlanDraft || !cmp.Equal(first.Phases, plan.Phases) {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := b.CreatePlan(t.Context(), bucket, plan)
	if err != nil || second.Version != 2 {
		t.Fatalf("%+v, %v", second, err)
	}
	_, err = b.PutSubscription(t.Context(), key("bakery"), "basic", 0)
	if !errors.Is(err, metering.ErrNotActive) {
		t.Errorf("a draft: %v", err)
	}
	plan.Name = "Changed"
	if changed, err := b.UpdatePlan(t.Context(), bucket, first.ID, plan); err != nil || changed.Name != "Changed" || changed.Version != 1 {
		t.Errorf("%+v, %v", changed, err)
	}
	published, err := b.PublishPlan(t.Context(), bucket, first.ID)
	if err != nil || published.Status != domain.PlanActive || published.EffectiveFrom.IsZero() {
		t.Errorf("%+v, %v", published, err)
	}
	_, again := b.PublishPlan(t.Context(), bucket, first.ID)
	_, update := b.UpdatePlan(t.Context(), bucket, first.ID, plan)
	for _, err := range []error{again, update, b.DeletePlan(t.Context(), bucket, first.ID)} {
		if !errors.Is(err, metering.ErrNotDraft) {
			t.Errorf("of an active plan: %v", err)
		}
	}
	if _, err := b.ArchivePlan(t.Context(), bucket, second.ID); !errors.Is(err, metering.ErrNotActive) {
		t.Errorf("to archive a draft: %v", err)
	}
	if archived, err := b.ArchivePlan(t.Context(), bucket, first.ID); err != nil || archived.Status != domain.PlanArchived || archived.EffectiveTo.IsZero() {
		t.Errorf("%+v, %v", archived, err)
	}
	if err := b.DeletePlan(t.Context(), bucket, second.ID); err != nil {
		t.Error(err)
	}
	plan.Phases[0].RateCards = append(plan.Phases[0].RateCards, domain.RateCard{FeatureKey: "none"})
	var fault *metering.FeatureError
	if _, err := b.CreatePlan(t.Context(), bucket, plan); !errors.As(err, &fault) || fault.Card != 1 || !fault.Missing {
		t.Errorf("a feature that is not there: %v", err)
	}
	plan.Phases[0].RateCards[1] = domain.RateCard{FeatureKey: "support", Entitlement: &domain.Entitlement{Type: domain.EntitlementMetered}}
	if _, err := b.CreatePlan(t.Context(), bucket, plan); !errors.As(err, &fault) || fault.Missing {
		t.Errorf("a feature without a meter: %v", err)
	}
	if list, total, err := b.ListPlans(t.Context(), bucket, metering.PlanFilter{Key: "basic", Status: domain.PlanArchived, Page: store.Page{Limit: 10}}); err != nil || total != 1 || list[0].ID != first.ID {
		t.Errorf("%v, %d, %v", list, total, err)
	}
	_, err = b.GetPlan(t.Context(), domain.BucketKey{Account: "second", Bucket: "partners"}, first.ID)
	storetest.WantNotFound(t, "from another account", err)
}

func testSubscriptions(t *testing.T, b *bench) {
	b.furnish(t)
	b.meter(t, "calls", "calls", domain.AggregationCount)
	b.feature(t, domain.Feature{Key: "calls", MeterSlug: "calls"})
	b.feature(t, domain.Feature{Key: "posts", MeterSlug: "calls", Filters: map[string]string{"method": "POST"}})
	b.feature(t, domain.Feature{Key: "support"})
	b.plan(t, "basic", map[string]domain.Entitlement{
		"calls": {Type: domain.EntitlementMetered, IssueAfterReset: 10}, "posts": {Type: domain.EntitlementMetered, IssueAfterReset: 2, UsagePeriod: domain.Daily},
		"support": {Type: domain.EntitlementBoolean},
	})
	b.plan(t, "none", nil)
	_, err := b.GetSubscription(t.Context(), key("bakery"))
	if !errors.Is(err, metering.ErrNoSubscription) {
		t.Errorf("without one: %v", err)
	}
	b.Clock.Advance(20 * time.Minute)
	made, err := b.PutSubscription(t.Context(), key("bakery"), "basic", 0)
	if err != nil || made.Plan.Key != "basic" || made.Plan.Version != 1 || !made.Anchor.Equal(storetest.Noon()) {
		t.Fatalf("%+v, %v", made, err)
	}
	noon := storetest.Noon()
	b.count(t, map[metering.HourKey]metering.Count{
		hourKey("c1", "calls", noon, metering.Dims{Method: "GET"}):                    {Events: 3, Total: 3},
		hourKey("c1", "calls", noon, metering.Dims{Method: "POST"}):                   {Events: 2, Total: 2},
		hourKey("c1", "calls", noon.Add(-time.Hour), metering.Dims{Method: "POST"}):   {Events: 50, Total: 50},
		hourKey("c2", "calls", noon, metering.Dims{Method: "POST"}):                   {Events: 60, Total: 60},
		hourKey("c1", "calls", noon.Add(24*time.Hour), metering.Dims{Method: "POST"}): {Events: 1, Total: 1},
	})
	tell := func() string {
		usages, err := b.Usages(t.Context(), key("bakery"))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, u := range usages {
			fmt.Fprintf(&text, "%s %d until %s; ", u.Grant.FeatureKey, u.Used, u.End.Format("01-02T15"))
		}
		return text.String()
	}
	if got, want := tell(), "calls 6 until 07-10T12; posts 2 until 06-11T12; support 0 until 01-01T00; "; got != want {
		t.Errorf("usage %s, want %s", got, want)
	}
	b.Clock.Advance(24 * time.Hour)
	if got, want := tell(), "calls 6 until 07-10T12; posts 1 until 06-12T12; support 0 until 01-01T00; "; got != want {
		t.Errorf("a day later %s, want %s", got, want)
	}
	again, err := b.PutSubscription(t.Context(), key("bakery"), "none", 1)
	if err != nil || !again.Anchor.Equal(made.Anchor) || !again.Since.Equal(b.DB.Now()) || tell() != "" {
		t.Errorf("another plan: %+v, %v", again, err)
	}
	for _, c := range []struct {
		key     string
		version int
	}{{"basic", 7}, {"unknown", 0}, {"\x00", 0}} {
		if _, err := b.PutSubscription(t.Context(), key("bakery"), c.key, c.version); !errors.Is(err, metering.ErrNoPlan) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	_, err = b.PutSubscription(t.Context(), key("nobody"), "basic", 0)
	storetest.WantNotFound(t, "a consumer that is not there", err)
	if err := b.DeleteSubscription(t.Context(), key("bakery")); err != nil {
		t.Error(err)
	}
	if err := b.DeleteSubscription(t.Context(), key("bakery")); !errors.Is(err, metering.ErrNoSubscription) {
		t.Errorf("a second time: %v", err)
	}
}

// A plan change activates webhooks that are inactive for a quota, and no other ones; so does the
// end of the period. Meanwhile their owner can't.
func testResume(t *testing.T, b *bench) {
	b.furnish(t)
	b.plan(t, "basic", nil)
	p := pipeline.New(b.DB)
	hook := func(consumer string) domain.WebhookID {
		w, _, err := p.CreateWebhook(t.Context(), domain.Webhook{Account: domain.DefaultAccount, URL: "https://x.example/", Active: true, ConsumerID: consumer, Secret: domain.NewSecret()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.ID
	}
	disable := func(id domain.WebhookID, reason string, until time.Time) {
		b.exec(t, `INSERT INTO webhook_health (webhook_id, disabled_version, disabled_reason, disabled_at, disabled_until, updated_at) VALUES (?, 1000, ?, ?, ?, ?)`,
			string(id), reason, b.now(), store.InstantOf(until), b.now())
	}
	active := func(id domain.WebhookID) bool {
		w, h, err := p.GetWebhook(t.Context(), domain.DefaultAccount, id)
		if err != nil {
			t.Fatal(err)
		}
		_, inactive := w.Inactive(h)
		return !inactive
	}
	mine, theirs, failing := hook("c1"), hook("c2"), hook("c1")
	b.exec(t, "UPDATE config_version SET version = 2000")
	disable(mine, "quota", b.DB.Now().Add(time.Hour))
	disable(theirs, "quota", b.DB.Now().Add(2*time.Hour))
	disable(failing, "failing", time.Time{})
	_, _, err := p.UpdateWebhook(t.Context(), domain.DefaultAccount, mine, func(w *domain.Webhook) error { w.Active = true; return nil })
	if !errors.Is(err, domain.ErrQuota) {
		t.Errorf("its owner activates it: %v", err)
	}
	if _, _, err := p.UpdateWebhook(t.Context(), domain.DefaultAccount, mine, func(w *domain.Webhook) error { w.Description = "x"; return nil }); err != nil || active(mine) {
		t.Errorf("another change: %v, active %t", err, active(mine))
	}
	resume := func(want int) {
		t.Helper()
		if n, err := p.ResumeQuotas(t.Context(), time.Time{}); n != want || err != nil {
			t.Errorf("%d resumed (%v), want %d", n, err, want)
		}
	}
	resume(0)
	if _, err := b.PutSubscription(t.Context(), key("bakery"), "basic", 0); err != nil {
		t.Fatal(err)
	}
	if !active(mine) || active(theirs) || active(failing) {
		t.Errorf("after a change of plan: %t %t %t", active(mine), active(theirs), active(failing))
	}
	b.Clock.Advance(2 * time.Hour)
	resume(1)
	resume(0)
	if !active(theirs) || active(failing) {
		t.Errorf("after the period: %t %t", active(theirs), active(failing))
	}
}

func testCounts(t *testing.T, b *bench) {
	b.furnish(t)
	gateway := traffic.New(b.DB)
	noon := storetest.Noon()
	batch := &traffic.Batch{Writer: "one", Number: 1, Meters: map[metering.HourKey]metering.Count{hourKey("c1", "calls", noon, metering.Dims{Method: "GET"}): {Events: 2, Total: 5}}}
	write := func(ctx context.Context) {
		if err := gateway.Write(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		write(t.Context())
	}
	batch.Number = 2
	write(t.Context())
	got, err := b.HoursOf(t.Context(), "one", []string{"c1", "c2"}, noon, time.Time{})
	want := metering.Hours{Batch: 2, Counts: map[metering.HourKey]metering.Count{hourKey("c1", "calls", noon, metering.Dims{Method: "GET"}): {Events: 4, Total: 10}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := b.HoursOf(t.Context(), "two", []string{"c1"}, noon.Add(-time.Hour), noon); err != nil || got.Batch != 0 || len(got.Counts) != 0 {
		t.Errorf("before: %+v, %v", got, err)
	}
}

func testRetention(t *testing.T, b *bench) {
	b.count(t, map[metering.HourKey]metering.Count{
		hourKey("c1", "calls", storetest.Noon(), metering.Dims{}):                                       {Events: 1},
		hourKey("c1", "calls", storetest.Noon().Add(-domain.MeterRetention-time.Hour), metering.Dims{}): {Events: 1},
	})
	if err := b.Purge(t.Context(), storetest.Noon()); err != nil {
		t.Fatal(err)
	}
	if got, err := b.HoursOf(t.Context(), "", []string{"c1"}, time.Unix(0, 0), time.Time{}); err != nil || len(got.Counts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
