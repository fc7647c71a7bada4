package apipart_test

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/services/api"
	"waybill.dev/services/gateway"
)

const greetings = `{"openapi":"3.1.0","info":{"title":"Greetings","version":"1"},"paths":{"/greetings/{name}":{"get":{
	"operationId":"greet","x-gateway-route":{"handler":{"module":"$import(./modules/greetings)","export":"greet"}},
	"responses":{"200":{"description":"A greeting."}}}}}}`

func routesDir(t *testing.T, document string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "greetings.oas.json"), []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func greet(_ context.Context, r *gateway.Request) (any, error) {
	return map[string]string{"hello": r.Params["name"]}, nil
}

// A program serves routes of its own beside Waybill's, answered by its own functions.
func TestRoutesOfProgram(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.routes = func(o *gateway.RoutesOptions) {
		o.Dir = routesDir(t, greetings)
		o.Modules = map[string]map[string]gateway.Handler{"greetings": {"greet": gateway.Function(greet)}}
	}
	r.start()
	get := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := get("/greetings/w%C3%B6rld"); status != http.StatusOK || body != `{"hello":"wörld"}` {
		t.Errorf("its own route: %d %s", status, body)
	}
	if status, _ := get("/healthz"); status != http.StatusOK {
		t.Errorf("Waybill's own route: %d", status)
	}
	if status, body := get("/mcp"); status != http.StatusNotFound {
		t.Errorf("a route that is shipped, though there is a folder: %d %s", status, body)
	}
}

// Without a folder, the routes that Waybill comes with are served.
func TestShippedRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	ask := func(tweaks ...tweak) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"resources/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, tweak := range tweaks {
			tweak(request)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := ask(); status != http.StatusUnauthorized || !strings.Contains(body, "UNAUTHENTICATED") {
		t.Errorf("without a key: %d %s", status, body)
	}
	if status, body := ask(header("Authorization", "Bearer "+adminKey)); status != http.StatusOK || !strings.Contains(body, `"uri":"waybill://openapi"`) {
		t.Errorf("with a key: %d %s", status, body)
	}
}

// What can't be served refuses the start, and the check says the same.
func TestRoutesRefused(t *testing.T) {
	t.Parallel()
	own := strings.ReplaceAll(greetings, "/greetings/{name}", "/v1/deliveries/{name}")
	hello := map[string]gateway.Handler{"greet": gateway.Function(greet)}
	modules := map[string]map[string]gateway.Handler{"greetings": hello, "waybill": hello}
	for name, tc := range map[string]struct {
		options gateway.RoutesOptions
		want    string
	}{
		"missing folder":     {gateway.RoutesOptions{Dir: filepath.Join(t.TempDir(), "missing"), Modules: modules}, "missing"},
		"own path":           {gateway.RoutesOptions{Dir: routesDir(t, own), Modules: modules}, "greetings.oas.json: greet: /paths/~1v1~1deliveries~1{name}/get/x-gateway-route: Waybill itself serves this path, as /v1/deliveries/{id}"},
		"unknown module":     {gateway.RoutesOptions{Dir: routesDir(t, greetings)}, "greetings.oas.json: greet: /paths/~1greetings~1{name}/get/x-gateway-route: no handler greet of a module greetings is registered"},
		"Waybill's own name": {gateway.RoutesOptions{Dir: routesDir(t, strings.ReplaceAll(greetings, "modules/greetings", "modules/waybill")), Modules: modules}, "no handler greet of a module waybill"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, faults, err := apipart.CheckRoutes(tc.options)
			var said strings.Builder
			for _, fault := range faults {
				said.WriteString(fault.Error())
			}
			if err != nil {
				said.WriteString(err.Error())
			}
			if len(routes) > 0 || !strings.Contains(said.String(), tc.want) {
				t.Errorf("CheckRoutes: %v, %s; want %s", routes, &said, tc.want)
			}
			r := prepareRig(t, sqliteURL(t))
			r.routes = func(o *gateway.RoutesOptions) { o.Dir, o.Modules = tc.options.Dir, tc.options.Modules }
			if _, _, err := r.compose(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Compose: %v; want %s", err, tc.want)
			}
		})
	}
	if routes, faults, err := apipart.CheckRoutes(gateway.RoutesOptions{Dir: routesDir(t, greetings), Modules: modules}); err != nil || len(faults) > 0 || len(routes) != 1 {
		t.Errorf("good routes: %v %v %v", routes, faults, err)
	}
}

// Waybill's own paths stay its own, in every method, and logs and metrics name the routes
// behind them as the route file writes them.
func TestOwnPathsFirst(t *testing.T) {
	t.Parallel()
	operation := func(id string) string {
		return `{"operationId":"` + id + `","responses":{"200":{"description":"It."}},"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)",` +
			`"export":"staticHandler","options":{"body":"` + id + `"}}}}`
	}
	r := prepareRig(t, sqliteURL(t))
	r.routes = func(o *gateway.RoutesOptions) {
		o.Dir = routesDir(t, `{"openapi":"3.1.0","info":{"title":"Any","version":"1"},"paths":{"/{anything}":{"get":`+operation("caught")+`},"/v1/{anything}":{"post":`+operation("posted")+`}}}`)
	}
	r.start()
	nobody := without("Authorization")
	for _, row := range []struct {
		method, path string
		status       int
		body         string
	}{
		{http.MethodGet, "/canary", 200, "caught"},
		{http.MethodPost, "/canary", 405, "METHOD_NOT_ALLOWED"},
		{http.MethodGet, "/nowhere/canary", 404, "NOT_FOUND"},
		{http.MethodGet, "/v1/webhooks", 401, "UNAUTHENTICATED"},
		{http.MethodPut, "/v1/webhooks", 405, "METHOD_NOT_ALLOWED"},
		{http.MethodPost, "/v1/free", 200, "posted"},
	} {
		if a := r.send(row.method, row.path, "", nobody); a.status != row.status || !strings.Contains(string(a.body), row.body) || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: %d %s, want %d %s", row.method, row.path, a.status, a.body, row.status, row.body)
		}
	}
	for sample, want := range map[string]float64{
		`class:"2xx" method:"GET" route:"/{anything}"`: 1, `class:"4xx" method:"POST" route:"/{anything}"`: 1, `class:"4xx" method:"GET" route:"none"`: 1,
	} {
		if got := r.counted("waybill_http_requests_total", sample); got != want {
			t.Errorf("%s: %v, want %v", sample, got, want)
		}
	}
	if strings.Contains(r.logs.String(), "canary") && strings.Contains(strings.ReplaceAll(r.logs.String(), adminKey, ""), "canary") {
		t.Errorf("a path is logged: %s", r.logs)
	}
}

// counted returns a counter of the metrics; labels are written as name:"value", by name.
func (r *rig) counted(name, labels string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var written []string
			for _, label := range metric.GetLabel() {
				written = append(written, label.GetName()+`:"`+label.GetValue()+`"`)
			}
			if family.GetName() == name && strings.Join(written, " ") == labels {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// What a trusted proxy says of the client holds for what is done by MCP, too.
func TestForwardedOverMCP(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.api = func(o *api.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	r.start()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"register_webhook","arguments":` +
		`{"url":"http://127.0.0.1:9/inside","events":["shipment.created"]}}}`
	answer := r.send(http.MethodPost, "/mcp", message, header("X-Forwarded-For", "203.0.113.7"), header("Accept", "application/json, text/event-stream"), header("Host", "localhost"))
	if answer.status != http.StatusOK || strings.Contains(string(answer.body), `"isError":true`) {
		t.Errorf("a change by MCP: %d %s", answer.status, answer.body)
	}
	entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "").want(http.StatusOK).items("data")
	if len(entries) != 1 {
		t.Fatalf("%d entries", len(entries))
	}
	if seen, _ := entries[0]["context"].(map[string]any); seen["ipAddress"] != "203.0.113.7" {
		t.Errorf("%v by %v", entries[0]["action"], seen["ipAddress"])
	}
}
