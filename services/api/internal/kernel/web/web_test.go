package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/apitest"
	"waybill.dev/services/api/internal/families/events"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caller is who everybody is taken for; err is what the look-up fails with.
type caller struct {
	scopes []domain.Scope
	err    error
}

func (c caller) Authenticate(context.Context, string) (apikey.Principal, error) {
	return apikey.Principal{Account: "default", ID: "test", Scopes: c.scopes}, c.err
}

// brokenStore fails as a test says; what it does not define panics, being nil.
type brokenStore struct {
	events.Store
	err error
}

func (s brokenStore) GetEvent(context.Context, string, string) (domain.Event, error) {
	if s.err == nil {
		panic("secret in a panic")
	}
	return domain.Event{}, s.err
}

// forgetful is an audit log that keeps nothing.
type forgetful struct{}

func (forgetful) Note(context.Context, domain.AuditEntry) {}

// rig is what a handler is made of, where it matters to a test.
type rig struct {
	store    events.Store
	accepter events.Accepter
	who      caller
	limit    float64 // requests a second
	memory   *body.Memory
	logs     io.Writer   // nil: they are lost
	routes   []web.Route // besides those of events
}

func newHandler(r *rig) http.Handler {
	log := slog.New(slog.DiscardHandler)
	if r.logs != nil {
		log = slog.New(slog.NewTextHandler(r.logs, nil))
	}
	registry := prometheus.NewRegistry()
	ofEvents := events.Routes(events.Options{Store: r.store, Accepter: r.accepter, Registerer: registry, TracerProvider: noop.NewTracerProvider()})
	return web.New(web.Options{
		Routes: slices.Concat(ofEvents, r.routes), Authenticator: r.who, Refusals: forgetful{},
		Logger: log, Registerer: registry, RateLimit: r.limit, Memory: r.memory,
	})
}

func call(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, http.NoBody)
	request.Header.Set("X-API-Key", "some-key")
	return serve(handler, request)
}

// documented holds every answer of every test to the OpenAPI document.
var documented = sync.OnceValue(func() *apitest.Checker {
	documents, err := spec.New()
	if err != nil {
		panic(err)
	}
	checker, err := apitest.New(documents.OpenAPI.Body)
	if err != nil {
		panic(err)
	}
	return checker
})

func serve(handler http.Handler, request *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	if err := documented().Answer(request.Method, request.URL.EscapedPath(), recorder.Code, recorder.Header(), recorder.Body.Bytes()); err != nil {
		panic(err) // no test wants that
	}
	return recorder
}

// Each route is closed to a key that has every scope but the one it needs.
func TestScopes(t *testing.T) {
	t.Parallel()
	all := []domain.Scope{
		domain.ScopeWebhooksRead, domain.ScopeWebhooksWrite, domain.ScopeEventsRead, domain.ScopeEventsWrite,
		domain.ScopeBucketsRead, domain.ScopeBucketsWrite, domain.ScopeMCP,
		domain.ScopeGatewayRead, domain.ScopeGatewayWrite,
	}
	operations := map[string]bool{}
	for _, route := range api.Routes() {
		if operations[route.Operation] || route.Operation == "" {
			t.Errorf("%s %s: its operation is missing or used twice", route.Method, route.Path)
		}
		operations[route.Operation] = true
		if route.Scope == "" {
			// The URL of an upload is signed.
			if strings.HasPrefix(route.Path, "/v1/") && route.Operation != "uploadDeploymentSource" {
				t.Errorf("%s %s is open to all", route.Method, route.Path)
			}
			continue
		}
		var others []domain.Scope
		for _, scope := range all {
			if scope != route.Scope && scope != route.Or {
				others = append(others, scope)
			}
		}
		handler := web.New(web.Options{
			Routes: []web.Route{route}, Authenticator: caller{scopes: others}, Refusals: forgetful{},
			Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		path := strings.NewReplacer("{", "", "}", "").Replace(route.Path)
		if route.Scope == domain.ScopeAny {
			continue
		}
		answer := call(handler, route.Method, path)
		if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), `"FORBIDDEN"`) {
			t.Errorf("%s %s with other scopes: %d %s", route.Method, path, answer.Code, answer.Body)
		}
		// A trial and a question in a body change nothing.
		writes := route.Method != http.MethodGet && !slices.Contains([]string{"testWebhookFilter", "queryMeterByBody"}, route.Operation)
		if route.Scope == domain.ScopeAdmin {
			continue
		}
		if strings.HasSuffix(string(route.Scope), ":read") == writes {
			t.Errorf("%s %s needs %s", route.Method, path, route.Scope)
		}
	}
}

// Whatever goes wrong inside tells nothing of the inside.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		store  brokenStore
		who    caller
		status int
		code   string
		retry  string
		logged bool
	}{
		"panic":              {brokenStore{}, caller{}, 500, "INTERNAL", "", true},
		"bug":                {brokenStore{err: errors.New("syntax error at 7")}, caller{}, 500, "INTERNAL", "", true},
		"store away":         {brokenStore{err: domain.ErrUnavailable}, caller{}, 503, "UNAVAILABLE", "2", false},
		"store too slow":     {brokenStore{err: context.DeadlineExceeded}, caller{}, 503, "UNAVAILABLE", "2", false},
		"keys can't be read": {brokenStore{}, caller{err: domain.ErrUnavailable}, 503, "UNAVAILABLE", "2", false},
		"not there":          {brokenStore{err: domain.ErrNotFound}, caller{}, 404, "NOT_FOUND", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.who.scopes = []domain.Scope{domain.ScopeAdmin}
			var logs strings.Builder
			answer := call(newHandler(&rig{store: tc.store, who: tc.who, logs: &logs}), http.MethodGet, "/v1/events/evt_1")
			text := answer.Body.String()
			if answer.Code != tc.status || !strings.Contains(text, `"`+tc.code+`"`) || answer.Header().Get("Retry-After") != tc.retry {
				t.Errorf("answer is %d, Retry-After %q: %s", answer.Code, answer.Header().Get("Retry-After"), text)
			}
			if answer.Header().Get("Content-Type") != "application/problem+json" || answer.Header().Get("X-Request-Id") == "" {
				t.Errorf("header is %v", answer.Header())
			}
			if strings.Contains(text, "secret in") || strings.Contains(text, "syntax error") || strings.Contains(logs.String(), "secret in") {
				t.Errorf("the inside is told: %s\n%s", text, logs.String())
			}
			if got := strings.Contains(logs.String(), "level=ERROR"); got != tc.logged {
				t.Errorf("logged: %s", logs.String())
			}
		})
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where no time passes
		handler := newHandler(&rig{store: brokenStore{err: domain.ErrNotFound}, who: caller{scopes: []domain.Scope{domain.ScopeAdmin}}, limit: 2})
		var codes []int
		var last *httptest.ResponseRecorder
		for range 3 {
			last = call(handler, http.MethodGet, "/v1/events/evt_1")
			codes = append(codes, last.Code)
		}
		if codes[0] != 404 || codes[1] != 404 || codes[2] != 429 {
			t.Errorf("statuses are %v, want 404, 404, 429", codes)
		}
		if last.Header().Get("Retry-After") != "1" || !strings.Contains(last.Body.String(), `"RATE_LIMITED"`) {
			t.Errorf("answer is %v %s", last.Header(), last.Body)
		}
	})
}
