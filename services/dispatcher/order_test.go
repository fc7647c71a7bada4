package dispatcher_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store/pipeline"
)

// ordered makes a webhook one whose deliveries go out in the order of each shipment.
func ordered(w *domain.Webhook) {
	w.Ordering = domain.OrderingShipment
	w.RetrySchedule = []time.Duration{200 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second, time.Second}
}

// numbered commits n events of some shipments, in turn, each with its number among those of its shipment, and
// publishes them in an order of its own; 0 events are left to be published later.
func (b *bench) numbered(n, shipments, first int, shuffle func([]bus.AcceptedEvent)) {
	b.t.Helper()
	b.sized(n, shipments, first, 0, shuffle)
}

// sized is numbered with more data in each event.
func (b *bench) sized(n, shipments, first, size int, shuffle func([]bus.AcceptedEvent)) {
	b.t.Helper()
	list := b.committed(n, shipments, first, size)
	if shuffle != nil {
		shuffle(list)
	}
	b.publish(list)
}

// committed commits events like sized, and publishes none of them.
func (b *bench) committed(n, shipments, first, size int) (list []bus.AcceptedEvent) {
	b.t.Helper()
	more := ""
	if size > 0 {
		more = `"note":"` + strings.Repeat("x", size) + `",`
	}
	var events []domain.Event
	for i := range n {
		data := fmt.Sprintf(`{%s"shipmentId":"shp_%d","n":%d}`, more, i%shipments, first+i/shipments)
		e := envelope.Event{ID: "evt_" + uuid.NewString(), Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11Z", Data: []byte(data)}
		events = append(events, domain.Event{ID: e.ID, Type: e.Type, Timestamp: e.Timestamp, Payload: e.Payload()})
	}
	for part := range slices.Chunk(events, 100) {
		receipts, err := b.store.Accept(b.t.Context(), []pipeline.Submission{{Account: domain.DefaultAccount, Events: part}})
		if err != nil {
			b.t.Fatalf("accept: %v", err)
		}
		for i, e := range part {
			e.Account, e.ReceivedAt = domain.DefaultAccount, receipts[0].Events[i].ReceivedAt
			if receipts[0].Events[i].Place == 0 {
				b.t.Fatal("the event has no place")
			}
			list = append(list, bus.AcceptedEvent{Event: e, Version: receipts[0].Version, Place: receipts[0].Events[i].Place})
		}
	}
	return list
}

func (b *bench) publish(list []bus.AcceptedEvent) {
	b.t.Helper()
	b.publishAgain(list, 0)
}

// publishAgain publishes events as the relay does in a later round.
func (b *bench) publishAgain(list []bus.AcceptedEvent, round int) {
	b.t.Helper()
	done := make(chan error, len(list))
	for _, a := range list {
		b.bus.PublishEvent(a, round, func(_ bool, err error) { done <- err })
	}
	for range list {
		if err := <-done; err != nil {
			b.t.Fatalf("publish: %v", err)
		}
	}
}

// arrivals are what a receiver has got: by shipment, the numbers in the order of their first arrival.
func arrivals(t *testing.T, calls []call) map[string][]int {
	t.Helper()
	seen := map[string]bool{}
	got := map[string][]int{}
	for _, c := range calls {
		var event struct {
			Data struct {
				ShipmentID string `json:"shipmentId"`
				N          int    `json:"n"`
			} `json:"data"`
		}
		if err := json.Unmarshal(c.body, &event); err != nil {
			t.Fatal(err)
		}
		if sequence := c.header.Get("Waybill-Sequence"); sequence != strconv.Itoa(event.Data.N) {
			t.Errorf("event %d of %s has Waybill-Sequence %q", event.Data.N, event.Data.ShipmentID, sequence)
		}
		if seen[c.id] {
			continue
		}
		seen[c.id] = true
		got[event.Data.ShipmentID] = append(got[event.Data.ShipmentID], event.Data.N)
	}
	return got
}

// inOrder checks that each shipment's events came from 1 on and without a gap.
func inOrder(t *testing.T, calls []call, shipments, each int) {
	t.Helper()
	got := arrivals(t, calls)
	if len(got) != shipments {
		t.Errorf("events of %d shipments came, want %d", len(got), shipments)
	}
	for shipment, numbers := range got {
		for i, n := range numbers {
			if n != i+1 {
				t.Fatalf("%s came as %v", shipment, numbers)
			}
		}
		if len(numbers) != each {
			t.Errorf("%d events of %s came, want %d", len(numbers), shipment, each)
		}
	}
}

// failing fails every so many first attempts.
func failing(every int64) func(call) int {
	var n atomic.Int64
	return func(c call) int {
		if c.attempt == "1" && n.Add(1)%every == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
}

// Events that reach the bus in another order than they were committed in go out in the order of their
// commits, one of a shipment at a time, though every seventh attempt fails.
func TestShipmentsKeepTheirOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, failing(7))
		w := b.webhook(s.URL, ordered)
		b.dispatch()
		b.numbered(400, 20, 1, func(list []bus.AcceptedEvent) {
			for part := range slices.Chunk(list, 37) {
				slices.Reverse(part)
			}
		})
		b.deliveries(w.ID, domain.StatusDelivered, 400)
		calls, _ := s.seen()
		inOrder(t, calls, 20, 20)
		b.settled()
	})
}

// The order holds when the dispatcher that keeps it is cut off in the middle, and when the next one ends
// as it should. Nothing is lost.
func TestOrderIsTakenOver(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, failing(5))
		w := b.webhook(s.URL, ordered)
		var first *bus.Bus
		b.dispatch(func(o *dispatcher.Options) { first = o.Bus })
		b.numbered(200, 10, 1, nil)
		b.eventually(func() error {
			if calls, _ := s.seen(); len(calls) < 60 {
				return fmt.Errorf("%d calls", len(calls))
			}
			return nil
		})
		first.Close()
		stop := b.dispatch()
		b.numbered(200, 10, 21, slices.Reverse)
		b.eventually(func() error {
			if _, ids := s.seen(); len(ids) < 250 {
				return fmt.Errorf("%d events", len(ids))
			}
			return nil
		})
		stop()
		b.dispatch()
		b.deliveries(w.ID, domain.StatusDelivered, 400)
		calls, _ := s.seen()
		inOrder(t, calls, 10, 40)
		b.settled()
	})
}

// A shipment whose receiver fails waits alone: its later events say behind what they wait. When the first
// has exhausted its schedule the next goes out with the mark of a gap.
func TestAFailingShipmentWaitsAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(c call) int {
			if strings.Contains(string(c.body), `"shp_0","n":1}`) {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		w := b.webhook(s.URL, ordered, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{4 * time.Second} })
		b.dispatch()
		b.numbered(15, 5, 1, nil)
		b.eventually(func() error {
			list, _, err := b.store.ListDeliveries(t.Context(), filter(w.ID))
			if err != nil {
				return err
			}
			count := map[string]int{}
			for _, d := range list {
				count[string(d.Status)+" "+d.Reason]++
			}
			if count["delivered "] != 12 || count["pending behindShipment"] != 2 || count["retrying "] != 1 {
				return fmt.Errorf("%v", count)
			}
			return nil
		})
		b.eventually(func() error {
			if _, ids := s.seen(); len(ids) != 15 {
				return fmt.Errorf("%d events", len(ids))
			}
			return nil
		})
		calls, _ := s.seen()
		inOrder(t, calls, 5, 3)
		gaps := 0
		for _, c := range calls {
			if c.header.Get("Waybill-Gap") == "" {
				continue
			}
			gaps++
			if !strings.Contains(string(c.body), `"shp_0","n":2}`) {
				t.Errorf("%s is marked as after a gap", c.body)
			}
		}
		if gaps != 1 {
			t.Errorf("%d deliveries are marked as after a gap, want 1", gaps)
		}
	})
}

// After the longest wait the next one passes the one that fails, which goes on with its own schedule.
func TestTheLongestWaitEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite:"+templates.SQLite(t))
	var failures atomic.Int32
	s := newSink(t, func(c call) int {
		if strings.Contains(string(c.body), `"n":1}`) && failures.Add(1) < 3 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	w := b.webhook(s.URL, ordered, func(w *domain.Webhook) {
		w.RetrySchedule, w.OrderingMaxWait = []time.Duration{5 * time.Second, 5 * time.Second}, time.Second
	})
	b.dispatch()
	b.numbered(3, 1, 1, nil)
	b.deliveries(w.ID, domain.StatusDelivered, 3)
	calls, ids := s.seen()
	if len(ids) != 3 || len(calls) != 5 {
		t.Fatalf("%d events in %d calls", len(ids), len(calls))
	}
	var got []string
	for _, c := range calls {
		got = append(got, c.header.Get("Waybill-Sequence")+c.header.Get("Waybill-Gap")+"/"+c.attempt)
	}
	if want := []string{"1/1", "21/1", "3/1", "1/2", "1/3"}; !slices.Equal(got, want) {
		t.Errorf("sequence and gap, attempt: %v, want %v", got, want)
	}
}

// What waits while its webhook is inactive goes out in order when it is active again, after a change of
// the owner.
func TestHeldShipmentsDrainInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL, ordered, func(w *domain.Webhook) { w.Active = false })
		stop := b.dispatch()
		b.numbered(60, 3, 1, slices.Reverse)
		b.deliveries(w.ID, domain.StatusHeld, 60)
		b.settled()
		stop()
		b.dispatch()
		b.numbered(60, 3, 21, nil)
		b.deliveries(w.ID, domain.StatusHeld, 120)
		b.update(w.ID, func(w *domain.Webhook) { w.Active = true })
		b.deliveries(w.ID, domain.StatusDelivered, 120)
		calls, _ := s.seen()
		inOrder(t, calls, 3, 40)
		b.eventually(func() error {
			state, err := b.bus.Stream(bus.StreamOrder).State(t.Context())
			if err == nil && state.Messages > 0 {
				err = fmt.Errorf("%d deliveries are left on the bus", state.Messages)
			}
			return err
		})
	})
}

// What comes after a delivery that did not arrive is marked, though nothing of its shipment has waited
// meanwhile: by the same owner of the order, and by the next one.
func TestAGapIsMarkedLater(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) { b.gapLater(t, func(func()) {}) })
}

func TestAGapOutlivesItsOwner(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		b.gapLater(t, func(stop func()) {
			stop()
			b.dispatch()
		})
	})
}

// gapLater has the first delivery of two shipments fail, and the next two arrive after what is done
// meanwhile.
func (b *bench) gapLater(t *testing.T, meanwhile func(stop func())) {
	broken := atomic.Bool{}
	broken.Store(true)
	s := newSink(t, func(call) int {
		if broken.Load() {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	w := b.webhook(s.URL, ordered, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{} })
	stop := b.dispatch()
	b.numbered(2, 2, 1, nil)
	b.deliveries(w.ID, domain.StatusFailed, 2)
	b.settled()
	meanwhile(stop)
	broken.Store(false)
	b.numbered(4, 2, 2, nil)
	b.eventually(func() error {
		delivered := 0
		for _, d := range b.list(w.ID) {
			if d.Status == domain.StatusDelivered {
				delivered++
			}
		}
		if delivered != 4 {
			return fmt.Errorf("%d are delivered, want 4", delivered)
		}
		return nil
	})
	calls, _ := s.seen()
	for _, c := range calls {
		sequence, gap := c.header.Get("Waybill-Sequence"), c.header.Get("Waybill-Gap")
		if want := map[string]string{"1": "", "2": "1", "3": ""}[sequence]; gap != want {
			t.Errorf("delivery %s has Waybill-Gap %q, want %q", sequence, gap, want)
		}
	}
}

// What waits behind another goes out at once when its webhook wants no order any more, and ends when its
// webhook is deleted.
func TestOrderComesToAnEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		broken := atomic.Bool{}
		broken.Store(true)
		s := newSink(t, func(call) int {
			if broken.Load() {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		patient := func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{3 * time.Second, 3 * time.Second} }
		w, gone := b.webhook(s.URL, ordered, patient), b.webhook(s.URL, ordered, patient)
		b.dispatch()
		b.numbered(3, 1, 1, nil)
		waiting := func(id domain.WebhookID) error {
			held := 0
			for _, d := range b.list(id) {
				if d.Reason == domain.ReasonBehindShipment {
					held++
				}
			}
			if held != 2 {
				return fmt.Errorf("%d deliveries wait behind another, want 2", held)
			}
			return nil
		}
		b.eventually(func() error { return errors.Join(waiting(w.ID), waiting(gone.ID)) })
		broken.Store(false)
		if err := b.store.DeleteWebhook(t.Context(), domain.DefaultAccount, gone.ID); err != nil {
			t.Fatal(err)
		}
		b.update(w.ID, func(w *domain.Webhook) { w.Ordering = domain.OrderingNone })
		b.deliveries(w.ID, domain.StatusDelivered, 3)
		for _, d := range b.deliveries(gone.ID, domain.StatusFailed, 3) {
			if d.Reason != domain.ReasonWebhookDeleted {
				t.Errorf("a delivery of the deleted webhook ended for %q", d.Reason)
			}
		}
		b.settled()
	})
}

// A delivery that the bus has lost is left to the relay: its place on the bus is not removed, or what
// the relay has restored there meanwhile would go.
func TestALostDeliveryIsRestored(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite:"+templates.SQLite(t))
	var failures atomic.Int32
	s := newSink(t, func(c call) int {
		if strings.Contains(string(c.body), `"n":1}`) && failures.Add(1) == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	w := b.webhook(s.URL, ordered, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{2 * time.Second} })
	b.dispatch()
	client := b.client()
	b.numbered(1, 1, 1, nil)
	first := b.deliveries(w.ID, domain.StatusRetrying, 1)[0].ID
	subject := bus.OrderSubject(&domain.Task{Account: domain.DefaultAccount, Webhook: w.ID, Delivery: first})
	js := b.jetStream()
	order, err := js.Stream(t.Context(), bus.StreamOrder)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := order.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := order.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var removed atomic.Int32
	watching, err := client.Subscribe("$JS.API.STREAM.PURGE."+bus.StreamOrder, func(m *nats.Msg) {
		if strings.Contains(string(m.Data), subject) {
			removed.Add(1)
		}
	})
	if err == nil {
		err = client.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watching.Unsubscribe() }()
	b.numbered(1, 1, 2, nil)
	b.eventually(func() error { // the second is delivered, because the first was left
		if list := b.list(w.ID); len(list) != 2 || list[0].Status != domain.StatusDelivered && list[1].Status != domain.StatusDelivered {
			return fmt.Errorf("there are %d deliveries: %+v", len(list), list)
		}
		return nil
	})
	if removed.Load() != 0 {
		t.Error("the owner removes what it does not find")
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: kept.Header, Data: kept.Data}); err != nil {
		t.Fatal(err)
	}
	b.bus.AnnounceRestored(domain.DefaultAccount)
	b.deliveries(w.ID, domain.StatusDelivered, 2)
	b.eventually(func() error {
		if removed.Load() != 1 {
			return fmt.Errorf("it was removed %d times, want once, at its end", removed.Load())
		}
		return nil
	})
}

// A delivery that another owner has given up has not arrived, though this one knows of no attempt: the next
// one has the mark of a gap.
func TestWhatAnotherOwnerGaveUpIsAGap(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(c call) int {
			if strings.Contains(string(c.body), `"n":1}`) {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		w := b.webhook(s.URL, ordered, func(w *domain.Webhook) { w.RetrySchedule = []time.Duration{4 * time.Second, time.Hour} })
		b.dispatch()
		b.numbered(2, 1, 1, nil)
		var first domain.Delivery
		b.eventually(func() error {
			list := b.list(w.ID)
			i := slices.IndexFunc(list, func(d domain.Delivery) bool { return d.Status == domain.StatusRetrying })
			if len(list) != 2 || i < 0 {
				return fmt.Errorf("%d deliveries, one of them retrying: %d", len(list), i)
			}
			first = list[i]
			return nil
		})
		at, _ := first.ID.ReceivedAt()
		shipment := envelope.Shipment(domain.DefaultAccount, []byte(`{"data":{"shipmentId":"shp_0"}}`))
		outcome := domain.Outcome{
			Delivery: first.ID, Account: domain.DefaultAccount, Webhook: w.ID, EventID: first.EventID, EventType: first.EventType,
			Status: domain.StatusFailed, Reason: domain.ReasonExhausted, Rev: domain.FirstOutcome.Next(), Attempts: 2, RunAttempts: 2,
			UpdatedAt: at, Sequence: 1, Shipment: *shipment,
		}
		stored := make(chan error, 1)
		b.bus.PublishRecords(record.Encode(&domain.RecordBatch{Outcomes: []domain.Outcome{outcome}}), func(err error) { stored <- err })
		subject := bus.OrderSubject(&domain.Task{Account: domain.DefaultAccount, Webhook: w.ID, Delivery: first.ID})
		if err := errors.Join(<-stored, b.bus.Stream(bus.StreamOrder).Clear(t.Context(), subject, math.MaxInt64)); err != nil {
			t.Fatal(err)
		}
		b.eventually(func() error {
			if _, ids := s.seen(); len(ids) != 2 {
				return fmt.Errorf("%d events", len(ids))
			}
			return nil
		})
		calls, _ := s.seen()
		if last := calls[len(calls)-1].header; last.Get("Waybill-Gap") != "1" || last.Get("Waybill-Sequence") != "2" {
			t.Errorf("the next one has %v", last)
		}
	})
}

// Whoever stops keeping an order gives the memory of the events back that it had not finished: it is
// not used up by changes of the owner.
func TestTheNextOwnerHasTheRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sqlite:"+templates.SQLite(t))
	s := newSink(t, nil)
	w := b.webhook(s.URL, ordered)
	metrics := prometheus.NewRegistry()
	b.dispatch(func(o *dispatcher.Options) { o.Memory, o.Metrics = dispatcher.LeastMemory, metrics })
	var late bus.AcceptedEvent
	b.sized(5, 1, 1, 200<<10, func(list []bus.AcceptedEvent) {
		late, list[0] = list[0], list[1] // the first is missing, and the second comes twice
	})
	js := b.jetStream()
	handedOut := func() string {
		var all []string
		events, err := js.Stream(t.Context(), bus.StreamEvents)
		if err != nil {
			t.Fatal(err)
		}
		for info := range events.ListConsumers(t.Context()).Info() {
			if strings.HasPrefix(info.Name, "order-") {
				all = append(all, fmt.Sprintf("%s %d", info.Name, info.Delivered.Consumer))
			}
		}
		return strings.Join(all, ", ")
	}
	for range 15 {
		b.eventually(func() error {
			if early := gauge(t, metrics, "waybill_order_events_early"); early != 4 {
				return fmt.Errorf("%v events wait for the one before", early)
			}
			return nil
		})
		before := handedOut()
		b.bus.AnnounceRestored(domain.DefaultAccount)
		b.eventually(func() error {
			if handedOut() == before {
				return errors.New("the owner has not begun anew: " + before)
			}
			return nil
		})
	}
	b.publish([]bus.AcceptedEvent{late})
	b.deliveries(w.ID, domain.StatusDelivered, 5)
}

// What settles events may be lost with the dispatcher that was about to write it. The bus has nothing of
// them any more, but the log knows that they have ended: the next owner waits for none of them, and settles them.
func TestALostSettlementHoldsNothingUp(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL, ordered)
		b.numbered(20, 2, 1, nil)
		b.execute("CREATE TABLE lost AS SELECT received_at, account, id, version, place FROM outbox")
		stop := b.dispatch()
		b.deliveries(w.ID, domain.StatusDelivered, 20)
		b.settled()
		stop()
		b.execute("INSERT INTO outbox (received_at, account, id, version, place) SELECT received_at, account, id, version, place FROM lost")
		b.dispatch()
		b.numbered(20, 2, 11, nil)
		b.deliveries(w.ID, domain.StatusDelivered, 40)
		calls, _ := s.seen()
		inOrder(t, calls, 2, 20)
		if len(calls) != 40 {
			t.Errorf("%d calls for 40 events", len(calls))
		}
		b.settled()
	})
}

// execute changes the database beside the store.
func (b *bench) execute(statement string) {
	b.t.Helper()
	writing, _ := b.store.Handles()
	if _, err := writing.ExecContext(b.t.Context(), statement); err != nil {
		b.t.Fatal(err)
	}
}

// An event from NATS has its place behind what came before it on the stream and before what came later,
// also when these wait for one that was committed before them.
func TestTheStreamsOrderOutlastsAWait(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		w := b.webhook(s.URL, ordered)
		b.dispatch()
		b.numbered(1, 1, 1, nil)
		b.deliveries(w.ID, domain.StatusDelivered, 1)
		before, after := b.committed(2, 1, 2, 0), b.committed(1, 1, 5, 0)
		nc := b.client()
		b.publish(before[1:])
		body := []byte(`{"type":"shipment.created","data":{"shipmentId":"shp_0","n":4}}`)
		if err := errors.Join(nc.Publish(bus.EventSubject(domain.DefaultAccount, domain.ShipmentCreated), body), nc.Flush()); err != nil {
			t.Fatal(err)
		}
		b.publish(after)
		b.publish(before[:1])
		b.deliveries(w.ID, domain.StatusDelivered, 5)
		calls, _ := s.seen()
		inOrder(t, calls, 1, 5)
		b.settled()
	})
}

// What the relay publishes once more, because an API is slow to publish it, goes out once and keeps its
// number, whichever of the two comes first.
func TestACopyIsNoEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		let := make(chan struct{})
		s := newSink(t, func(call) int { <-let; return http.StatusOK })
		w := b.webhook(s.URL, ordered)
		b.dispatch()
		list := b.committed(6, 1, 1, 0)
		b.publish(list[:3])
		b.publishAgain(list[:3], 1)
		b.publishAgain(list[4:], 1) // these wait for the fourth
		b.publish(list[4:])
		b.publishAgain(list[3:4], 1)
		b.publish(list[3:4])
		b.eventually(func() error {
			state, err := b.bus.Stream(bus.StreamEvents).State(t.Context())
			if err == nil && state.LastSeq != 12 {
				err = fmt.Errorf("the stream has %d messages", state.LastSeq)
			}
			return err
		})
		close(let)
		b.deliveries(w.ID, domain.StatusDelivered, 6)
		b.numbered(1, 1, 7, nil)
		b.deliveries(w.ID, domain.StatusDelivered, 7)
		calls, _ := s.seen()
		inOrder(t, calls, 1, 7)
		b.settled()
	})
}

// A copy that the bus hands out once more, because whoever had it did not acknowledge it, is no event either while
// the first attempt of the other one is in flight.
func TestARepeatedCopyIsNoEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		answered := make(chan struct{})
		s := newSink(t, func(call) int { <-answered; return http.StatusOK })
		answer := sync.OnceFunc(func() { close(answered) })
		t.Cleanup(answer)
		w := b.webhook(s.URL, ordered)
		b.dispatch()
		list := b.committed(1, 1, 1, 0)
		b.publish(list)
		b.eventually(func() error {
			if calls, _ := s.seen(); len(calls) == 0 {
				return errors.New("no call")
			}
			return nil
		})
		consumer, err := b.jetStream().Consumer(t.Context(), bus.StreamEvents, bus.OrderConsumer(domain.DefaultAccount, 1))
		if err != nil {
			t.Fatal(err)
		}
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		b.eventually(func() error {
			if info, err := consumer.Info(t.Context()); err != nil || info.NumWaiting < 2 {
				return fmt.Errorf("%+v, %w", info, err)
			}
			return nil
		})
		b.publishAgain(list, 1)
		stolen := <-batch.Messages()
		if stolen == nil {
			t.Fatal("the dispatcher has the copy")
		}
		if err := stolen.Nak(); err != nil {
			t.Fatal(err)
		}
		b.numbered(1, 1, 2, nil)
		answer()
		b.deliveries(w.ID, domain.StatusDelivered, 2)
		b.settled()
		calls, _ := s.seen()
		inOrder(t, calls, 1, 2)
		if len(calls) != 2 {
			t.Errorf("%d calls for 2 events", len(calls))
		}
	})
}

// Events from NATS keep the order of the stream, from ordering on, with two dispatchers; events that the
// bus does not have yet are waited for.
func TestOrderOfTheStream(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, failing(6))
		w := b.webhook(s.URL, ordered)
		b.dispatch()
		b.dispatch()
		b.numbered(2, 2, 1, nil)
		b.deliveries(w.ID, domain.StatusDelivered, 2)
		nc := b.client()
		for i := range 200 {
			body := fmt.Sprintf(`{"type":"shipment.created","data":{"shipmentId":"shp_%d","n":%d}}`, i%2, 2+i/2)
			if err := nc.Publish(bus.EventSubject(domain.DefaultAccount, domain.ShipmentCreated), []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		b.deliveries(w.ID, domain.StatusDelivered, 202)
		b.numbered(2, 2, 102, nil)
		b.deliveries(w.ID, domain.StatusDelivered, 204)
		calls, _ := s.seen()
		inOrder(t, calls, 2, 102)
		b.settled()
	})
}

// Accounts whose order is kept, and which have no event, ask the bus and the database for nothing: with a
// hundred of them a dispatcher sends no more than a few messages beyond what it sends without any.
func TestOrderCostsNothingWhileNothingHappens(t *testing.T) {
	t.Parallel()
	const accounts, watched = 100, 3 * time.Second
	b := newBench(t, "sqlite:"+templates.SQLite(t))
	sent := func() int64 {
		t.Helper()
		state, err := b.server.NATS().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return state.InMsgs
	}
	idle := func() int64 {
		t.Helper()
		before := sent()
		<-time.After(watched)
		return sent() - before
	}
	b.dispatch()
	without := idle()
	for i := range accounts {
		b.webhook("http://127.0.0.1:1/", ordered, func(w *domain.Webhook) { w.Account = fmt.Sprintf("a%d", i) })
	}
	b.eventually(func() error {
		for i := range accounts {
			if _, err := b.bus.Stream(bus.StreamEvents).ConsumerState(t.Context(), bus.OrderConsumer(fmt.Sprintf("a%d", i), 1)); err != nil {
				return err
			}
		}
		return nil
	})
	b.eventually(func() error { // the last ones have begun
		if n := idle(); n > without+accounts/2 {
			return fmt.Errorf("%d messages in %s, %d without ordered accounts", n, watched, without)
		}
		return nil
	})
}
