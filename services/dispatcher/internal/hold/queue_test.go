package hold

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const webhook = domain.WebhookID("0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001")

var discard = slog.New(slog.DiscardHandler)

func connect(t *testing.T, server *bustest.Server) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{URL: server.URL(), Name: "test", Logger: discard, MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait: %v", err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return b
}

// task is a delivery to hold.
func task() *domain.Task {
	received := time.UnixMilli(1_770_000_000_123).UTC()
	key := domain.EventKey{Account: "default", ID: "evt_1", ReceivedAt: received}
	return &domain.Task{
		Delivery: domain.NewDeliveryID(key, webhook), Account: "default", Webhook: webhook, EventID: "evt_1",
		EventType: domain.ShipmentException, ReceivedAt: received, Rev: 2, Body: []byte("{}"),
	}
}

func TestLaneKeepsOrderAndWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	k := reader{b, discard}
	const n = 5
	for i := range n {
		held := task()
		held.EventSeq = uint64(i + 1)
		if err := bustest.Hold(t.Context(), b, held); err != nil {
			t.Fatalf("hold: %v", err)
		}
	}
	queues, err := k.queues(t.Context(), webhook.Shard())
	if diff := cmp.Diff(map[domain.WebhookID]uint64{webhook: n}, queues); err != nil || diff != "" {
		t.Fatalf("hold queues: %v (-want +got):\n%s", err, diff)
	}
	queue, err := k.open(t.Context(), webhook, 100)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	messages, err := queue.fetch(t.Context(), admission.NewMessages(nil), n, time.Second)
	if err != nil || len(messages) != n {
		t.Fatalf("fetch: %d, %v", len(messages), err)
	}
	for _, m := range messages[:2] {
		if err := m.AckWait(t.Context()); err != nil {
			t.Fatalf("ack: %v", err)
		}
	}
	if err := queue.close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
	held, err := k.read(t.Context(), webhook, 0, 10, nil)
	if err != nil || len(held) != n-2 || held[0].task.EventSeq != 3 || held[1].task.EventSeq != 4 {
		t.Fatalf("the hold queue has %d deliveries, %v; want %d from the third on", len(held), err, n-2)
	}
	if one, err := k.read(t.Context(), webhook, held[1].sequence, 1, nil); err != nil || len(one) != 1 || one[0].task.EventSeq != 4 {
		t.Errorf("one from the fourth on: %d, %v; want it", len(one), err)
	}
	before := func(task *domain.Task) bool { return task.EventSeq < 5 }
	if some, err := k.read(t.Context(), webhook, 0, 10, before); err != nil || len(some) != 3 || some[2].task.EventSeq != 5 {
		t.Errorf("up to the first that is not before the fifth: %d, %v; want three, the fifth last", len(some), err)
	}
	if err := k.remove(t.Context(), held[0].sequence, held[2].sequence, held[0].sequence); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if left, err := k.read(t.Context(), webhook, 0, 10, nil); err != nil || len(left) != n-4 || left[0].task.EventSeq != 4 {
		t.Errorf("after the third and fifth are deleted the hold queue has %d, %v; want %d from the fourth on", len(left), err, n-4)
	}
}

// What a drain has in flight of large deliveries takes no more than the room, and all of them
// come in the end.
func TestADrainTakesOnlySoMuchOffTheBus(t *testing.T) {
	t.Parallel()
	const messages, size, limit = 120, 256 << 10, 8 << 20
	server := bustest.Start(t)
	b := connect(t, server)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range messages {
		if err := nc.Publish(bus.HoldSubject(webhook), make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	opened, err := reader{b, discard}.open(ctx, webhook, 1000)
	if err != nil {
		t.Fatal(err)
	}
	room := admission.NewBudget(limit)
	inFlight := admission.NewMessages(room)
	var held []*bus.Message
	// Nothing is done with what comes, until it is as much as there is room for.
	for room.State().Used+admission.LargestTask <= limit {
		list, err := opened.fetch(ctx, inFlight, 500, time.Second)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(held), err)
		}
		held = append(held, list...)
	}
	if n := int64(len(held)); n*size > limit || n < 4 || room.State().Used > limit {
		t.Errorf("%d messages of %d bytes are in flight, room %+v, want no more than %d bytes", n, size, room.State(), limit)
	}
	waiting, giveUp := context.WithTimeout(ctx, 100*time.Millisecond)
	if list, err := opened.fetch(waiting, inFlight, 500, time.Second); err == nil {
		t.Errorf("%d messages came though there is no room", len(list))
	}
	giveUp()
	for done := 0; done < messages; {
		for _, m := range held {
			if err := m.AckWait(ctx); err != nil {
				t.Fatal(err)
			}
			inFlight.Done(m)
		}
		if done += len(held); done < messages {
			if held, err = opened.fetch(ctx, inFlight, 500, time.Second); err != nil {
				t.Fatalf("after %d of %d messages: %v", done, messages, err)
			}
		}
	}
	if used := room.State().Used; used != 0 {
		t.Errorf("%d bytes are still taken at the end", used)
	}
}
