package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every route but the open ones wants a key, whatever is asked for, and tells nothing
// about what is wrong with one.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	routes := []struct{ method, path string }{
		{"GET", "/v1/webhooks"}, {"POST", "/v1/webhooks"},
		{"GET", "/v1/webhooks/{id}"}, {"PATCH", "/v1/webhooks/{id}"}, {"DELETE", "/v1/webhooks/{id}"},
		{"POST", "/v1/webhooks/{id}/rotate-secret"}, {"POST", "/v1/webhooks/{id}/test"}, {"POST", "/v1/webhooks/{id}/replay"},
		{"POST", "/v1/events"}, {"GET", "/v1/events"}, {"GET", "/v1/events/{id}"},
		{"GET", "/v1/deliveries"}, {"GET", "/v1/deliveries/{id}"}, {"POST", "/v1/deliveries/{id}/retry"},
		{"POST", "/v1/deliveries/retry"}, {"GET", "/v1/jobs"}, {"GET", "/v1/jobs/{id}"}, {"DELETE", "/v1/jobs/{id}"},
		{"GET", "/v1/rejected"}, {"GET", "/v1/signing-keys"}, {"GET", "/v1/expiring"}, {"POST", "/v1/signing-keys/rotate"},
	}
	for name, key := range map[string]tweak{
		"no key":            without("Authorization"),
		"wrong key":         header("Authorization", "Bearer "+strings.Repeat("x", len(adminKey))),
		"the key and more":  header("Authorization", "Bearer "+adminKey+"x"),
		"another scheme":    header("Authorization", "Basic "+adminKey),
		"no scheme":         header("Authorization", adminKey),
		"empty":             header("Authorization", "Bearer "),
		"wrong X-API-Key":   func(q *http.Request) { q.Header.Del("Authorization"); q.Header.Set("X-API-Key", "wrong") },
		"two keys differ":   header("X-API-Key", "wrong"),
		"two header fields": func(q *http.Request) { q.Header.Add("Authorization", "Bearer "+adminKey) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, route := range routes {
				a := r.do(route.method, strings.ReplaceAll(route.path, "{id}", "x"), "", key)
				if a.status != http.StatusUnauthorized {
					t.Errorf("%s: status %d, want 401", a.call, a.status)
					continue
				}
				if got := a.header.Get("WWW-Authenticate"); got != "Bearer" {
					t.Errorf("%s: WWW-Authenticate is %q", a.call, got)
				}
				if got := a.text("code"); got != "UNAUTHENTICATED" {
					t.Errorf("%s: code %s", a.call, got)
				}
			}
		})
	}
	for name, key := range map[string]tweak{
		"bearer":               header("Authorization", "bearer "+adminKey),
		"X-API-Key":            func(q *http.Request) { q.Header.Del("Authorization"); q.Header.Set("X-API-Key", adminKey) },
		"both, and the same":   header("X-API-Key", adminKey),
		"spaces before it":     header("Authorization", "Bearer   "+adminKey),
		"open route, no key":   nil,
		"open route, bad key":  nil,
		"readiness, no key":    nil,
		"readiness, wrong key": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/v1/webhooks"
			switch {
			case strings.HasPrefix(name, "open"):
				path = "/healthz"
			case strings.HasPrefix(name, "readiness"):
				path = "/readyz"
			}
			if key == nil {
				key = without("Authorization")
				if strings.Contains(name, ", wrong") || strings.Contains(name, ", bad") {
					key = header("Authorization", "Bearer wrong")
				}
			}
			r.do(http.MethodGet, path, "", key).want(http.StatusOK)
		})
	}
}

// Whatever is not found looks the same, and every answer has a request id.
func TestProblems(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	for name, tc := range map[string]struct {
		method, path string
		status       int
		code         string
		allow        string
	}{
		"no such path":            {"GET", "/v2/webhooks", 404, "NOT_FOUND", ""},
		"no such webhook":         {"GET", "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000", 404, "NOT_FOUND", ""},
		"no id at all":            {"GET", "/v1/webhooks/nonsense", 404, "NOT_FOUND", ""},
		"no such event":           {"GET", "/v1/events/evt_1", 404, "NOT_FOUND", ""},
		"id no event may have":    {"GET", "/v1/events/a.b", 404, "NOT_FOUND", ""},
		"no such delivery":        {"GET", "/v1/deliveries/0000000000000000000000", 404, "NOT_FOUND", ""},
		"no delivery id":          {"POST", "/v1/deliveries/short/retry", 404, "NOT_FOUND", ""},
		"slash at the end":        {"GET", "/v1/webhooks/", 404, "NOT_FOUND", ""},
		"method of no route here": {"PUT", "/v1/webhooks", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		"method of no route, id":  {"POST", "/v1/webhooks/x", 405, "METHOD_NOT_ALLOWED", "DELETE, GET, HEAD, PATCH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := r.do(tc.method, tc.path, "").want(tc.status)
			if got := a.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("content type %s", got)
			}
			got := a.object()
			for member, want := range map[string]any{
				"code": tc.code, "status": float64(tc.status), "instance": tc.path, "requestId": a.header.Get("X-Request-Id"),
			} {
				if got[member] != want {
					t.Errorf("%s is %v, want %v", member, got[member], want)
				}
			}
			for _, member := range []string{"type", "title", "detail"} {
				if text, _ := got[member].(string); text == "" {
					t.Errorf("%s is missing in %s", member, a.body)
				}
			}
			allowed := strings.Split(strings.ReplaceAll(a.header.Get("Allow"), " ", ""), ",")
			wanted := strings.Split(strings.ReplaceAll(tc.allow, " ", ""), ",")
			if diff := cmp.Diff(sorted(wanted), sorted(allowed)); diff != "" {
				t.Errorf("Allow (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	long := strings.Repeat("x", 128)
	for name, tc := range map[string]struct {
		given string
		taken bool
	}{
		"visible": {`abc-1_2.3/"~!`, true}, "longest": {long, true}, "too long": {long + "x", false},
		"with a space": {"a b", false}, "beyond ASCII": {"ä", false}, "empty": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.do(http.MethodGet, "/healthz", "", header("X-Request-Id", tc.given)).header.Get("X-Request-Id")
			if got == "" || (got == tc.given) != tc.taken {
				t.Errorf("given %q, answered %q", tc.given, got)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		eventually(t, "the bus is up", func() bool { return r.bus.Ready() == nil })
		want := map[string]any{"status": "alive", "store": "up", "bus": "up"}
		if diff := cmp.Diff(want, r.do(http.MethodGet, "/healthz", "").want(200).object()); diff != "" {
			t.Errorf("healthz (-want +got):\n%s", diff)
		}
		r.nats.Stop()
		eventually(t, "the bus is down", func() bool { return r.bus.Ready() != nil })
		want = map[string]any{"status": "ready", "store": "up", "bus": "down"}
		if diff := cmp.Diff(want, r.do(http.MethodGet, "/readyz", "").want(200).object()); diff != "" {
			t.Errorf("readyz (-want +got):\n%s", diff)
		}
	})
}
