package dispatcher_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
)

var errNotYet = errors.New("not yet")

// gauge returns the value of a metric with the values of labels given.
func gauge(t *testing.T, from prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if slices.Equal(values, labels) {
				return metric.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func keyring(t *testing.T, text string) *seal.Keyring {
	t.Helper()
	keys, err := seal.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A webhook that was stored under an encryption key that is not there any more is set
// aside, until the key is given back.
func TestAWebhookUnderAnotherKeyHoldsUpNoOther(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		lost, present := seal.Generate(), b.store
		s, well := newSink(t, nil), newSink(t, nil)
		b.store = b.openUnder(b.url, keyring(t, lost))
		w := b.webhook(s.URL)
		b.store = present
		registry := prometheus.NewRegistry()
		stop := b.dispatch(func(o *dispatcher.Options) { o.Metrics = registry })
		other := b.webhook(well.URL) // it is read after the one that can't be
		b.accept(20)
		b.deliveries(other.ID, domain.StatusDelivered, 20)
		for _, d := range b.deliveries(w.ID, domain.StatusHeld, 20) {
			if d.Reason != domain.ReasonUnreadable {
				t.Errorf("reason %q", d.Reason)
			}
		}
		if got := gauge(t, registry, "waybill_webhooks_unreadable"); got != 1 {
			t.Errorf("%g webhooks can't be read, want 1", got)
		}
		stop()
		if calls, _ := s.seen(); len(calls) != 0 {
			t.Errorf("%d POSTs that nobody can have signed", len(calls))
		}
		b.store = b.openUnder(b.url, keyring(t, b.key+","+lost))
		b.dispatch()
		b.deliveries(w.ID, domain.StatusDelivered, 20)
		calls, ids := s.seen()
		verify(t, w.Secret, calls)
		if len(ids) != 20 {
			t.Errorf("%d of 20 events arrived", len(ids))
		}
	})
}

// wire is a way to a database that can be cut.
type wire struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newWire returns a way to the database at address, and the address at its other end.
func newWire(t *testing.T, address string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: u.Host, open: make(map[net.Conn]struct{})}
	if w.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = w.listener.Addr().String()
	w.running.Go(func() {
		for {
			conn, err := w.listener.Accept()
			if err != nil {
				return
			}
			w.running.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = w.listener.Close()
		w.set(true)
		w.running.Wait()
	})
	return w, u.String()
}

func (w *wire) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	cut := w.cut
	w.open[near], w.open[far] = struct{}{}, struct{}{}
	w.mu.Unlock()
	if cut {
		return
	}
	w.running.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
	_, _ = io.Copy(near, far)
}

// set cuts the wire or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for conn := range w.open {
		_ = conn.Close()
	}
	clear(w.open)
}

// A retry, a test or a replay of a webhook that a dispatcher has not heard of, because the
// database is away from it, waits; for how long must not matter.
func TestAWebhookIsNotTakenAsDeletedWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	address, err := cluster.CreateDatabase(t.Context(), "wire"+time.Now().Format("150405"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, address)
	s := newSink(t, nil)
	line, through := newWire(t, address)
	registry := prometheus.NewRegistry()
	b.dispatch(func(o *dispatcher.Options) { o.Store, o.Metrics = b.openUnder(through, b.keys).Store, registry })
	line.set(true)
	w := b.webhook(s.URL)
	now := time.Now()
	for _, id := range []domain.WebhookID{w.ID, "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001"} { // there is no such one as the last
		key := domain.EventKey{Account: domain.DefaultAccount, ID: "evt_1", ReceivedAt: now}
		task := domain.Task{
			Delivery: domain.NewDeliveryID(key, id), Account: key.Account, Webhook: id, EventID: key.ID, EventType: domain.ShipmentCreated,
			ReceivedAt: now, Attempts: 1, RunAttempts: 1, RunStartedAt: now, Rev: 2, Body: payload,
		}
		if err := bustest.Schedule(t.Context(), b.bus, &task, now); err != nil {
			t.Fatal(err)
		}
		if err := bustest.Hold(t.Context(), b.bus, &task); err != nil { // and another copy, in its hold queue
			t.Fatal(err)
		}
	}
	deadline := time.After(18 * time.Second) // some time ago it was taken as deleted after 15
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for waiting := true; waiting; {
		select {
		case <-deadline:
			waiting = false
		case <-ticker.C:
			backlog, err := b.backlog()
			if err != nil || backlog.Held != 2 || backlog.Scheduled != 2 || backlog.Records != 0 {
				t.Fatalf("without the database something was decided: %+v, %v", backlog, err)
			}
		}
	}
	line.set(false)
	b.eventually(func() error {
		calls, ids := s.seen()
		if len(ids) != 1 || len(calls) == 0 {
			return errNotYet
		}
		return nil
	})
	b.deliveries(w.ID, domain.StatusDelivered, 1)
	b.eventually(func() error { // what is due to no webhook ends
		backlog, err := b.backlog()
		if err != nil || backlog.Held != 0 || backlog.Scheduled != 0 {
			return errNotYet
		}
		return nil
	})
}
