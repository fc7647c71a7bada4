package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("PEBBLE_VA_NOSLEEP", "1") // the authority of tests looks at once
	os.Exit(storetest.Main(m, goleak.IgnoreAnyFunction("github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks")))
}

// page is a page of a list that has everything.
var page = store.Page{Limit: 100}

// rig is a gateway on a database and a bus of its own.
type rig struct {
	t       testing.TB
	db      *store.Store
	keys    *seal.Keyring
	nats    *bustest.Server
	bus     *bus.Bus
	service *gateway.Service
	handler http.Handler
	logs    *gatewaytest.Logs
}

// newRig makes a gateway on SQLite. What differs between the databases is tested with newRigOn.
func newRig(t testing.TB, change func(*gateway.Options)) *rig {
	t.Helper()
	return newRigOn(t, storetest.SQLite(), change)
}

func newRigOn(t testing.TB, kind storetest.Kind, change func(*gateway.Options)) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, keys: keys, nats: bustest.Start(t), logs: &gatewaytest.Logs{}}
	r.db = kind.Fresh(t).Open(t, store.Options{Keys: keys})
	if r.bus, err = bus.Connect(bus.Options{URL: r.nats.URL(), Name: "gateway", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.bus.Close)
	options := gateway.Options{
		Store: r.db, Bus: r.bus, Keyring: keys, Egress: &egress.Policy{}, Own: r.bus.Addresses,
		Logger: slog.New(slog.NewJSONHandler(r.logs, nil)), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&options)
	}
	if r.service, err = gateway.New(options); err != nil {
		t.Fatal(err)
	}
	r.handler = r.service.Handler(nil)
	return r
}

// run runs the gateway until the test ends.
func (r *rig) run() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.service.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	gatewaytest.Within(r.t, 20*time.Second, "ready", func() bool { return r.ask("GET", "localhost", "/readyz").Code == http.StatusOK })
}

func (r *rig) ask(method, host, path string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, http.NoBody)
	request.Host = host
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request)
	return w
}

// A gateway process tells its health, and knows nothing else. It is ready once it knows what is
// deployed, and stays so while store and bus are away.
func TestOwnPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	check := func(method, path string, status int, want map[string]any) {
		t.Helper()
		w := r.ask(method, "localhost", path, "X-Request-Id", "mine")
		if w.Code != status || w.Header().Get("X-Request-Id") != "mine" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %d %v, want %d", method, path, w.Code, w.Header(), status)
		}
		if status == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("Allow is %q", w.Header().Get("Allow"))
		}
		if want == nil {
			if w.Body.Len() > 0 {
				t.Errorf("%s %s has a body", method, path)
			}
			return
		}
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
		for name, want := range want {
			if got[name] != want {
				t.Errorf("%s %s: %s is %v, want %v", method, path, name, got[name], want)
			}
		}
	}
	check("GET", "/healthz", 200, map[string]any{"status": "alive", "store": "up", "bus": "up"})
	check("GET", "/readyz", 503, map[string]any{"status": "starting", "store": "up", "bus": "up"})
	r.run()
	check("GET", "/readyz", 200, map[string]any{"status": "ready", "store": "up", "bus": "up"})
	check("HEAD", "/readyz", 200, nil)
	check("POST", "/readyz", 405, map[string]any{"code": "METHOD_NOT_ALLOWED", "status": 405.})
	check("GET", "/", 404, map[string]any{"code": "NOT_FOUND", "status": 404., "instance": "/"})
	check("GET", "/v1/webhooks", 404, map[string]any{"code": "NOT_FOUND", "requestId": "mine"})
	check("DELETE", "/healthz/x", 404, map[string]any{"code": "NOT_FOUND"})
	r.nats.Stop()
	gatewaytest.Within(t, 20*time.Second, "the bus is missed", func() bool { return r.bus.Ready() != nil })
	check("GET", "/readyz", 200, map[string]any{"status": "ready", "store": "up", "bus": "down"})
	if err := r.db.Close(); err != nil {
		t.Fatal(err)
	}
	check("GET", "/readyz", 200, map[string]any{"status": "ready", "store": "down", "bus": "down"})
}
