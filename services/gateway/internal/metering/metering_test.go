package metering_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/metering"
	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store"
	tables "waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// rig is a database with a consumer, c1, whose plan has a quota of calls.
type rig struct {
	db    *store.Store
	plans *tables.Metering
	now   func() time.Time
}

const limit = 1000

func eachRig(t *testing.T, test func(*testing.T, *rig)) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := &rig{now: time.Now}
		r.db = kind.Fresh(t).Open(t, store.Options{})
		r.plans = tables.New(r.db)
		r.furnish(t)
		test(t, r)
	})
}

var bucket = domain.BucketKey{Account: domain.DefaultAccount, Bucket: "partners"}

func (r *rig) furnish(t *testing.T) { t.Helper(); r.furnishFor(t, limit) }

// furnishFor makes the consumers, and the plan with so many calls.
func (r *rig) furnishFor(t testing.TB, calls int64) {
	t.Helper()
	now := store.InstantOf(r.db.Now())
	exec := func(query string, args ...any) {
		if err := r.db.Writing(t.Context()).Exec(query, args...).Error; err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ('b1', 'default', 'partners', '', '', ?, ?, ?)`, true, now, now)
	for _, id := range []string{"c1", "c2"} {
		exec(`INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES (?, 'b1', ?, '', '', '', '', ?, ?)`, id, id, now, now)
	}
	ctx := t.Context()
	for _, slug := range []string{"calls", "others"} {
		if _, err := r.plans.CreateMeter(ctx, domain.Meter{Bucket: bucket, Slug: slug, Aggregation: domain.AggregationSum, EventType: slug, ValueProperty: domain.MeterTotal}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.plans.CreateFeature(ctx, bucket, domain.Feature{Key: "calls", MeterSlug: "calls"}); err != nil {
		t.Fatal(err)
	}
	r.plan(t, "basic", calls)
}

// plan gives c1 a plan of so many calls a year.
func (r *rig) plan(t testing.TB, key string, calls int64) {
	t.Helper()
	card := domain.RateCard{Key: "calls", FeatureKey: "calls", Entitlement: &domain.Entitlement{Type: domain.EntitlementMetered, IssueAfterReset: calls}}
	p, err := r.plans.CreatePlan(t.Context(), bucket, domain.Plan{Key: key, BillingCadence: domain.Yearly, Phases: []domain.Phase{{Key: "only", RateCards: []domain.RateCard{card}}}})
	if err == nil {
		_, err = r.plans.PublishPlan(t.Context(), bucket, p.ID)
	}
	if err == nil {
		_, err = r.plans.PutSubscription(t.Context(), tables.ConsumerKey{BucketKey: bucket, Consumer: "c1"}, key, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// process is a gateway's part of metering, which writes until the test ends.
func (r *rig) process(t *testing.T) *metering.Meters {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	counts := observe.New(observe.Options{Store: traffic.New(r.db), Logger: logger})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = counts.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return metering.New(metering.Options{Store: r.plans, Counts: counts, Now: func() time.Time { return r.now() }, Logger: logger})
}

func who(id string) *apikey.Principal {
	return &apikey.Principal{Account: "default", Bucket: "partners", BucketID: "b1", Consumer: id, ConsumerID: id}
}

func use(n int64) []route.Use { return []route.Use{{Meter: "calls", Amount: n}} }

// burst calls from 64 callers at once until each was refused, and returns how many passed.
func burst(t *testing.T, processes ...*metering.Meters) int64 {
	t.Helper()
	var passed atomic.Int64
	var callers sync.WaitGroup
	for i := range 64 {
		m := processes[i%len(processes)]
		callers.Go(func() {
			for {
				end, err := m.Begin(context.Background(), who("c1"), use(1), route.Dims{Route: "/a", Method: "GET"})
				if err != nil {
					var p *problem.Problem
					if !errors.As(err, &p) || p.Code != problem.QuotaExceeded || p.RetryAfter <= 0 || p.RetryAfter > 366*24*time.Hour {
						t.Errorf("refused by %v", err)
					}
					return
				}
				passed.Add(1)
				end(true, "200")
			}
		})
	}
	callers.Wait()
	return passed.Load()
}

// In one process, exactly as many requests pass as the plan allows.
func TestHardLimit(t *testing.T) {
	eachRig(t, func(t *testing.T, r *rig) {
		m := r.process(t)
		if got := burst(t, m); got != limit {
			t.Errorf("%d passed, want %d", got, limit)
		}
		// What is written is counted, once, and goes on to count.
		r.await(t, limit)
		if got := burst(t, r.process(t)); got != 0 {
			t.Errorf("%d passed in another process, want none", got)
		}
		r.plan(t, "more", limit+5)
		deadline := time.Now().Add(20 * time.Second)
		passed := int64(0)
		for passed < 5 && time.Now().Before(deadline) {
			passed += burst(t, m)
		}
		if passed != 5 {
			t.Errorf("%d passed with the larger plan, want 5", passed)
		}
	})
}

// await waits until so many calls are in the database.
func (r *rig) await(t *testing.T, want int64) {
	t.Helper()
	deadline, ticks := time.Now().Add(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer ticks.Stop()
	for {
		values, err := r.plans.QueryMeter(t.Context(), bucket, "calls", tables.MeterQuery{})
		if err == nil && len(values) == 1 && values[0].Value == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("counted %+v (%v), want %d", values, err, want)
		}
		<-ticks.C
	}
}

// Three processes let pass what the plan allows, and what they can't know of each other.
func TestLimitOfThree(t *testing.T) {
	eachRig(t, func(t *testing.T, r *rig) {
		got := burst(t, r.process(t), r.process(t), r.process(t))
		if got < limit || got > 3*limit {
			t.Errorf("%d passed", got)
		}
		r.await(t, got)
		if more := burst(t, r.process(t)); more != 0 {
			t.Errorf("%d more passed", more)
		}
	})
}

// What does not count, who has no plan, and what a plan lacks.
func TestWhoPasses(t *testing.T) {
	eachRig(t, func(t *testing.T, r *rig) {
		m := r.process(t)
		code := func(who *apikey.Principal, use []route.Use) problem.Code {
			end, err := m.Begin(t.Context(), who, use, route.Dims{})
			if err == nil {
				end(false, "500")
				return ""
			}
			var p *problem.Problem
			if !errors.As(err, &p) {
				t.Fatal(err)
			}
			return p.Code
		}
		for range limit + 10 {
			if got := code(who("c1"), use(1)); got != "" {
				t.Fatalf("a request that does not count was refused: %s", got)
			}
		}
		for want, got := range map[problem.Code]problem.Code{
			problem.NoSubscription:  code(who("c2"), use(1)),
			problem.Forbidden:       code(who("c1"), []route.Use{{Meter: "others", Amount: 1}}),
			problem.QuotaExceeded:   code(who("c1"), use(limit+1)),
			problem.Unauthenticated: code(nil, use(1)),
		} {
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if got := code(&apikey.Principal{Type: apikey.TypeBootstrap}, use(1)); got != problem.NoSubscription {
			t.Errorf("the bootstrap key: %q", got)
		}
		if got := code(who("c1"), use(limit)); got != "" {
			t.Errorf("all of it at once: %q", got)
		}
	})
}
