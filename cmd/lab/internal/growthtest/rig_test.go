package growthtest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/services/api"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

const adminKey = "admin-key-0123456789-abcdefghijkl"

// rig is an API on one of the databases. Nothing runs in it by itself.
type rig struct {
	*database
	service    *api.Service
	deliveries deliveryIDs
	cookie     string // of a session of the console
}

func newRig(t *testing.T, d *database) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{URL: d.url, Keys: plain{}, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Connect(bus.Options{URL: bustest.Start(t).URL(), Name: "api", Logger: log, MACKeys: keys.Derive("waybill event acceptance")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	policy := &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	service, _, err := apipart.Compose(
		api.Options{Store: db, Bus: b, Logger: log, AdminKey: adminKey, Keyring: keys, Egress: policy, Registerer: registry},
		gateway.RoutesOptions{Egress: policy, Logger: log, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{database: d, service: service}
	r.deliveries = r.find(t, db)
	r.taken(t)
	return r
}

// find returns the deliveries that the calls are about.
func (r *rig) find(t *testing.T, db *store.Store) (d deliveryIDs) {
	t.Helper()
	_, reading := db.Handles()
	for name, into := range map[string]*string{"evt_00000002": &d.failed, "evt_00000022": &d.again} {
		if err := reading.QueryRowContext(t.Context(), "SELECT id FROM deliveries WHERE account = 'default' AND event_id = '"+name+"'").Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (r *rig) taken(t *testing.T) statements {
	t.Helper()
	s, err := r.take(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer is an answer with the work that was done for it.
type answer struct {
	status int
	body   string
	header http.Header
	did    statements
}

// do calls the service as the admin, and counts.
func (r *rig) do(t *testing.T, method, target, body string, change ...func(*http.Request)) answer {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, bytes.NewReader([]byte(body)))
	request.Header.Set("Authorization", "Bearer "+adminKey)
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(request)
	}
	r.taken(t)
	recorder := httptest.NewRecorder()
	r.service.Handler().ServeHTTP(recorder, request)
	did := r.taken(t)
	text, err := io.ReadAll(recorder.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{recorder.Code, string(text), recorder.Header(), did}
}
