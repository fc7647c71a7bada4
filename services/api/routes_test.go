package api_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "waybill.dev/services/api"
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

func greet(_ context.Context, r *api.RouteRequest) (any, error) {
	return map[string]string{"hello": r.Params["name"]}, nil
}

// A program serves routes of its own beside Waybill's, answered by its own functions.
func TestRoutesOfProgram(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.RoutesDir = routesDir(t, greetings)
		o.Modules = map[string]map[string]api.RouteFunc{"greetings": {"greet": greet}}
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
	modules := map[string]map[string]api.RouteFunc{"greetings": {"greet": greet}, "waybill": {"greet": greet}}
	for name, tc := range map[string]struct {
		options api.Options
		want    string
	}{
		"missing folder":     {api.Options{RoutesDir: filepath.Join(t.TempDir(), "missing"), Modules: modules}, "missing"},
		"own path":           {api.Options{RoutesDir: routesDir(t, own), Modules: modules}, "greetings.oas.json: greet: Waybill itself serves this path, as /v1/deliveries/{id}"},
		"unknown module":     {api.Options{RoutesDir: routesDir(t, greetings)}, "greetings.oas.json: greet: no handler greet of a module greetings is registered"},
		"Waybill's own name": {api.Options{RoutesDir: routesDir(t, strings.ReplaceAll(greetings, "modules/greetings", "modules/waybill")), Modules: modules}, "no handler greet of a module waybill"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, faults, err := api.CheckRoutes(tc.options)
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
			r.open()
			o := r.apiOptions(slog.New(slog.DiscardHandler))
			o.RoutesDir, o.Modules = tc.options.RoutesDir, tc.options.Modules
			if _, err := api.New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New: %v; want %s", err, tc.want)
			}
		})
	}
	if routes, faults, err := api.CheckRoutes(api.Options{RoutesDir: routesDir(t, greetings), Modules: modules}); err != nil || len(faults) > 0 || len(routes) != 1 {
		t.Errorf("good routes: %v %v %v", routes, faults, err)
	}
}
