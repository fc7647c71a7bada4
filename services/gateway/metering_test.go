package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

const meteredPolicies = `{"policies":[
	{"policyType":"api-key-inbound","name":"key","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{}}},
	{"policyType":"metering-inbound","name":"metered","handler":{"module":"$import(@gateway/runtime)","export":"MeteringInboundPolicy","options":{"meters":{"calls":1},"meterOnStatusCodes":"200"}}}]}`

// metered has a path whose answers count, one whose answers don't, and one with a back end.
const metered = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
	"/":{"get":{"operationId":"o","x-gateway-route":{"policies":{"inbound":["key","metered"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}}}}},
	"/slow":{"get":{"operationId":"s","x-gateway-route":{"policies":{"inbound":["key","metered"]},"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"BACKEND"}}}}},
	"/gone":{"get":{"operationId":"g","x-gateway-route":{"policies":{"inbound":["key","metered"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"status":410,"body":"gone"}}}}}}}`

// meteringRig is gateways on one database, and two accounts with a metered deployment and a
// consumer each.
type meteringRig struct {
	*testing.T
	gateways []*rig
	plans    *metering.Metering
	shops    []deploymentstest.Deployment
	keys     []string

	handed chan struct{} // to the back end, which waits until its caller has left
}

var meteredAccounts = []string{"default", "acme"}

const quota = 1000

func newMeteringRig(t *testing.T, kind storetest.Kind, n int) *meteringRig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	db := kind.Fresh(t).Open(t, store.Options{Keys: keys})
	m := &meteringRig{T: t, plans: metering.New(db), handed: make(chan struct{})}
	backEnd := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m.handed <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(backEnd.Close)
	logger := slog.New(slog.DiscardHandler)
	for range n {
		var counts *gateway.Traffic
		r := newRig(t, func(o *gateway.Options) {
			counts = gateway.NewTraffic(gateway.TrafficOptions{Store: traffic.New(db), Rate: 1, Logger: logger})
			o.Store, o.Keyring, o.Traffic = db, keys, counts
			o.Egress, o.Own = &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}, func() []string { return nil }
			o.Meters = gateway.NewMeters(db, counts, logger, prometheus.NewRegistry())
		})
		r.db, r.keys = db, keys
		m.gateways = append(m.gateways, r)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- counts.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
	}
	archive := zipped(t, gatewaytest.Files{"a.oas.json": strings.Replace(metered, "BACKEND", backEnd.URL, 1), "policies.json": meteredPolicies})
	for _, account := range meteredAccounts {
		m.keys = append(m.keys, m.gateways[0].keysOf([2]string{account, "shop-production"})...)
		shop := deploymentstest.Deployment{Account: account, Project: "shop", Branch: "main", Format: "zip", Archive: archive}
		shop.Activate(t, db)
		m.shops = append(m.shops, shop)
		m.furnish(account)
	}
	for _, r := range m.gateways {
		r.run()
	}
	return m
}

func bucketOf(account string) domain.BucketKey {
	return domain.BucketKey{Account: account, Bucket: "shop-production"}
}

// furnish gives the consumer of an account a plan with a quota of calls.
func (m *meteringRig) furnish(account string) {
	m.Helper()
	bucket := bucketOf(account)
	meter := domain.Meter{Bucket: bucket, Slug: "calls", Aggregation: domain.AggregationSum, EventType: "calls", ValueProperty: domain.MeterTotal, GroupBy: map[string]string{"route": "$.route"}}
	if _, err := m.plans.CreateMeter(m.Context(), meter); err != nil {
		m.Fatal(err)
	}
	if _, err := m.plans.CreateFeature(m.Context(), bucket, domain.Feature{Key: "calls", MeterSlug: "calls"}); err != nil {
		m.Fatal(err)
	}
	m.give(account, "basic", quota)
}

// give gives the consumer of an account a plan of so many calls a month.
func (m *meteringRig) give(account, key string, calls int64) {
	m.Helper()
	bucket := bucketOf(account)
	card := domain.RateCard{Key: "calls", FeatureKey: "calls", Entitlement: &domain.Entitlement{Type: domain.EntitlementMetered, IssueAfterReset: calls}}
	p, err := m.plans.CreatePlan(m.Context(), bucket, domain.Plan{Key: key, BillingCadence: domain.Monthly, Phases: []domain.Phase{{Key: "only", RateCards: []domain.RateCard{card}}}})
	if err == nil {
		_, err = m.plans.PublishPlan(m.Context(), bucket, p.ID)
	}
	if err == nil {
		_, err = m.plans.PutSubscription(m.Context(), metering.ConsumerKey{BucketKey: bucket, Consumer: "bakery"}, key, 0)
	}
	if err != nil {
		m.Fatal(err)
	}
}

// counted returns what the meter of an account has.
func (m *meteringRig) counted(account string) (sum int64) {
	m.Helper()
	values, err := m.plans.QueryMeter(m.Context(), bucketOf(account), "calls", metering.MeterQuery{})
	if err != nil {
		m.Fatal(err)
	}
	for _, v := range values {
		sum += v.Value
	}
	return sum
}

// call calls a path of an account's deployment at a gateway.
func (m *meteringRig) call(at, account int, path string) (status int, header http.Header, body []byte) {
	w := m.gateways[at].ask(http.MethodGet, m.shops[account].Name()+".gateway.localhost", path, "Authorization", "Bearer "+m.keys[account])
	return w.Code, w.Header(), w.Body.Bytes()
}

// burst has 64 callers call a gateway until each is refused, and returns how many calls passed.
func (m *meteringRig) burst(at int) int64 {
	m.Helper()
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for {
				switch status, _, body := m.call(at, 0, "/"); status {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusTooManyRequests:
					return
				default:
					m.Errorf("%d: %s", status, body)
					return
				}
			}
		})
	}
	callers.Wait()
	return passed.Load()
}

// refused holds the answer at the quota to what is promised of it.
func (m *meteringRig) refused() {
	m.Helper()
	e, err := m.plans.GetSubscription(m.Context(), metering.ConsumerKey{BucketKey: bucketOf("default"), Consumer: "bakery"})
	if err != nil {
		m.Fatal(err)
	}
	_, end := domain.Monthly.Period(e.Anchor, time.Now())
	earliest := time.Now()
	status, header, body := m.call(0, 0, "/")
	latest := time.Now()
	var p struct {
		Code, RequestID string
		Status          int
	}
	if err := json.Unmarshal(body, &p); err != nil || status != http.StatusTooManyRequests || p.Status != status || p.Code != "QUOTA_EXCEEDED" || p.RequestID != header.Get("X-Request-Id") {
		m.Errorf("%d %s (%v)", status, body, err)
	}
	if got := header.Get("Content-Type"); got != "application/problem+json" {
		m.Errorf("Content-Type is %q", got)
	}
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	after := time.Duration(seconds) * time.Second
	if err != nil || after < end.Sub(latest) || after > end.Sub(earliest)+time.Second {
		m.Errorf("Retry-After is %q; the period ends in %s", header.Get("Retry-After"), end.Sub(latest))
	}
}

// In one process exactly as many requests pass as the plan allows, and the others are told when the
// period ends. What another account has is another matter, whatever the names are.
func TestQuota(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		m := newMeteringRig(t, kind, 1)
		for range 20 {
			if status, _, body := m.call(0, 0, "/gone"); status != http.StatusGone {
				t.Fatalf("%d %s", status, body)
			}
		}
		if got := m.burst(0); got != quota {
			t.Errorf("%d requests passed, want %d: what answers 410 does not count", got, quota)
		}
		m.refused()
		if status, _, body := m.call(0, 0, "/gone"); status != http.StatusTooManyRequests {
			t.Errorf("what might count is not refused: %d %s", status, body)
		}
		for want := range 3 {
			if got := m.counted("acme"); got != 0 && want == 0 {
				t.Errorf("the other account has %d", got)
			}
			if status, _, body := m.call(0, 1, "/"); status != http.StatusOK {
				t.Errorf("the other account is refused: %d %s", status, body)
			}
		}
		gatewaytest.Within(t, 20*time.Second, "both are counted", func() bool { return m.counted("default") == quota && m.counted("acme") == 3 })
	})
}

// A caller who leaves before the answer is held to its quota, too: its back end has had the request.
func TestQuotaOfThoseWhoLeave(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		m := newMeteringRig(t, kind, 1)
		handed := 0
		for range quota + 20 {
			ctx, leave := context.WithCancel(t.Context())
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/slow", http.NoBody)
			request.Host = m.shops[0].Name() + ".gateway.localhost"
			request.Header.Set("Authorization", "Bearer "+m.keys[0])
			w, ended := httptest.NewRecorder(), make(chan struct{})
			go func() {
				defer close(ended)
				m.gateways[0].handler.ServeHTTP(w, request)
			}()
			select {
			case <-m.handed:
				handed++
			case <-ended:
				if w.Code != http.StatusTooManyRequests {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
			leave()
			<-ended
		}
		if handed != quota {
			t.Errorf("the back end had %d requests, the quota is %d", handed, quota)
		}
		if status, _, body := m.call(0, 1, "/"); status != http.StatusOK {
			t.Errorf("the other account is refused: %d %s", status, body)
		}
		gatewaytest.Within(t, 20*time.Second, "all are counted", func() bool { return m.counted("default") == quota })
	})
}

// Three processes pass a quota by what they take within a second, and no more.
func TestQuotaOfThree(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		m := newMeteringRig(t, kind, 3)
		const perSecond = 600
		var passed atomic.Int64
		var calls sync.WaitGroup
		ticks := time.NewTicker(time.Second / perSecond)
		defer ticks.Stop()
		refused := make(chan int, 3*perSecond*60)
		full := map[int]bool{}
		deadline := time.Now().Add(time.Minute)
		for i := 0; len(full) < 3 && time.Now().Before(deadline); i++ {
			<-ticks.C
			at := i % 3
			calls.Go(func() {
				switch status, _, body := m.call(at, 0, "/"); status {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusTooManyRequests:
					refused <- at
				default:
					t.Errorf("%d %s", status, body)
				}
			})
			for some := true; some; {
				select {
				case at := <-refused:
					full[at] = true
				default:
					some = false
				}
			}
		}
		calls.Wait()
		got := passed.Load()
		t.Logf("%d passed, the quota is %d", got, quota)
		// Twice a second's requests: on a busy machine counts are written late.
		if got < quota || got > quota+2*perSecond {
			t.Errorf("%d requests passed at %d a second, the quota is %d", got, perSecond, quota)
		}
		gatewaytest.Within(t, 20*time.Second, "all that passed is counted", func() bool { return m.counted("default") == got })
		for at := range m.gateways {
			gatewaytest.Within(t, 20*time.Second, "all are refused", func() bool {
				status, _, _ := m.call(at, 0, "/")
				return status == http.StatusTooManyRequests
			})
		}
		m.give("default", "more", got+5)
		gatewaytest.Within(t, 20*time.Second, "a larger plan holds", func() bool {
			status, _, _ := m.call(2, 0, "/")
			return status == http.StatusOK
		})
	})
}
