package local_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// named returns how many samples of the metrics name a route.
func (r *rig) named(path string) int {
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return strings.Count(recorder.Body.String(), `route="`+path+`"`)
}

// A route that is gone leaves no metric behind, one that stays goes on with its own, and one
// that has never been served has none.
func TestMetricsOfRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{"a.oas.json": document(static("GET", "/stays", "stays"), static("GET", "/goes/{x}", "goes"))}, nil)
	r.do(http.MethodGet, "/stays", "").want(200, "stays")
	r.do(http.MethodGet, "/goes/1", "").want(200, "goes")
	if r.named("/stays") == 0 || r.named("/goes/{x}") == 0 {
		t.Fatal("routes have no metrics")
	}
	r.write(files{"a.oas.json": document(static("GET", "/stays", "stays"), static("GET", "/never", "never"), static("GET", "/v1/webhooks", "taken"))})
	if err := r.gateway.Reload(); err == nil {
		t.Fatal("a path of Waybill's own is taken")
	}
	if n := r.named("/never"); n != 0 {
		t.Errorf("a route that was refused has %d metrics", n)
	}
	r.do(http.MethodGet, "/goes/1", "").want(200, "goes")
	r.write(files{"a.oas.json": document(static("GET", "/stays", "stays"), static("PUT", "/goes/{x}", "other"))})
	if err := r.gateway.Reload(); err != nil {
		t.Fatal(err)
	}
	for sample, want := range map[string]string{
		`waybill_gateway_calls_total{class="2xx",method="GET",origin="http",route="/stays"}`:    "1",
		`waybill_gateway_call_seconds_count{method="GET",route="/stays"}`:                       "1",
		`waybill_gateway_calls_total{class="2xx",method="GET",origin="http",route="/goes/{x}"}`: "",
		`waybill_gateway_call_seconds_count{method="GET",route="/goes/{x}"}`:                    "",
		`waybill_gateway_calls_total{class="2xx",method="PUT",origin="http",route="/goes/{x}"}`: "0",
		`waybill_gateway_routes`: "2",
	} {
		if got := metric(t, r, sample); got != want {
			t.Errorf("%s is %q, want %q", sample, got, want)
		}
	}
}

// A change of the route files lets nobody begin a limit anew: not one that is refused, and
// not one that leaves the policy as it is.
func TestLimitsOfReloads(t *testing.T) {
	t.Parallel()
	limits := func(first, second int) string {
		limit := func(name string, allowed int) [4]any {
			return [4]any{name, "rate-limit-inbound", "RateLimitInboundPolicy", m{"rateLimitBy": "all", "requestsAllowed": allowed, "timeWindowMinutes": 60}}
		}
		return policies(nil, limit("first", first), limit("second", second))
	}
	limited := func(name string) operation {
		return static("GET", "/"+name, name).with("policies", m{"inbound": []string{name}})
	}
	r := newRig(t, files{"policies.json": limits(1, 1), "a.oas.json": document(limited("first"), limited("second"))}, nil)
	spent := func(name string) {
		t.Helper()
		r.do(http.MethodGet, "/"+name, "").problem(http.StatusTooManyRequests, "RATE_LIMITED")
	}
	reload := func(good bool) {
		t.Helper()
		if err := r.gateway.Reload(); (err == nil) != good {
			t.Fatalf("Reload: %v", err)
		}
	}
	r.do(http.MethodGet, "/first", "").want(200, "first")
	r.do(http.MethodGet, "/second", "").want(200, "second")
	spent("first")

	r.write(files{"policies.json": limits(2, 2), "bad.oas.json": "{}"})
	reload(false)
	r.write(files{"policies.json": limits(1, 1)})
	if err := os.Remove(filepath.Join(r.dir, "bad.oas.json")); err != nil {
		t.Fatal(err)
	}
	reload(true)
	spent("first")
	spent("second")

	r.write(files{"policies.json": limits(1, 2)})
	reload(true)
	spent("first")
	r.do(http.MethodGet, "/second", "").want(200, "second")

	// No route is limited for a while.
	r.write(files{"a.oas.json": document(static("GET", "/first", "free"))})
	reload(true)
	r.do(http.MethodGet, "/first", "").want(200, "free")
	r.write(files{"a.oas.json": document(limited("first"), limited("second"))})
	reload(true)
	spent("first")
}
