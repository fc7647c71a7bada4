package bus_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// accepted is the nth event of an account.
func accepted(account string, n int) bus.AcceptedEvent {
	id := "evt_" + string(rune('a'+n))
	return bus.AcceptedEvent{Version: 1, Place: int64(n), Event: domain.Event{
		Account: account, ID: id, Type: domain.ShipmentCreated, Payload: []byte(`{}`), ReceivedAt: time.UnixMilli(1_700_000_000_000).UTC(),
	}}
}

func fetch(t *testing.T, b *bus.Bus, name string, n int) (list []*bus.Message) {
	t.Helper()
	consumer, err := b.Stream(bus.StreamEvents).Consumer(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	err = consumer.Fetch(t.Context(), n, bus.FetchOptions{Wait: 5 * time.Second}, func(m *bus.Message) { list = append(list, m) })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The next owner of an account's events gets all that was not acknowledged, at once and in order; what the
// owner before acknowledges later counts no more.
func TestWhoTakesEventsGetsWhatWasInHand(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	for n := 1; n <= 4; n++ {
		publish(t, b, accepted("acme", n), 0)
		publish(t, b, accepted("other", n), 0)
	}
	from := func() (uint64, error) { return 1, nil }
	first, err := b.TakeEvents(t.Context(), "acme", "one", 100, from)
	if err != nil || !first.First {
		t.Fatalf("the first take: %+v, %v", first, err)
	}
	in := fetch(t, b, bus.OrderConsumer("acme", 1), 4)
	if err := in[0].AckWait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in[2].AckWait(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := b.TakeEvents(t.Context(), "acme", "two", 100, from)
	if err != nil || second.First {
		t.Fatalf("the second take: %+v, %v", second, err)
	}
	in[1].Ack()
	var places []int64
	for _, m := range fetch(t, b, bus.OrderConsumer("acme", 2), 3) {
		got, ok := b.ParseAccepted(m.Subject(), m.Header(), m.Body())
		if !ok || m.Repeated {
			t.Errorf("message %d: accepted %v, repeated %v", m.Sequence, ok, m.Repeated)
		}
		places = append(places, got.Place)
	}
	if want := []int64{2, 3, 4}; !slices.Equal(places, want) {
		t.Errorf("places %v, want %v", places, want)
	}
	if _, err := b.Stream(bus.StreamEvents).ConsumerState(t.Context(), bus.OrderConsumer("acme", 1)); err == nil {
		t.Error("the consumer of the owner before is still there")
	}
}

// More accounts may have an order than a server lets a stream have consumers. A stream that was made without a number
// of its own gets one.
func TestTheServersLimitOfConsumersBoundsNoOrders(t *testing.T) {
	t.Parallel()
	server := bustest.StartWithConsumers(t, 17) // RETRIES has one for each shard
	b, js := connect(t, server), look(t, server.URL())
	for _, name := range []string{bus.StreamEvents, bus.StreamOrder} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxConsumers = -1
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		for range 2 {
			if _, err := b.TakeEvents(t.Context(), fmt.Sprintf("a%d", i), "one", 100, func() (uint64, error) { return 1, nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What an account's order has not acknowledged stays in EVENTS, and an account that has nothing to do
// keeps nothing.
func TestHowFarEventsAreOverAllConsumers(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	for n := 1; n <= 3; n++ {
		publish(t, b, accepted("acme", n), 0)
	}
	if _, err := b.TakeEvents(t.Context(), "idle", "one", 100, func() (uint64, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	for _, m := range fetch(t, b, bus.ConsumerFanout, 3) {
		if err := m.AckWait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want uint64) {
		t.Helper()
		state, err := b.EventsState(t.Context())
		if err != nil || state.Acknowledged != want {
			t.Errorf("acknowledged up to %d, %v; want %d", state.Acknowledged, err, want)
		}
	}
	check(3)
	_, err := b.TakeEvents(t.Context(), "acme", "one", 100, func() (uint64, error) { return 2, nil })
	if err != nil {
		t.Fatal(err)
	}
	check(1)
	for _, m := range fetch(t, b, bus.OrderConsumer("acme", 1), 2) {
		if err := m.AckWait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check(3)
}

// A delivery that waits for its turn is kept once, with its position.
func TestOrderedDeliveriesAreKept(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	task := &domain.Task{
		Delivery: "dlv_1", Account: "acme", Webhook: webhook, EventID: "evt_1", EventType: domain.ShipmentCreated,
		ReceivedAt: time.UnixMilli(1_700_000_000_000).UTC(), Rev: 2, Attempts: 1, RunAttempts: 1, Body: []byte(`{"id":"evt_1"}`),
	}
	position := bus.OrderPosition{Sequence: 7, ShipmentKey: -5, Due: time.UnixMilli(1_700_000_005_000).UTC(), AfterGap: true}
	keep := func(position bus.OrderPosition) {
		t.Helper()
		done := make(chan error, 1)
		b.KeepOrdered(task, position, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	keep(bus.OrderPosition{Sequence: 7, ShipmentKey: -5})
	keep(position)
	other := *task
	other.Account = "other"
	task, of := &other, task
	keep(bus.OrderPosition{Sequence: 1})
	var positions []bus.OrderPosition
	load := func() {
		t.Helper()
		positions = nil
		err := b.Orders(t.Context(), "acme", func(got *domain.Task, position bus.OrderPosition, err error) {
			if err != nil || got.Delivery != of.Delivery || got.Rev != of.Rev || got.Account != of.Account {
				t.Errorf("read %+v, %v", got, err)
			}
			positions = append(positions, position)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	load()
	if diff := cmp.Diff([]bus.OrderPosition{position}, positions); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
	entry, err := b.Stream(bus.StreamOrder).Newest(t.Context(), bus.OrderSubject(of))
	if err != nil || !bytes.Equal(entry.Body, of.Body) {
		t.Errorf("the body is %+v, %v", entry, err)
	}
	for i, left := range []int{1, 0} { // what was stored later stays
		if err := b.Stream(bus.StreamOrder).Clear(t.Context(), bus.OrderSubject(of), entry.Sequence-1+uint64(i)); err != nil {
			t.Fatal(err)
		}
		load()
		if len(positions) != left {
			t.Errorf("%d positions are left, want %d", len(positions), left)
		}
	}
}

// What is restored replaces an earlier state, and of no later one.
func TestRestoredBesideWhatIsKept(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	state := func(rev domain.Revision) *domain.Task {
		return &domain.Task{
			Delivery: "dlv_1", Account: "acme", Webhook: webhook, EventID: "evt_1", EventType: domain.ShipmentCreated,
			ReceivedAt: time.UnixMilli(1_700_000_000_000).UTC(), Rev: rev, Attempts: 1, RunAttempts: 1, Body: []byte(`{"id":"evt_1"}`),
		}
	}
	for _, step := range []struct {
		name    string
		store   func(*domain.Task, bus.OrderPosition, func(error))
		of      domain.Revision
		revLeft domain.Revision
	}{
		{"restored", b.RestoreOrdered, 2, 2}, {"restored again", b.RestoreOrdered, 2, 2}, {"a later state restored", b.RestoreOrdered, 4, 4},
		{"kept by its owner", b.KeepOrdered, 6, 6}, {"an earlier state restored", b.RestoreOrdered, 4, 6},
	} {
		done := make(chan error, 1)
		step.store(state(step.of), bus.OrderPosition{Sequence: 1}, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var left []domain.Revision
		if err := b.Orders(t.Context(), "acme", func(got *domain.Task, _ bus.OrderPosition, _ error) { left = append(left, got.Rev) }); err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || left[0] != step.revLeft {
			t.Errorf("%s: revisions %v are kept, want %d", step.name, left, step.revLeft)
		}
	}
}

// A place is taken from nobody but who accepted the event.
func TestAPlaceIsNobodyElses(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	publish(t, b, accepted("acme", 2), 0)
	entry, err := b.Stream(bus.StreamEvents).Newest(t.Context(), "events.acme.>")
	if err != nil {
		t.Fatal(err)
	}
	got, ok := b.ParseAccepted(entry.Subject, entry.Header, entry.Body)
	if !ok || got.Place != 2 {
		t.Errorf("place %d, %v", got.Place, ok)
	}
	entry.Header["Waybill-Place"] = []string{"1" + entry.Header["Waybill-Place"][0][1:]}
	if got, ok = b.ParseAccepted(entry.Subject, entry.Header, entry.Body); !ok || got.Place != 0 {
		t.Errorf("a forged place is taken: %d, %v", got.Place, ok)
	}
}
