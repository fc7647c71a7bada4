package selfapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/services/api/internal/kernel/selfapi"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
)

// fakeAPI is an API that answers with what it was called with.
type fakeAPI struct {
	t      *testing.T
	calls  int
	answer string
}

func (d *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.calls++
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Error(err)
	}
	principal, _ := auth.FromContext(r.Context())
	w.Header().Set("Location", "/v1/things/1")
	w.Header().Set("X-Request-Id", "not of the gateway")
	w.WriteHeader(http.StatusCreated)
	if d.answer != "" {
		_, _ = io.WriteString(w, d.answer)
		return
	}
	fmt.Fprintf(w, "%s %s by %s from %s: %s; %v", r.Method, r.URL.RequestURI(), principal.ID, edge.Of(r).Address, body, r.Header)
}

func module(d *fakeAPI) map[string]selfapi.Function {
	return selfapi.New(selfapi.Options{API: d, Operations: []selfapi.Operation{
		{ID: "getThing", Method: http.MethodGet, Path: "/v1/things/{id}/parts/{part}", Scope: domain.ScopeEventsRead},
		{ID: "putThing", Method: http.MethodPut, Path: "/v1/things/{id}", Scope: domain.ScopeEventsWrite},
		{ID: "listParts", Method: http.MethodGet, Path: "/v1/things/{id}/parts", Scope: domain.ScopeEventsWrite, Or: domain.ScopeWebhooksRead, Slashes: true},
		{ID: "readDocument", Method: http.MethodGet, Path: "/openapi"},
	}})
}

func holder(scopes ...domain.Scope) *apikey.Principal {
	return &apikey.Principal{Account: "default", ID: "partners/acme", Type: apikey.TypeKey, Scopes: scopes}
}

// An operation is called in this process: by its path, for the caller that the gateway
// found, and with nothing of the caller's key.
func TestCall(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"Authorization": {"Bearer canary-of-a-key"}, "X-Api-Key": {"canary-of-a-key"}, "Cookie": {"canary-of-a-key"},
		"User-Agent": {"tester/1"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"once"}, "Mcp-Session-Id": {"s"},
	}
	for _, inside := range []bool{false, true} {
		d := &fakeAPI{t: t}
		response, err := module(d)["putThing"].Handle(t.Context(), &selfapi.Request{
			Params: map[string]string{"id": "a b?c#d%2Fe"}, Query: "q=1%262", Header: header,
			Body: []byte(`{"n":0.1000}`), Remote: "203.0.113.7", ID: "req-1", Principal: holder(), Inside: inside,
		})
		if err != nil {
			t.Fatal(err)
		}
		got := string(response.Body)
		if want := "PUT /v1/things/a%20b%3Fc%23d%252Fe?q=1%262 by partners/acme from 203.0.113.7: {\"n\":0.1000}; "; !strings.HasPrefix(got, want) {
			t.Errorf("called with\n%s\nwant\n%s", got, want)
		}
		if strings.Contains(got, "canary") || strings.Contains(got, "Mcp-") {
			t.Errorf("the API sees the caller's key or the transport's headers: %s", got)
		}
		if !strings.Contains(got, "tester/1") || !strings.Contains(got, "X-Request-Id:[req-1]") {
			t.Errorf("who asked is not told: %s", got)
		}
		if strings.Contains(got, "Idempotency-Key") == inside || strings.Contains(got, "Content-Type") == inside {
			t.Errorf("inside %v: %s", inside, got)
		}
		if response.Status != http.StatusCreated || response.Header.Get("Location") == "" || response.Header.Get("X-Request-Id") != "" {
			t.Errorf("answer %d %v", response.Status, response.Header)
		}
	}
}

// What is no segment of a path leads nowhere, above all not to another operation.
func TestNoWayOutOfAPath(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", ".", "..", "/", "a/b", "../x", "x/parts", "/etc"} {
		d := &fakeAPI{t: t}
		_, err := module(d)["getThing"].Handle(t.Context(), &selfapi.Request{
			Params: map[string]string{"id": value, "part": "1"}, Principal: holder(domain.ScopeAdmin),
		})
		if p, ok := err.(*problem.Problem); !ok || p.Code != problem.NotFound { //nolint:errorlint // it is told as it stands
			t.Errorf("%q: %v, want NOT_FOUND", value, err)
		}
		if d.calls > 0 {
			t.Errorf("%q was called", value)
		}
	}
}

// Where slashes are allowed, they are a part of the segment, too.
func TestSlashes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"a/b": "/v1/things/a%2Fb/parts", "../x": "/v1/things/..%2Fx/parts", "..": "", "": ""} {
		d := &fakeAPI{t: t}
		response, err := module(d)["listParts"].Handle(t.Context(), &selfapi.Request{Params: map[string]string{"id": value}, Principal: holder(domain.ScopeAdmin)})
		if want == "" {
			if err == nil || d.calls > 0 {
				t.Errorf("%q: %v, %d calls", value, err, d.calls)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(string(response.Body), "GET "+want+" by ") {
			t.Errorf("%q: %s, %v; want %s", value, response.Body, err, want)
		}
	}
}

func TestNobodyWithoutPrincipal(t *testing.T) {
	t.Parallel()
	d := &fakeAPI{t: t}
	response, err := module(d)["readDocument"].Handle(t.Context(), &selfapi.Request{Header: http.Header{"X-Api-Key": {"canary"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(response.Body); !strings.HasPrefix(got, "GET /openapi by  from ") || strings.Contains(got, "canary") {
		t.Errorf("called with %s", got)
	}
}

// An answer that is longer than a route may give is none, rather than half of one.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	const maxAnswer = 1 << 20
	d := &fakeAPI{t: t, answer: strings.Repeat("x", maxAnswer+1)}
	call := func() (*selfapi.Response, error) {
		return module(d)["readDocument"].Handle(t.Context(), &selfapi.Request{MaxAnswer: maxAnswer})
	}
	response, err := call()
	if p, ok := err.(*problem.Problem); !ok || p.Code != problem.BadGateway { //nolint:errorlint // it is told as it stands
		t.Errorf("answer %v, error %v; want BAD_GATEWAY", response, err)
	}
	d.answer = d.answer[1:]
	if response, err = call(); err != nil || len(response.Body) != maxAnswer {
		t.Errorf("an answer of the greatest length: %v", err)
	}
}

// A caller sees an operation when the key has the scope for it.
func TestPermits(t *testing.T) {
	t.Parallel()
	functions := module(&fakeAPI{t: t})
	read, write := domain.ScopeEventsRead, domain.ScopeEventsWrite
	for _, c := range []struct {
		export string
		caller *apikey.Principal
		want   bool
	}{
		{"getThing", holder(read), true},
		{"getThing", holder(write, domain.ScopeMCP), false},
		{"getThing", holder(domain.ScopeAdmin), true},
		{"getThing", nil, false},
		{"listParts", holder(write), true},
		{"listParts", holder(domain.ScopeWebhooksRead), true},
		{"listParts", holder(read), false},
		{"listParts", nil, false},
		{"readDocument", nil, true},
		{selfapi.ExportAsk, holder(domain.ScopeMCP), false},
		{selfapi.ExportAsk, holder(read, domain.ScopeWebhooksRead), true},
	} {
		if got := functions[c.export].Permits(c.caller); got != c.want {
			t.Errorf("%s permits %+v: %v", c.export, c.caller, got)
		}
	}
}

// The guide that the binary has is the one in the documentation.
func TestGuide(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../../../../docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	response, err := module(&fakeAPI{t: t})[selfapi.ExportGuide].Handle(context.Background(), &selfapi.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(response.Body, want) {
		t.Error("the guide is not docs/receivers.md")
	}
}
