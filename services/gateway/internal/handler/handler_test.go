package handler_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"waybill.dev/services/gateway/internal/handler"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// production allows public addresses by HTTPS alone; dev loopback and HTTP, too.
func production() *egress.Policy { return &egress.Policy{} }

func dev() *egress.Policy {
	return &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
}

// operation is one of GET /orders/{id}/{rest}, answered by a handler of the runtime.
func operation(export, options string) *routefile.Operation {
	return &routefile.Operation{
		ID: "op", Path: "/orders/{id}/{rest}", Method: "GET", File: &routefile.File{Name: "routes.oas.json"},
		Handler:    routefile.HandlerDef{Module: routefile.Runtime, Export: export, Options: []byte(options)},
		Parameters: []routefile.Parameter{{Name: "id", In: "path"}, {Name: "rest", In: "path"}, {Name: "q", In: "query"}},
	}
}

func env(p *egress.Policy, vars ...string) handler.Env {
	set := make(map[string]string)
	for i := 0; i < len(vars); i += 2 {
		set[vars[i]] = vars[i+1]
	}
	return handler.Env{
		Set: &routefile.Set{}, Folder: fstest.MapFS{}, Egress: p,
		Getenv: func(name string) (string, bool) { value, ok := set[name]; return value, ok },
	}
}

// newHandler makes one; what it keeps open is closed with the test.
func newHandler(t *testing.T, export, options string, e handler.Env) route.Handler {
	t.Helper()
	h, faults := handler.New(operation(export, options), e)
	if len(faults) > 0 {
		t.Fatalf("%s %s: %v", export, options, faults)
	}
	pools := upstream.NewPools(e.Egress)
	t.Cleanup(pools.Close)
	return &served{h, pools}
}

// served is a handler that finds connections to back ends in its requests.
type served struct {
	route.Handler

	pools *upstream.Pools
}

func (s *served) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	r.Runtime = &route.Runtime{Upstreams: s.pools}
	return s.Handler.Handle(ctx, r)
}

// faultsOf returns what is wrong with a handler, in one text.
func faultsOf(t *testing.T, export, options string, e handler.Env) string {
	t.Helper()
	h, faults := handler.New(operation(export, options), e)
	if len(faults) > 0 && h != nil {
		t.Errorf("%s %s: there are faults and a handler", export, options)
	}
	return strings.Join(faults, "; ")
}

func call(method, path, query string) *route.Request {
	return &route.Request{
		Method: method, Path: path, Query: route.ParseQuery(&url.URL{RawQuery: query}), Header: http.Header{}, Params: map[string]string{},
		Host: "gateway.example", Scheme: "https", Remote: "192.0.2.7", ID: "req-1",
	}
}

// outcome is the status that a caller gets, and the body of an answer or the detail of a
// problem.
func outcome(ctx context.Context, t *testing.T, h route.Handler, r *route.Request) (int, string) {
	t.Helper()
	response, err := h.Handle(ctx, r)
	if err != nil {
		p, ok := errors.AsType[*problem.Problem](err)
		if !ok {
			t.Fatalf("%s: an error that is no problem: %v", r.Path, err)
		}
		return p.Status(), p.Detail
	}
	return response.Status, string(response.Body)
}

// seen is a request as a back end got it.
type seen struct {
	line   string // method and target, as they were sent
	header http.Header
	host   string
	body   string
	length int64
}

// recorder is a back end that keeps what it was asked.
type recorder struct {
	*httptest.Server

	mu          sync.Mutex
	requests    []seen
	connections atomic.Int64
	open        atomic.Int64
}

func record(t *testing.T, answer http.HandlerFunc) *recorder {
	t.Helper()
	b := &recorder{}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.requests = append(b.requests, seen{r.Method + " " + r.RequestURI, r.Header, r.Host, string(body), r.ContentLength})
		b.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	b.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			b.connections.Add(1)
			b.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			b.open.Add(-1)
		}
	}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// last returns what it was asked last.
func (b *recorder) last(t *testing.T) seen {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == 0 {
		t.Fatal("the back end was not asked")
	}
	return b.requests[len(b.requests)-1]
}

func (b *recorder) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests)
}
