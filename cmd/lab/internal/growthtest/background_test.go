package growthtest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/services/api"
	"waybill.dev/services/dispatcher"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/traffic"
)

// lives is how long the services run: everything that they do again and again is done within
// ten seconds, and what they do less often at their start, too.
const lives = 13 * time.Second

// What the services do by themselves, and for an event on its way, takes as much for each statement on
// the large database as on the small one. Nothing is listed here: what runs is what is compared. This test comes before
// those that leave work behind.
func TestServices(t *testing.T) {
	each(t, func(t *testing.T, dialect string, p *trio) {
		t.Parallel()
		var did [2]statements
		var both sync.WaitGroup
		for i, d := range []*database{&p.small, &p.large} {
			both.Go(func() { did[i] = live(t, d) })
		}
		both.Wait()
		w := newWatch(t, dialect)
		w.compareEach("services", did[0], did[1])
		w.end()
	})
}

// live runs all services on a database, publishes some events one after the other, and returns what
// was done.
func live(t *testing.T, d *database) statements {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived := make(chan struct{}, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} }))
	defer receiver.Close()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Error(err)
	}
	db, err := store.Open(ctx, store.Options{URL: d.url, Keys: plain{}, MaxConns: 8})
	if err != nil {
		t.Error(err)
	}
	defer db.Close()
	if _, err := db.Migrate(ctx); err != nil {
		t.Error(err)
	}
	writing, _ := db.Handles()
	if _, err := writing.ExecContext(ctx, "UPDATE webhooks SET url = '"+receiver.URL+"' WHERE id = '"+webhook+"'"); err != nil {
		t.Error(err)
	}
	if _, err := d.take(ctx); err != nil {
		t.Error(err)
	}
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Connect(bus.Options{URL: bustest.Start(t).URL(), Name: "all", Logger: log, MACKeys: keys.Derive("waybill event acceptance")})
	if err != nil {
		t.Error(err)
	}
	defer b.Close()
	registry := prometheus.NewRegistry()
	policy := &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	counts := gateway.NewTraffic(gateway.TrafficOptions{Store: traffic.New(db), Rate: 200, Logger: log, Registerer: registry})
	service, routes, err := apipart.Compose(
		api.Options{Store: db, Bus: b, Logger: log, AdminKey: adminKey, Keyring: keys, Egress: policy, Registerer: registry, Resolver: noDomains{}},
		gateway.RoutesOptions{Egress: policy, Logger: log, Registerer: registry, Traffic: counts})
	if err != nil {
		t.Error(err)
		return nil
	}
	sends, err := dispatcher.New(dispatcher.Options{Store: db, Bus: b, Egress: policy, Logger: log, Metrics: registry})
	if err != nil {
		t.Error(err)
		return nil
	}
	serves, err := gateway.New(gateway.Options{Store: db, Bus: b, Keyring: keys, Egress: policy, Traffic: counts, Logger: log, Registerer: registry})
	if err != nil {
		t.Error(err)
		return nil
	}
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{service.Run, sends.Run, serves.Run, routes.Run, counts.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	ended := time.After(lives)
	publish(t, service.Handler(), arrived)
	<-ended
	did, err := d.take(ctx)
	if err != nil {
		t.Error(err)
	}
	cancel()
	running.Wait()
	return did
}

// publish publishes events one after the other, and waits until each has arrived.
func publish(t *testing.T, handler http.Handler, arrived <-chan struct{}) {
	deadline := time.After(time.Minute)
	for i := range 10 {
		for {
			body := fmt.Sprintf(`{"id":"evt_new_%d","type":"shipment.delivered","timestamp":"2026-01-02T03:04:05Z","data":{"shipmentId":"shp-1"}}`, i)
			if status := post(handler, body); status == http.StatusAccepted || status == http.StatusOK {
				break
			}
			select {
			case <-deadline:
				t.Error("no event is taken")
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Error("an event did not arrive")
			return
		}
	}
}

func post(handler http.Handler, body string) int {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/events", strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+adminKey)
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Code
}

// noDomains is a DNS that nothing is in.
type noDomains struct{}

func (noDomains) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	return nil, cmp.Or(ctx.Err(), errNoDomains)
}

var errNoDomains error = &net.DNSError{Err: "no such host", IsNotFound: true}
