package api_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/kernel/relay"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
)

// While the bus is away REST goes on; what it accepted goes out when the bus is back.
func TestBusIsDown(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.nats.Stop()
		hook := r.register(plainWebhook).text("id")
		for i := range 5 {
			r.publish(event(fmt.Sprint("e", i))) // the bus is not waited for: it comes back below
		}
		test := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(202).text("deliveryId")
		r.nats.Start()
		defer func() {
			if t.Failed() {
				t.Log(r.logs.String(), len(r.messages(bus.StreamEvents)))
			}
		}()
		eventually(t, "the events are on the bus", func() bool { return len(r.messages(bus.StreamEvents)) == 5 })
		eventually(t, "the test is due", func() bool { return r.due()[domain.DeliveryID(test)] != nil })
	})
}

// The bus is lost with all that it held: it comes back from the database.
func TestBusIsLost(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		for _, name := range []string{"open", "wait", "hold", "done"} {
			r.publish(event(name))
		}
		eventually(t, "the events are on the bus", func() bool { return len(r.messages(bus.StreamEvents)) == 4 })
		eventually(t, "the streams are on record", func() bool {
			known, err := r.store.BusStreams(t.Context())
			return err == nil && len(known) == 5
		})
		waiting := r.deliver(hook, "wait", domain.StatusRetrying, "")
		held := r.deliver(hook, "hold", domain.StatusHeld, domain.ReasonInactive)
		r.deliver(hook, "done", domain.StatusDelivered, "")
		r.nats.Wipe()

		eventually(t, "the unsettled event is on the bus again", func() bool {
			messages := r.messages(bus.StreamEvents)
			return len(messages) == 1 && strings.Contains(string(messages[0].Data), `"open"`)
		})
		eventually(t, "the schedule is back", func() bool {
			for _, m := range r.messages(bus.StreamRetries) {
				if strings.HasSuffix(m.Subject, "."+string(waiting)) && strings.HasPrefix(m.Subject, "r.") {
					return true
				}
			}
			return false
		})
		eventually(t, "the hold queue is back", func() bool {
			for _, m := range r.messages(bus.StreamHold) {
				if task, err := bus.ParseTask(m.Header, m.Data); err == nil && task.Delivery == held && !task.HeldAt.IsZero() {
					return true
				}
			}
			return false
		})
		eventually(t, "the new streams are on record", func() bool {
			states, err1 := relay.Surveyed{Bus: r.bus}.Streams(t.Context())
			known, err2 := r.store.BusStreams(t.Context())
			for name, state := range states {
				if !state.Created.Equal(known[name].Created) {
					return false
				}
			}
			return err1 == nil && err2 == nil
		})
		for stream, want := range map[string]int{bus.StreamEvents: 1, bus.StreamRetries: 1, bus.StreamHold: 1} {
			if got := len(r.messages(stream)); got != want {
				t.Errorf("%s holds %d messages, want %d", stream, got, want)
			}
		}
	})
}

// While the database is away callers are told so within two seconds, and the service
// recovers by itself.
func TestDatabaseIsDown(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), "", "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	r := newRig(t, cluster.URL("postgres"))
	r.publish(event("before"))
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/v1/events", event("during")},
		{"POST", "/v1/webhooks", plainWebhook},
		{"GET", "/v1/webhooks", ""}, {"GET", "/v1/events", ""}, {"GET", "/v1/deliveries", ""},
		{"GET", "/readyz", ""},
	} {
		a := r.do(call.method, call.path, call.body).want(http.StatusServiceUnavailable)
		if code := a.text("code"); code != "UNAVAILABLE" {
			t.Errorf("%s: code %q", a.call, code)
		}
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After: %v", a.call, a.header)
		}
	}
	if got := r.do(http.MethodGet, "/readyz", "").object(); got["store"] != "down" {
		t.Errorf("readyz tells %v", got)
	}
	if got := r.do(http.MethodGet, "/healthz", "").want(200).object(); got["store"] != "down" {
		t.Errorf("healthz tells %v", got)
	}
	if err := cluster.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is ready again", func() bool { return r.do(http.MethodGet, "/readyz", "").status == 200 })
	if got := r.publish(event("before")).String(); got != "before true" {
		t.Errorf("repeated: %s", got)
	}
	hook := r.register(plainWebhook).text("id")
	id := domain.DeliveryID(r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(202).text("deliveryId"))
	eventually(t, "the relay leads again", func() bool { return r.due()[id] != nil })
}

// Two processes share the work: one relays, and the other takes over.
func TestRelayTakesOver(t *testing.T) {
	t.Parallel()
	first := newRig(t, shared.Postgres(t))
	second := &rig{t: t, nats: first.nats, keys: first.keys, database: first.database, logs: &logBuffer{}, refused: first.refused}
	leads := func(r *rig) bool { return r.gauge("waybill_relay_leader") == 1 }
	eventually(t, "the first leads", func() bool { return leads(first) })
	second.start()
	hook := second.register(plainWebhook).text("id")
	ask := func(r *rig) {
		t.Helper()
		id := domain.DeliveryID(r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(202).text("deliveryId"))
		eventually(t, "the test is due", func() bool { return r.due()[id] != nil })
	}
	ask(second) // by the first, which hears of it over the bus
	if leads(second) {
		t.Error("two relays lead")
	}
	first.stop()
	eventually(t, "the second leads", func() bool { return leads(second) })
	ask(second)
}

// A service on a database without its tables is alive, and not ready.
func TestMigrationsPending(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, "sqlite:"+filepath.Join(t.TempDir(), "waybill.db"))
	r.unready = true
	r.start()
	a := r.do(http.MethodGet, "/readyz", "").want(503)
	if !strings.Contains(a.text("detail"), "waybill migrate up") || a.text("store") != "migrations pending" {
		t.Errorf("readyz tells %s", a.body)
	}
	r.do(http.MethodGet, "/healthz", "").want(200)
}

// A bus without room for EVENTS delivers nothing: REST accepts, and readiness, the console, the metric and the
// log tell, with what is needed, until there is room.
func TestBusWithoutRoom(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, "sqlite:"+filepath.Join(t.TempDir(), "waybill.db"))
	r.nats.Within(40 << 20)
	r.start()
	tells := func(want string) func() bool {
		return func() bool { return r.do(http.MethodGet, "/readyz", "").want(200).text("bus") == want }
	}
	eventually(t, "readyz tells of it", tells("no room"))
	if missing := r.do(http.MethodGet, "/readyz", "").text("missing"); !strings.Contains(missing, "EVENTS needs 64 MiB") {
		t.Errorf("readyz tells %q", missing)
	}
	eventually(t, "the log tells of it", func() bool { return strings.Contains(r.logs.String(), "EVENTS needs 64 MiB") })
	if got := r.gauge("waybill_bus_missing_bytes"); got != 64<<20 {
		t.Errorf("the metric tells %v", got)
	}
	r.publish(event("meanwhile"))
	r.nats.Within(100 << 20)
	eventually(t, "there is room", tells("up"))
	if got := r.gauge("waybill_bus_missing_bytes"); got != 0 {
		t.Errorf("the metric tells %v", got)
	}
	eventually(t, "the event is published", func() bool { return len(r.messages(bus.StreamEvents)) == 1 })
}
