package fanout_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/fanout"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/order"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// stuck needs for ever to look at the filters of one account, until it is let go.
type stuck struct {
	oneEach
	letGo chan struct{}
}

const costly = "costly"

func (s stuck) Costly(event *domain.Event) bool { return event.Account == costly }

func (s stuck) Subscribers(event *domain.Event) []*index.Hook {
	if event.Account == costly {
		<-s.letGo
	}
	return s.oneEach.Subscribers(event)
}

func connect(t *testing.T) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{URL: bustest.Start(t).URL(), Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
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
	return b
}

// An account whose filters take long holds up itself alone, keeps the turn of its events, and takes
// no more than its share of what may wait.
func TestFiltersHoldUpTheirAccountAlone(t *testing.T) {
	t.Parallel()
	b := connect(t)
	const room, events, least = 4 << 20, 600, 512 // least bytes for each event
	const most = room / 16 / least
	published := make(chan error, events+1)
	publish := func(account string, i int) {
		e := domain.Event{Account: account, ID: fmt.Sprintf("evt_%d", i), Type: domain.ShipmentCreated, Payload: []byte(`{}`), ReceivedAt: time.Now()}
		b.PublishEvent(bus.AcceptedEvent{Event: e, Version: 1}, 0, func(_ bool, err error) { published <- err })
	}
	for i := range events {
		publish(costly, i)
	}
	publish("other", 0)
	for range events + 1 {
		if err := <-published; err != nil {
			t.Fatal(err)
		}
	}
	slow, out, metrics := stuck{letGo: make(chan struct{})}, make(offered, events+1), prometheus.NewRegistry()
	f := fanout.New(fanout.Options{
		Bus: b, Deliverer: out, Emitter: ignore{}, Log: &slowLog{}, Index: slow, Room: admission.NewBudget(room), Logger: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	letGo := sync.OnceFunc(func() { close(slow.letGo) })
	defer func() { letGo(); stop(); running.Wait() }()
	next := func() *domain.Task {
		t.Helper()
		select {
		case job := <-out:
			return job.Task
		case <-time.After(time.Minute):
			t.Fatal("no delivery comes")
		}
		return nil
	}
	if got := next(); got.Account != "other" {
		t.Errorf("the first delivery is of %s", got.Account)
	}
	waiting := gauge(t, metrics, "waybill_events_aside")
	if waiting > most || waiting < most/4 {
		t.Errorf("%v events wait for their account's filters, want at most %d", waiting, most)
	}
	letGo()
	last := -1
	for range int(waiting) + 1 { // one was in hand
		// An event that found no room was returned to the bus; a later one may have found some.
		n, err := strconv.Atoi(strings.TrimPrefix(next().EventID, "evt_"))
		if err != nil || n <= last {
			t.Fatalf("event %d comes after %d, %v", n, last, err)
		}
		last = n
	}
}

// undecided says who handles an event when the test wants it.
type undecided struct{ again chan func() }

func (undecided) Route(string, int64, uint64, bool) order.Route { return order.Unknown }

func (u undecided) Await(_ string, _ int64, again func()) bool {
	u.again <- again
	return true
}

// What is to be handled after the end, because only then it is known by whom, goes back to the bus.
func TestNothingIsHandledAsideAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := connect(t)
	published := make(chan error, 1)
	e := domain.Event{Account: costly, ID: "evt_1", Type: domain.ShipmentCreated, Payload: []byte(`{}`), ReceivedAt: time.Now()}
	b.PublishEvent(bus.AcceptedEvent{Event: e, Version: 1}, 0, func(_ bool, err error) { published <- err })
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	later := undecided{again: make(chan func(), 1)}
	f := fanout.New(fanout.Options{
		Bus: b, Deliverer: make(offered, 1), Emitter: ignore{}, Log: &slowLog{}, Index: stuck{}, Order: later,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	again := <-later.again
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	again()
	if f.Held() {
		t.Error("the event is in flight")
	}
}

func gauge(t *testing.T, from *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
