package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"waybill.dev/services/gateway"
)

// away is a store and a bus that can't be reached.
type away struct{ err error }

func (a away) Ping(context.Context) error { return a.err }
func (a away) Ready() error               { return a.err }

// A gateway process tells its health, and knows nothing else. It stays ready while store
// and bus are away.
func TestOwnPaths(t *testing.T) {
	t.Parallel()
	gone := away{errors.New("canary of an address")}
	for _, row := range []struct {
		o            gateway.Options
		method, path string
		status       int
		want         map[string]any // members of the answer
	}{
		{gateway.Options{Store: away{}, Bus: away{}}, "GET", "/healthz", 200, map[string]any{"status": "alive", "store": "up", "bus": "up"}},
		{gateway.Options{Store: away{}, Bus: away{}}, "GET", "/readyz", 200, map[string]any{"status": "ready", "store": "up", "bus": "up"}},
		{gateway.Options{Store: gone, Bus: away{}}, "GET", "/readyz", 200, map[string]any{"status": "ready", "store": "down", "bus": "up"}},
		{gateway.Options{Store: gone, Bus: gone}, "GET", "/healthz", 200, map[string]any{"status": "alive", "store": "down", "bus": "down"}},
		{gateway.Options{Store: away{}, Bus: away{}}, "HEAD", "/readyz", 200, nil},
		{gateway.Options{Store: away{}, Bus: away{}}, "POST", "/readyz", 405, map[string]any{"code": "METHOD_NOT_ALLOWED", "status": 405.}},
		{gateway.Options{Store: away{}, Bus: away{}}, "GET", "/", 404, map[string]any{"code": "NOT_FOUND", "status": 404., "instance": "/"}},
		{gateway.Options{Store: away{}, Bus: away{}}, "GET", "/v1/webhooks", 404, map[string]any{"code": "NOT_FOUND", "requestId": "mine"}},
		{gateway.Options{Store: away{}, Bus: away{}}, "DELETE", "/healthz/x", 404, map[string]any{"code": "NOT_FOUND"}},
	} {
		r := httptest.NewRequest(row.method, row.path, http.NoBody)
		r.Header.Set("X-Request-Id", "mine")
		w := httptest.NewRecorder()
		gateway.NewHandler(row.o).ServeHTTP(w, r)
		if w.Code != row.status || w.Header().Get("X-Request-Id") != "mine" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %d %v, want %d", row.method, row.path, w.Code, w.Header(), row.status)
		}
		if row.status == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("Allow is %q", w.Header().Get("Allow"))
		}
		media := "application/problem+json"
		if row.status == http.StatusOK {
			media = "application/json; charset=utf-8"
		}
		if got := w.Header().Get("Content-Type"); got != media {
			t.Errorf("%s %s: %s", row.method, row.path, got)
		}
		if row.want == nil {
			if w.Body.Len() > 0 {
				t.Errorf("%s %s has a body", row.method, row.path)
			}
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s %s: %v: %s", row.method, row.path, err, w.Body)
		}
		for name, want := range row.want {
			if got[name] != want {
				t.Errorf("%s %s: %s is %v, want %v", row.method, row.path, name, got[name], want)
			}
		}
	}
}

// A site comes before the health of the process.
func TestByHost(t *testing.T) {
	t.Parallel()
	site := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := gateway.ByHost(map[string]http.Handler{"shop.example": site}, gateway.NewHandler(gateway.Options{Store: away{}, Bus: away{}}))
	for host, want := range map[string]int{"shop.example:8082": http.StatusTeapot, "localhost": http.StatusOK} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}
