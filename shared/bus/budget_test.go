package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

func TestBudgetIsGrantedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := bus.NewBudget(100)
		room.Take(70) // in hand already
		var mu sync.Mutex
		var order []string
		var waiting sync.WaitGroup
		ask := func(name string, ctx context.Context, least, most int64) {
			waiting.Go(func() {
				granted, err := room.Reserve(ctx, least, most)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprintf("%s %d %v", name, granted, err))
			})
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if fmt.Sprint(order) != fmt.Sprint(want) {
				t.Fatalf("granted %q, want %q", order, want)
			}
		}
		impatient, leave := context.WithCancel(t.Context())
		ask("a", t.Context(), 10, 20)
		expect("a 20 <nil>")
		ask("b", impatient, 60, 60)
		ask("c", t.Context(), 10, 90) // there is room for it, but it is not its turn
		if state := room.State(); state.Used != 90 || state.Waiting != 2 || !room.Tight() {
			t.Errorf("state %+v, want 90 used and 2 that wait", state)
		}
		leave()
		expect("a 20 <nil>", "b 0 context canceled", "c 10 <nil>")
		room.Take(40) // what is in hand never waits
		ask("d", t.Context(), 500, 500)
		room.Give(139)
		expect("a 20 <nil>", "b 0 context canceled", "c 10 <nil>")
		room.Give(1) // nothing else is in hand: what is larger than the room goes alone
		expect("a 20 <nil>", "b 0 context canceled", "c 10 <nil>", "d 500 <nil>")
		waiting.Wait()
	})
}

func TestReservedRoomIsNotTight(t *testing.T) {
	t.Parallel()
	room := bus.NewBudget(100)
	if _, err := room.Reserve(t.Context(), 60, 60); err != nil || room.Tight() {
		t.Errorf("tight with nothing in hand: %v", err)
	}
	room.Take(20)
	if room.Tight() {
		t.Error("tight with half of what is left in hand")
	}
	room.Take(1)
	if !room.Tight() {
		t.Error("not tight with more than half of what is left in hand")
	}
	room.LetGo(1)
	room.Give(60)
	room.Take(30)
	if room.Tight() {
		t.Error("tight with half of the room in hand")
	}
}

func TestPartsLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := bus.NewBudget(100)
		one, other := room.Part(30), room.Part(30)
		reserve := func(part *bus.Budget, least, most, want int64) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if granted, err := part.Reserve(ctx, least, most); granted != want || (err == nil) != (want > 0) {
				t.Errorf("granted %d, %v; want %d", granted, err, want)
			}
		}
		reserve(one, 10, 60, 30)
		one.Give(10)
		one.Take(10)
		reserve(one, 10, 60, 0)    // has its part
		reserve(other, 10, 60, 30) // and nobody waits for that
		room.Take(30)
		other.Give(20)
		reserve(other, 10, 60, 20) // there is room, as much as its part has
		room.Take(15)
		one.Give(20)
		one.LetGo(10)
		reserve(one, 30, 30, 0) // in its part there would be room
		reserve(one, 10, 30, 25)
		other.Give(30)
		one.Give(25)
		room.LetGo(45)
		for _, r := range []*bus.Budget{room, one, other} {
			if state := r.State(); state.Used != 0 || state.Waiting != 0 {
				t.Errorf("state %+v in the end", state)
			}
		}
	})
}

// TestOnlySoMuchIsTakenOffTheBus holds what is in hand of large messages to the room, and
// brings all of them in the end.
func TestOnlySoMuchIsTakenOffTheBus(t *testing.T) {
	t.Parallel()
	const messages, size, limit = 120, 256 << 10, 8 << 20
	body := make([]byte, size)
	webhook := domain.WebhookID("0191d7a0-0000-7000-8000-000000000001")
	for _, stage := range []struct {
		name    string
		publish func(*bus.Bus, *nats.Conn) error
		consume func(ctx context.Context, b *bus.Bus, room *bus.Budget, inHand *bus.InHand, handle func(*bus.Message)) error
	}{
		{"events", func(_ *bus.Bus, nc *nats.Conn) error { return nc.Publish("events.default.shipment.created", body) },
			func(ctx context.Context, b *bus.Bus, _ *bus.Budget, inHand *bus.InHand, handle func(*bus.Message)) error {
				return b.ConsumeEvents(ctx, inHand, handle)
			}},
		{"records", func(_ *bus.Bus, nc *nats.Conn) error { return nc.Publish("records", body) },
			func(ctx context.Context, b *bus.Bus, _ *bus.Budget, inHand *bus.InHand, handle func(*bus.Message)) error {
				return b.ConsumeRecords(ctx, inHand, handle)
			}},
		{"due", func(_ *bus.Bus, nc *nats.Conn) error {
			return nc.Publish(fmt.Sprintf("d.%d.%s", webhook.Shard(), webhook.Token()), body)
		},
			func(ctx context.Context, b *bus.Bus, room *bus.Budget, inHand *bus.InHand, handle func(*bus.Message)) error {
				return b.ConsumeDue(ctx, webhook.Shard(), room, func(m *bus.Message) {
					inHand.Add(m)
					handle(m)
				})
			}},
		{"a lane", func(_ *bus.Bus, nc *nats.Conn) error { return nc.Publish(bus.HoldSubject(webhook), body) },
			func(ctx context.Context, b *bus.Bus, _ *bus.Budget, inHand *bus.InHand, handle func(*bus.Message)) error {
				lane, err := b.OpenLane(ctx, webhook, 1000)
				for err == nil {
					var list []*bus.Message
					list, err = lane.Fetch(ctx, inHand, 500, 100*time.Millisecond)
					for _, m := range list {
						handle(m)
					}
				}
				return err
			}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Start(t)
			b := connect(t, server)
			if err := b.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			nc, err := nats.Connect(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			for range messages {
				if err := stage.publish(b, nc); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			room := bus.NewBudget(limit)
			// What is in hand is reported as in progress, so that none of it comes again.
			inHand := bus.NewRecordsInHand(room)
			ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
			defer stop()
			go func() { _ = inHand.Run(ctx) }()
			taken := make(chan *bus.Message, messages)
			ended := make(chan error, 1)
			go func() { ended <- stage.consume(ctx, b, room, inHand, func(m *bus.Message) { taken <- m }) }()
			// Nothing is done with what comes, until it is as much as there is room for.
			stuck(t, inHand)
			held := inHand.Len()
			if state := room.State(); int64(held)*size > limit || held < 4 || state.Used > limit {
				t.Errorf("%d messages of %d bytes are in hand, room %+v, want no more than %d bytes", held, size, state, limit)
			}
			for done := range messages {
				select {
				case m := <-taken:
					if err := m.AckWait(ctx); err != nil {
						t.Fatal(err)
					}
					inHand.Done(m)
				case <-ctx.Done():
					t.Fatalf("%d of %d messages came", done, messages)
				}
			}
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, domain.ErrUnavailable) {
				t.Error(err)
			}
			if used := room.State().Used; used != 0 {
				t.Errorf("%d bytes are still taken at the end", used)
			}
		})
	}
}

// TestAFullProcessKeepsItsPlace has the one that the server serves with records have no room
// for more, for longer than the server waits for one that is gone. No other is served
// meanwhile, and all comes to the first, in order.
func TestAFullProcessKeepsItsPlace(t *testing.T) {
	t.Parallel()
	const messages, size, limit = 40, 256 << 10, 4 << 20
	server := bustest.Start(t)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	consume := func(room *bus.Budget) (*bus.InHand, chan *bus.Message) {
		b := connect(t, server)
		if err := b.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		inHand, taken := bus.NewRecordsInHand(room), make(chan *bus.Message, 2*messages)
		running.Go(func() { _ = inHand.Run(ctx) })
		running.Go(func() { _ = b.ConsumeRecords(ctx, inHand, func(m *bus.Message) { taken <- m }) })
		return inHand, taken
	}
	first, taken := consume(bus.NewBudget(limit))
	for range messages {
		if err := nc.Publish("records", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	stuck(t, first)
	_, others := consume(bus.NewBudget(limit))
	select {
	case m := <-others:
		t.Fatalf("message %d went to another process", m.Sequence)
	case <-time.After(4 * time.Second): // the server waits for 1.6 s
	}
	for sequence := range uint64(messages) {
		select {
		case m := <-taken:
			if m.Sequence != sequence+1 {
				t.Fatalf("message %d came, want %d", m.Sequence, sequence+1)
			}
			m.Ack()
			first.Done(m)
		case m := <-others:
			t.Fatalf("message %d went to another process", m.Sequence)
		case <-ctx.Done():
			t.Fatalf("message %d did not come", sequence+1)
		}
	}
}

// stuck waits until nothing more comes in hand.
func stuck(t *testing.T, inHand *bus.InHand) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	last, same := 0, 0
	for deadline := time.Now().Add(30 * time.Second); same < 20 && time.Now().Before(deadline); {
		<-ticker.C
		n := inHand.Len()
		if n == last && n > 0 {
			same++
		} else {
			last, same = n, 0
		}
	}
}
