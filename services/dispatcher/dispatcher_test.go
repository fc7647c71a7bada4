package dispatcher_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/transcript"
)

func ok(call) int { return http.StatusOK }

func TestEventsAreDeliveredSignedAndRecorded(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.Headers = []domain.Header{{Name: "X-Own", Value: "hunter2"}} })
		other := b.webhook(s.URL+"/other", func(w *domain.Webhook) { w.Events = []domain.EventType{domain.ShipmentDelivered} })
		b.dispatch()
		ids := b.accept(50)
		b.deliveries(w.ID, domain.StatusDelivered, 50)
		b.deliveries(other.ID, domain.StatusDelivered, 0)
		b.settled()
		calls, got := s.seen()
		slices.Sort(ids)
		slices.Sort(got)
		if !slices.Equal(ids, got) || len(calls) != 50 {
			t.Errorf("%d POSTs of %d events, want 50 of 50", len(calls), len(got))
		}
		verify(t, w.Secret, calls)
		for _, c := range calls {
			if c.attempt != "1" || !bytes.Contains(c.body, []byte(`"data":{"shipmentId":"shp_1","n":0.1000}`)) || c.header.Get("User-Agent") != "Waybill/test" {
				t.Fatalf("attempt %q, %s, body %s", c.attempt, c.header.Get("User-Agent"), c.body)
			}
		}
		d := b.deliveries(w.ID, domain.StatusDelivered, 50)[0]
		_, attempts, err := b.store.GetDelivery(t.Context(), domain.DefaultAccount, d.ID)
		if err != nil || len(attempts) != 1 || attempts[0].Status != http.StatusOK || attempts[0].Number != 1 {
			t.Errorf("attempts %+v, %v", attempts, err)
		}
		for _, c := range calls {
			if c.header.Get("webhook-id") == d.EventID {
				transcribed(t, w, d, attempts[0], c)
			}
		}
	})
}

// transcribed compares what the log has of an attempt with what its receiver got.
func transcribed(t *testing.T, w domain.Webhook, d domain.Delivery, a domain.Attempt, c call) {
	t.Helper()
	out, err := transcript.Decode(a.Transcript, transcript.Of{EventID: d.EventID, Delivery: d.ID, Number: a.Number, StartedAt: a.StartedAt})
	if err != nil {
		t.Fatal(err)
	}
	if out.URL != w.URL || !strings.HasPrefix(w.URL, "http://"+out.Remote.String()) || out.Phases.FirstByte == 0 || out.Phases.FirstByte > a.Duration {
		t.Errorf("transcript %+v of an attempt of %s", out, a.Duration)
	}
	sent := map[string]string{}
	for _, field := range out.Request {
		sent[http.CanonicalHeaderKey(field.Name)] = field.Value
	}
	if sent["Host"] != out.Remote.String() || sent["Content-Length"] != strconv.Itoa(len(c.body)) {
		t.Errorf("sent to %q, %s bytes", sent["Host"], sent["Content-Length"])
	}
	for name, values := range c.header {
		want := values[0]
		if name == "X-Own" {
			want = "" // its name alone
		}
		if got, ok := sent[name]; !ok || got != want {
			t.Errorf("%s: %q is kept, %q was received", name, got, values[0])
		}
	}
	if len(out.Response) == 0 || bytes.Contains(a.Transcript, []byte("hunter2")) {
		t.Errorf("response %+v, transcript %q", out.Response, a.Transcript)
	}
}

func TestFailedAttemptsAreRetriedByTheSchedule(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(c call) int {
			if c.attempt == "3" {
				return http.StatusNoContent
			}
			return http.StatusInternalServerError
		})
		waits := []time.Duration{300 * time.Millisecond, 600 * time.Millisecond}
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.RetrySchedule = waits })
		b.dispatch()
		b.accept(1)
		d := b.deliveries(w.ID, domain.StatusDelivered, 1)[0]
		_, attempts, err := b.store.GetDelivery(t.Context(), domain.DefaultAccount, d.ID)
		if err != nil || len(attempts) != 3 || d.Attempts != 3 {
			t.Fatalf("%d attempts %+v, %v; want 3", d.Attempts, attempts, err)
		}
		calls, _ := s.seen()
		verify(t, w.Secret, calls)
		for i, wait := range waits {
			// 20 % of jitter, and up to 250 ms until the bus fires what is due.
			got := calls[i+1].at.Sub(calls[i].at)
			if got < wait*8/10 || got > wait*12/10+750*time.Millisecond {
				t.Errorf("wait %d: %s, want about %s", i+1, got, wait)
			}
			if !bytes.Equal(calls[i].body, calls[i+1].body) {
				t.Error("the body changed between attempts")
			}
		}
	})
}

func TestExhaustedScheduleIsAFailure(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int { return http.StatusMovedPermanently })
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{50 * time.Millisecond} })
		b.dispatch()
		b.accept(1)
		d := b.deliveries(w.ID, domain.StatusFailed, 1)[0]
		if calls, _ := s.seen(); len(calls) != 2 || d.Reason != domain.ReasonExhausted {
			t.Errorf("%d attempts, reason %q", len(calls), d.Reason)
		}
		b.settled()
	})
}

func TestGoneWebhookHoldsUntilItIsActiveAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int { return http.StatusGone })
		w := b.webhook(s.URL)
		b.dispatch()
		ids := b.accept(1)
		b.deliveries(w.ID, domain.StatusHeld, 1)
		ids = append(ids, b.accept(9)...)
		b.deliveries(w.ID, domain.StatusHeld, 10)
		if calls, _ := s.seen(); len(calls) != 1 {
			t.Errorf("%d POSTs to a webhook that is gone, want 1", len(calls))
		}
		now, health, err := b.store.GetWebhook(t.Context(), domain.DefaultAccount, w.ID)
		if reason, inactive := now.Inactive(health); err != nil || !inactive || reason != domain.DisabledGone {
			t.Fatalf("inactive %t, %q, %v", inactive, reason, err)
		}
		s.set(ok)
		b.update(w.ID, func(w *domain.Webhook) { w.Active = true })
		b.deliveries(w.ID, domain.StatusDelivered, 10)
		calls, _ := s.seen()
		var order []string
		for _, c := range calls[1:] {
			order = append(order, c.id)
		}
		if !slices.Equal(order, ids) {
			t.Errorf("drained as %v, want the order of publication %v", order, ids)
		}
	})
}

func TestInactiveWebhookIsDrainedInOrderOneAtATimeFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.Active = false })
		b.dispatch()
		ids := b.accept(300)
		b.deliveries(w.ID, domain.StatusHeld, 300)
		b.settled()
		b.update(w.ID, func(w *domain.Webhook) { w.Active = true })
		b.deliveries(w.ID, domain.StatusDelivered, 300)
		calls, got := s.seen()
		if len(calls) != 300 || !slices.Equal(got[:100], ids[:100]) {
			t.Errorf("%d POSTs; the first hundred are in order: %t", len(calls), slices.Equal(got[:100], ids[:100]))
		}
	})
}

func TestATestGoesOutWhileTheLaneBeginsToDrain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		free := make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		s := newSink(t, func(c call) int {
			if c.id != "evt_test" {
				<-free
			}
			return http.StatusOK
		})
		t.Cleanup(release)
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.Active, w.Timeout = false, 30*time.Second })
		b.dispatch()
		b.accept(3)
		b.deliveries(w.ID, domain.StatusHeld, 3)
		b.update(w.ID, func(w *domain.Webhook) { w.Active = true })
		came := func(want int) {
			t.Helper()
			b.eventually(func() error {
				if calls, _ := s.seen(); len(calls) != want {
					return fmt.Errorf("%d POSTs, want %d", len(calls), want)
				}
				return nil
			})
		}
		came(1) // the hold queue's first, which takes its time
		test := &domain.Task{
			Account: domain.DefaultAccount, Webhook: w.ID, EventID: "evt_test", EventType: domain.ShipmentCreated,
			ReceivedAt: time.Now().UTC().Truncate(time.Millisecond), Test: true, Body: []byte(`{}`),
		}
		test.Delivery = domain.NewDeliveryID(domain.EventKey{Account: test.Account, ID: test.EventID, ReceivedAt: test.ReceivedAt}, w.ID)
		if err := bustest.Schedule(t.Context(), b.bus, test, time.Now()); err != nil {
			t.Fatalf("schedule the test: %v", err)
		}
		came(2)
		if calls, _ := s.seen(); calls[1].id != "evt_test" {
			t.Errorf("%s came second, want the test", calls[1].id)
		}
		release()
		for _, d := range b.deliveries(w.ID, domain.StatusDelivered, 4) {
			if d.Attempts != 1 {
				t.Errorf("%s took %d attempts: the first was over when the test came", d.EventID, d.Attempts)
			}
		}
	})
}

func TestCapHoldsAndWhatIsTooMuchGoesOutLater(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int {
			<-time.After(20 * time.Millisecond)
			return http.StatusOK
		})
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.MaxInFlight = 2 })
		b.dispatch()
		b.accept(120)
		b.deliveries(w.ID, domain.StatusDelivered, 120)
		b.settled()
		if calls, ids := s.seen(); len(calls) != 120 || len(ids) != 120 || s.most > 2 {
			t.Errorf("%d POSTs of %d events, %d at once; want 120 of 120, at most 2 at once", len(calls), len(ids), s.most)
		}
	})
}

func TestRateIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		rate := 50.0
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.RatePerSecond = &rate })
		b.dispatch()
		b.accept(100)
		b.deliveries(w.ID, domain.StatusDelivered, 100)
		calls, _ := s.seen()
		took := calls[len(calls)-1].at.Sub(calls[0].at)
		if took < 1500*time.Millisecond {
			t.Errorf("100 deliveries within %s at 50/s", took)
		}
	})
}

func TestHangingWebhookDelaysNoOther(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const events = 400
		free := make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		hanging := newSink(t, func(call) int { <-free; return http.StatusOK })
		t.Cleanup(release)
		healthy := newSink(t, nil)
		slow := b.webhook(hanging.URL, func(w *domain.Webhook) {
			w.MaxInFlight, w.Timeout = 4, 30*time.Second
			w.RetrySchedule = []time.Duration{time.Second, time.Second, time.Second}
		})
		fast := b.webhook(healthy.URL)
		b.dispatch()
		for range events / 50 {
			b.accept(50)
		}
		b.deliveries(fast.ID, domain.StatusDelivered, events)
		b.eventually(func() error { // what takes long is seen in the log before its end
			waiting := 0
			for _, d := range b.list(slow.ID) {
				if d.Status == domain.StatusPending || d.Status == domain.StatusRetrying {
					waiting++
				}
			}
			if waiting != events {
				return fmt.Errorf("%d of %d deliveries to the hanging webhook are in the log as waiting", waiting, events)
			}
			return nil
		})
		release()
		b.deliveries(slow.ID, domain.StatusDelivered, events)
		if _, ids := hanging.seen(); len(ids) != events || hanging.most > 4 {
			t.Errorf("%d events came, %d at once", len(ids), hanging.most)
		}
	})
}

func TestAnEventToManyHangingWebhooksReachesTheOtherToo(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		many := 256*runtime.GOMAXPROCS(0) + 50 // more than start at once
		free := make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		hanging := newSink(t, func(call) int { <-free; return http.StatusOK })
		t.Cleanup(release)
		healthy := newSink(t, nil)
		for range many {
			b.webhook(hanging.URL, func(w *domain.Webhook) { w.Timeout = 30 * time.Second })
		}
		fast := b.webhook(healthy.URL)
		b.dispatch()
		b.accept(1)
		b.deliveries(fast.ID, domain.StatusDelivered, 1)
		b.eventually(func() error {
			if calls, _ := hanging.seen(); len(calls) != many {
				return fmt.Errorf("%d of %d hanging webhooks were sent the event", len(calls), many)
			}
			return nil
		})
		release()
		b.settled()
		if calls, _ := hanging.seen(); len(calls) != many {
			t.Errorf("%d attempts for %d deliveries", len(calls), many)
		}
	})
}

func TestOpenCircuitSendsProbesAndDrainsAfterSuccess(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int { return http.StatusServiceUnavailable })
		w := b.webhook(s.URL, func(w *domain.Webhook) {
			w.RetrySchedule = []time.Duration{2 * time.Second, 60 * time.Second, 60 * time.Second}
		})
		b.dispatch()
		total := 0
		opened := func() bool {
			for _, d := range b.list(w.ID) {
				if d.Reason == domain.ReasonCircuitOpen {
					return true
				}
			}
			return false
		}
		for deadline := time.Now().Add(30 * time.Second); !opened() && time.Now().Before(deadline); {
			b.accept(2)
			total += 2
			<-time.After(300 * time.Millisecond)
		}
		if !opened() {
			t.Fatal("the circuit did not open")
		}
		before, _ := s.seen()
		b.accept(20)
		total += 20
		b.eventually(func() error {
			if n := len(b.list(w.ID)); n != total {
				return fmt.Errorf("%d deliveries in the log, want %d", n, total)
			}
			return nil
		})
		s.set(ok)
		b.eventually(func() error {
			waiting := 0
			for _, d := range b.list(w.ID) {
				if d.Reason == domain.ReasonCircuitOpen {
					waiting++
				}
			}
			if waiting > 0 {
				return fmt.Errorf("%d deliveries still wait for the circuit", waiting)
			}
			return nil
		})
		after, _ := s.seen()
		if probe := after[len(before)].at; probe.Sub(before[len(before)-1].at) < 3*time.Second {
			t.Errorf("the first probe came %s after the circuit opened", probe.Sub(before[len(before)-1].at))
		}
	})
}

func TestDeletedWebhookEndsItsDeliveries(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.Active = false })
		b.dispatch()
		b.accept(5)
		b.deliveries(w.ID, domain.StatusHeld, 5)
		if err := b.store.DeleteWebhook(t.Context(), domain.DefaultAccount, w.ID); err != nil {
			t.Fatal(err)
		}
		b.bus.Announce("waybill.config", nil)
		for _, d := range b.deliveries(w.ID, domain.StatusFailed, 5) {
			if d.Reason != domain.ReasonWebhookDeleted {
				t.Errorf("reason %q", d.Reason)
			}
		}
		b.eventually(func() error {
			backlog, err := b.backlog()
			if err != nil {
				return err
			}
			if backlog.Held != 0 {
				return fmt.Errorf("%d deliveries are still held", backlog.Held)
			}
			return nil
		})
		if calls, _ := s.seen(); len(calls) != 0 {
			t.Errorf("%d POSTs to a deleted webhook", len(calls))
		}
	})
}

// A webhook that is deleted is let go of though nothing is on its way to it: nobody closes
// its circuit any more.
func TestADeletedWebhookHasNoOpenCircuit(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		registry := prometheus.NewRegistry()
		b.dispatch(func(o *dispatcher.Options) { o.Metrics = registry })
		w := b.webhook("http://127.0.0.1:9/")
		open := func(want float64) error {
			if got := gauge(t, registry, "waybill_circuits_open"); got != want {
				return fmt.Errorf("%g circuits are open, want %g", got, want)
			}
			return nil
		}
		b.eventually(func() error { // until the dispatcher knows the webhook
			b.bus.Announce(bus.SubjectCircuit, fmt.Appendf(nil, `{"webhook":%q,"open":true}`, w.ID))
			return open(1)
		})
		if err := b.store.DeleteWebhook(t.Context(), domain.DefaultAccount, w.ID); err != nil {
			t.Fatal(err)
		}
		b.bus.Announce(bus.SubjectConfig, nil)
		b.eventually(func() error { return open(0) })
	})
}

// The log of a webhook says what was wrong with a TLS handshake.
func TestTheLogTellsTLSFailuresApart(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		t.Cleanup(s.Close)
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{time.Hour} })
		b.dispatch()
		b.accept(1)
		d := b.deliveries(w.ID, domain.StatusRetrying, 1)[0]
		_, attempts, err := b.store.GetDelivery(t.Context(), domain.DefaultAccount, d.ID)
		if want := "could not be reached: TLS handshake failed: the certificate comes from an unknown authority"; err != nil || len(attempts) != 1 || attempts[0].Error != want {
			t.Errorf("attempts %+v, error %v, want one with %q", attempts, err, want)
		}
		if d.LastClass != domain.ClassTLS || attempts[0].Class != domain.ClassTLS {
			t.Errorf("the attempt's class is %q, of the last one %q", attempts[0].Class, d.LastClass)
		}
	})
}

func TestEventsPublishedStraightToTheBus(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL)
		b.dispatch()
		nc := b.client()
		data := `{"shipmentId":"shp_1","big":9007199254740993,"score":0.1000}`
		messages := []*nats.Msg{
			{Subject: "events.default.shipment.delivered", Data: []byte(`{"id":"plain1","type":"shipment.delivered","data":` + data + `}`)},
			{Subject: "events.default.shipment.created", Data: []byte(`{"type":"shipment.created","data":` + data + `}`), Header: nats.Header{"Nats-Msg-Id": {"byheader"}}},
			{Subject: "events.default.shipment.created", Data: []byte(`{"type":"shipment.created","data":` + data + `}`)},
			{Subject: "events.default.shipment.in_transit", Data: []byte(data), Header: nats.Header{
				"ce-specversion": {"1.0"}, "ce-id": {"cloud1"}, "ce-source": {"/wms"}, "ce-type": {"shipment.in_transit"}, "content-type": {"application/json"}}},
			// and what is no event
			{Subject: "events.default.shipment.created", Data: []byte(`not json`)},
			{Subject: "events.default.shipment.created", Data: []byte(`{"type":"shipment.delivered","data":` + data + `}`)},
			{Subject: "events.default.shipment.lost", Data: []byte(`{"type":"shipment.lost","data":` + data + `}`)},
			{Subject: "events.default.shipment.created", Data: []byte(`{"id":"a","type":"shipment.created","data":` + data + `}`), Header: nats.Header{"Nats-Msg-Id": {"b"}}},
		}
		for _, m := range messages {
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		b.deliveries(w.ID, domain.StatusDelivered, 4)
		calls, ids := s.seen()
		verify(t, w.Secret, calls)
		for _, want := range []string{"plain1", "byheader", "cloud1"} {
			if !slices.Contains(ids, want) {
				t.Errorf("event %s did not come; came: %v", want, ids)
			}
		}
		for _, c := range calls {
			if !bytes.Contains(c.body, []byte(`"data":`+data+`}`)) {
				t.Errorf("data changed: %s", c.body)
			}
		}
		b.eventually(func() error {
			list, _, err := b.bus.ListRejected(t.Context(), domain.DefaultAccount, time.Time{}, 10, 0)
			if err != nil {
				return err
			}
			if len(list) != 4 {
				return fmt.Errorf("%d rejected, want 4", len(list))
			}
			for _, r := range list {
				if r.Reason == "" {
					return fmt.Errorf("message on %s rejected without a reason", r.Subject)
				}
			}
			return nil
		})
		e, err := b.store.GetEvent(t.Context(), domain.DefaultAccount, "plain1")
		if err != nil || !bytes.Contains(e.Payload, []byte(data)) {
			t.Errorf("event from the bus is not in the log: %+v, %v", e, err)
		}
	})
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int {
			<-time.After(300 * time.Millisecond)
			return http.StatusOK
		})
		w := b.webhook(s.URL, func(w *domain.Webhook) { w.MaxInFlight = 8 })
		stop := b.dispatch()
		b.accept(40)
		b.eventually(func() error {
			if calls, _ := s.seen(); len(calls) < 8 {
				return fmt.Errorf("%d POSTs", len(calls))
			}
			return nil
		})
		stop()
		b.dispatch()
		b.deliveries(w.ID, domain.StatusDelivered, 40)
		b.settled()
		if calls, ids := s.seen(); len(calls) != 40 || len(ids) != 40 {
			t.Errorf("%d POSTs of %d events over a restart, want 40 of 40", len(calls), len(ids))
		}
	})
}

// Every second event fails at first: if all of them did, a machine that takes ten seconds for
// that would see the circuits open. What the bus does not acknowledge in time is published
// again, and may be sent twice.
func TestTwoDispatchersShareTheWork(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		fails := func(id string) bool { return id[len(id)-1] < '8' }
		s := newSink(t, func(c call) int {
			if c.attempt == "1" && fails(c.id) {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		var late atomic.Bool
		listen := func(o *dispatcher.Options) { o.Logger = slog.New(ear{o.Logger.Handler(), &late}) }
		var hooks []domain.Webhook
		for range 6 {
			hooks = append(hooks, b.webhook(s.URL, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{100 * time.Millisecond} }))
		}
		b.dispatch(listen)
		stop := b.dispatch(listen)
		ids := b.accept(50)
		stop()
		ids = append(ids, b.accept(50)...)
		for _, w := range hooks {
			b.deliveries(w.ID, domain.StatusDelivered, 100)
		}
		b.settled()
		want := 0
		for _, id := range ids {
			want += len(hooks)
			if fails(id) {
				want += len(hooks)
			}
		}
		if calls, _ := s.seen(); len(calls) < want || len(calls) > want && !late.Load() {
			t.Errorf("%d POSTs, want %d: one for each of 600 deliveries, and one more for each that fails at first", len(calls), want)
		}
	})
}

func TestFailingForTooLongMakesInactive(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int { return http.StatusBadGateway })
		w := b.webhook(s.URL, func(w *domain.Webhook) {
			w.RetrySchedule = slices.Repeat([]time.Duration{200 * time.Millisecond}, 20)
		})
		b.dispatch(func(o *dispatcher.Options) { o.DisableAfter = time.Second })
		b.accept(1)
		b.deliveries(w.ID, domain.StatusHeld, 1)
		now, health, err := b.store.GetWebhook(t.Context(), domain.DefaultAccount, w.ID)
		if reason, inactive := now.Inactive(health); err != nil || !inactive || reason != domain.DisabledFailing {
			t.Errorf("inactive %t, %q, %v", inactive, reason, err)
		}
	})
}

func (b *bench) list(id domain.WebhookID) []domain.Delivery {
	b.t.Helper()
	list, _, err := b.store.ListDeliveries(b.t.Context(), filter(id))
	if err != nil {
		b.t.Fatalf("list deliveries: %v", err)
	}
	return list
}
