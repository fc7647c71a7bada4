package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const webhook = domain.WebhookID("0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001")

var key = make([]byte, 32)

func connect(t *testing.T, server *bustest.Server, keys ...[]byte) *bus.Bus {
	t.Helper()
	if keys == nil {
		keys = [][]byte{key}
	}
	b, err := bus.Connect(bus.Options{URL: server.URL(), Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: keys})
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

func publish(t *testing.T, b *bus.Bus, a bus.Accepted, round int) (duplicate bool) {
	t.Helper()
	duplicate, err := tryPublish(b, a, round)
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return duplicate
}

func tryPublish(b *bus.Bus, a bus.Accepted, round int) (duplicate bool, err error) {
	type result struct {
		duplicate bool
		err       error
	}
	results := make(chan result, 1)
	b.PublishEvent(a, round, func(duplicate bool, err error) { results <- result{duplicate, err} })
	r := <-results
	return r.duplicate, r.err
}

// take consumes until want messages came, and acknowledges them.
func take(t *testing.T, want int, consume func(ctx context.Context, handle func(*bus.Message)) error) []*bus.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []*bus.Message
	if err := consume(ctx, func(m *bus.Message) {
		m.Ack()
		if got = append(got, m); len(got) == want {
			cancel()
		}
	}); err != nil {
		t.Fatalf("consume: %v", err)
	}
	if len(got) < want {
		t.Fatalf("%d messages came, want %d", len(got), want)
	}
	return got
}

func events(b *bus.Bus) func(context.Context, func(*bus.Message)) error {
	return func(ctx context.Context, handle func(*bus.Message)) error {
		return b.ConsumeEvents(ctx, bus.NewInHandOf(nil), handle)
	}
}

func event() domain.Event {
	return domain.Event{
		Account: "default", ID: "evt_1", Type: domain.ShipmentCreated,
		Payload: []byte(`{"id":"evt_1"}`), ReceivedAt: time.UnixMilli(1_770_000_000_123).UTC(),
	}
}

func TestAcceptedEventComesAsPublished(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	sent := bus.Accepted{Event: event(), Version: 42, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	if publish(t, b, sent, 0) {
		t.Fatal("first publication counts as a repeat")
	}
	if !publish(t, b, sent, 0) {
		t.Error("second publication of the same round is no repeat")
	}
	if publish(t, b, sent, 1) {
		t.Error("a later round counts as a repeat")
	}
	for round, m := range take(t, 2, events(b)) {
		sent.Round = round
		got, ok := b.ParseAccepted(m.Subject(), m.Header(), m.Body())
		if !ok {
			t.Fatal("own publication is not recognised")
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("event changed on its way (-sent +got):\n%s", diff)
		}
	}
}

func TestForgedAcceptanceIsNotBelieved(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	publish(t, b, bus.Accepted{Event: event(), Version: 1}, 0)
	m := take(t, 1, events(b))[0]
	header := m.Header()
	for name, forged := range map[string]struct {
		subject string
		header  map[string][]string
		body    string
	}{
		"another body":    {m.Subject(), header, `{"id":"evt_2"}`},
		"another subject": {"events.other.shipment.created", header, string(m.Body())},
		"no header":       {m.Subject(), nil, string(m.Body())},
		"two headers":     {m.Subject(), map[string][]string{"Waybill-Accepted": append(header["Waybill-Accepted"], "x")}, string(m.Body())},
		"nonsense":        {m.Subject(), map[string][]string{"Waybill-Accepted": {"evt_1 1 1 AAAA"}}, string(m.Body())},
	} {
		if _, ok := b.ParseAccepted(forged.subject, forged.header, []byte(forged.body)); ok {
			t.Errorf("%s: believed", name)
		}
	}
	rotated := connect(t, server, []byte("another key of thirty-two bytes!"), key)
	if _, ok := rotated.ParseAccepted(m.Subject(), header, m.Body()); !ok {
		t.Error("a message from before a key rotation is not recognised")
	}
}

func task() *domain.Task {
	received := time.UnixMilli(1_770_000_000_123).UTC()
	key := domain.EventKey{Account: "default", ID: "evt_1", ReceivedAt: received}
	return &domain.Task{
		Delivery: domain.NewDeliveryID(key, webhook), Account: "default", Webhook: webhook, EventID: "evt_1",
		EventType: domain.ShipmentException, EventSeq: 7, ReceivedAt: received, Attempts: 3, RunAttempts: 2,
		RunStartedAt: received.Add(time.Second), Rev: 2004, Test: true, Spilled: true, Request: "req1",
		HeldAt: received.Add(time.Minute), Body: []byte("{}"),
	}
}

func TestScheduledDeliveryBecomesDueOnceAndWhole(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	first, second := task(), task()
	second.Attempts = 4
	at := time.Now().Add(700 * time.Millisecond)
	for _, t1 := range []*domain.Task{first, second} { // the later replaces the earlier
		if err := b.ScheduleWait(t.Context(), t1, at); err != nil {
			t.Fatalf("schedule: %v", err)
		}
	}
	m := take(t, 1, func(ctx context.Context, handle func(*bus.Message)) error {
		return b.ConsumeDue(ctx, webhook.Shard(), nil, handle)
	})[0]
	if now := time.Now(); now.Before(at) {
		t.Errorf("due %s early", at.Sub(now))
	}
	got, err := bus.ParseTask(m.Header(), m.Body())
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if diff := cmp.Diff(second, got); diff != "" {
		t.Errorf("task changed on its way (-sent +got):\n%s", diff)
	}
	left, err := b.Backlog(t.Context())
	if err != nil || left.Scheduled != 0 {
		t.Errorf("left in RETRIES: %d, %v; want nothing", left.Scheduled, err)
	}
}

func TestLaneKeepsOrderAndWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	const n = 5
	for i := range n {
		held := task()
		held.EventSeq = uint64(i + 1)
		if err := b.HoldWait(t.Context(), held); err != nil {
			t.Fatalf("hold: %v", err)
		}
	}
	lanes, err := b.Lanes(t.Context(), webhook.Shard())
	if diff := cmp.Diff(map[domain.WebhookID]uint64{webhook: n}, lanes); err != nil || diff != "" {
		t.Fatalf("lanes: %v (-want +got):\n%s", err, diff)
	}
	lane, err := b.OpenLane(t.Context(), webhook, 100)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	messages, err := lane.Fetch(t.Context(), bus.NewInHandOf(nil), n, time.Second)
	if err != nil || len(messages) != n {
		t.Fatalf("fetch: %d, %v", len(messages), err)
	}
	for _, m := range messages[:2] {
		if err := m.AckWait(t.Context()); err != nil {
			t.Fatalf("ack: %v", err)
		}
	}
	if err := lane.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
	held, err := b.LaneRead(t.Context(), webhook, 0, 10, nil)
	if err != nil || len(held) != n-2 || held[0].Task.EventSeq != 3 || held[1].Task.EventSeq != 4 {
		t.Fatalf("the lane holds %d deliveries, %v; want %d from the third on", len(held), err, n-2)
	}
	if one, err := b.LaneRead(t.Context(), webhook, held[1].Sequence, 1, nil); err != nil || len(one) != 1 || one[0].Task.EventSeq != 4 {
		t.Errorf("one from the fourth on: %d, %v; want it", len(one), err)
	}
	before := func(task *domain.Task) bool { return task.EventSeq < 5 }
	if some, err := b.LaneRead(t.Context(), webhook, 0, 10, before); err != nil || len(some) != 3 || some[2].Task.EventSeq != 5 {
		t.Errorf("up to the first that is not before the fifth: %d, %v; want three, the fifth last", len(some), err)
	}
	if err := b.LaneDelete(t.Context(), held[0].Sequence, held[2].Sequence, held[0].Sequence); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if left, err := b.LaneRead(t.Context(), webhook, 0, 10, nil); err != nil || len(left) != n-4 || left[0].Task.EventSeq != 4 {
		t.Errorf("after the third and fifth are deleted the lane holds %d, %v; want %d from the fourth on", len(left), err, n-4)
	}
}

func TestRecordsComeAsPublishedInOrder(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	now := time.UnixMilli(1_770_000_000_123).UTC()
	var sent []domain.RecordBatch
	for i := range 3 {
		sent = append(sent, domain.RecordBatch{
			Outcomes: []domain.Outcome{{
				Delivery: task().Delivery, Account: "default", Webhook: webhook, Status: domain.StatusDelivered, Rev: int64(i),
				UpdatedAt: now, Attempt: &domain.Attempt{ID: "a", Number: 1, StartedAt: now, Duration: 1500 * time.Microsecond, Status: 200, ResponseBody: "ok \"✓\""},
			}},
			Events:  []domain.Event{event()},
			Settled: []domain.EventKey{event().Key()},
			Health:  []domain.HealthChange{{Webhook: webhook, FailingSince: now, At: now}},
		})
	}
	for i := range sent {
		stored := make(chan error, 1)
		b.PublishRecords(&sent[i], func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	var got []domain.RecordBatch
	for _, m := range take(t, len(sent), func(ctx context.Context, handle func(*bus.Message)) error {
		return b.ConsumeRecords(ctx, bus.NewInHandOf(nil), handle)
	}) {
		batch, err := bus.ParseRecords(m.Body())
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		got = append(got, batch)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("records changed on their way (-sent +got):\n%s", diff)
	}
}

func TestRejectedAreListedNewestFirstForTheirAccount(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	for i, account := range []string{"a", "b", "a", "a"} {
		stored := make(chan error, 1)
		header := map[string][]string{nats.MsgIdHdr: {"same"}, "X-Kept": {"yes"}}
		b.Reject(account, "events."+account+".x", header, fmt.Appendf(nil, "%d", i), "because", func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatalf("reject: %v", err)
		}
	}
	var bodies []string
	before := uint64(0)
	for page := 0; page == 0 || before > 0; page++ {
		list, next, err := b.ListRejected(t.Context(), "a", time.Time{}, 2, before)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, r := range list {
			bodies = append(bodies, string(r.Body))
			if r.Reason != "because" || r.Subject != "events.a.x" || r.Time.IsZero() {
				t.Errorf("entry %+v lacks subject, time or reason", r)
			}
		}
		before = next
	}
	if diff := cmp.Diff([]string{"3", "2", "0"}, bodies); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestConsumptionGoesOnAfterTheBusWasLost(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	before, err := b.Streams(t.Context())
	if err != nil {
		t.Fatalf("created: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := make(chan string, 10)
	var consuming sync.WaitGroup
	consuming.Go(func() {
		inHand := bus.NewInHandOf(nil)
		_ = b.ConsumeEvents(ctx, inHand, func(m *bus.Message) { m.Ack(); inHand.Done(m); got <- string(m.Body()) })
	})
	publish(t, b, bus.Accepted{Event: event()}, 0)
	if body := <-got; body != `{"id":"evt_1"}` {
		t.Errorf("first event: %s", body)
	}
	server.Stop()
	if err := b.Ready(); err == nil {
		eventually(t, func() error {
			if b.Ready() == nil {
				return errors.New("bus still counts as ready")
			}
			return nil
		})
	}
	failed := make(chan error, 1)
	b.PublishEvent(bus.Accepted{Event: event()}, 0, func(_ bool, err error) { failed <- err })
	if err := <-failed; !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("publication without a server: %v, want ErrUnavailable", err)
	}
	server.Wipe()
	server.Start()
	eventually(t, func() error {
		done := make(chan error, 1)
		b.PublishEvent(bus.Accepted{Event: event()}, 0, func(_ bool, err error) { done <- err })
		return <-done
	})
	select {
	case <-got:
	case <-ctx.Done():
		t.Fatal("no event came after the bus was made anew")
	}
	after, err := b.Streams(t.Context())
	if err != nil || !after[bus.StreamEvents].Lost(before[bus.StreamEvents].StreamMark) {
		t.Errorf("the new stream can't be told from the old one: %v, %v", after, err)
	}
	cancel()
	consuming.Wait()
}

func TestOnlyOneConsumerOfAShardIsServed(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	one, two := connect(t, server), connect(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	served := map[string]int{}
	total := make(chan struct{}, 100)
	var consuming sync.WaitGroup
	for name, b := range map[string]*bus.Bus{"one": one, "two": two} {
		consuming.Go(func() {
			_ = b.ConsumeDue(ctx, webhook.Shard(), nil, func(m *bus.Message) {
				m.Ack()
				mu.Lock()
				served[name]++
				mu.Unlock()
				total <- struct{}{}
			})
		})
	}
	for i := range 40 {
		due := task()
		due.Delivery = domain.NewDeliveryID(domain.EventKey{Account: "default", ID: strconv.Itoa(i)}, webhook)
		if err := one.ScheduleWait(t.Context(), due, time.Now()); err != nil {
			t.Fatalf("schedule: %v", err)
		}
	}
	for range 40 {
		<-total
	}
	cancel()
	consuming.Wait()
	if len(served) != 1 {
		t.Errorf("served: %v, want one of them alone", served)
	}
}

// After Sync, a subscription hears what others announce.
func TestSync(t *testing.T) {
	t.Parallel()
	s := bustest.Start(t)
	one, other := connect(t, s), connect(t, s)
	heard := make(chan string, 1)
	stop, err := one.Listen(bus.SubjectKeys, func(body []byte) { heard <- string(body) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := one.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Announce(bus.SubjectKeys, []byte("x"))
	select {
	case body := <-heard:
		if body != "x" {
			t.Errorf("heard %q", body)
		}
	case <-time.After(20 * time.Second):
		t.Error("the announcement was not heard")
	}
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := one.Sync(ctx); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("without a server: %v, want %v", err, domain.ErrUnavailable)
	}
}

func TestAnnouncerHearsThoseWhoActed(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	announcer, listener := connect(t, server), connect(t, server)
	if n := announcer.AnnounceAnswered(t.Context(), "waybill.config", []byte("7"), 20*time.Millisecond, time.Second); n != 0 {
		t.Errorf("%d answers where nobody listens", n)
	}
	var acted atomic.Int32
	for range 2 {
		stop, err := listener.ListenAnswering("waybill.config", func(body []byte, answer func()) {
			if string(body) == "7" {
				acted.Add(1)
			}
			answer()
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	if _, err := listener.Backlog(t.Context()); err != nil { // by now the subscriptions hold
		t.Fatal(err)
	}
	if n := announcer.AnnounceAnswered(t.Context(), "waybill.config", []byte("7"), 2*time.Second, 20*time.Second); n != 2 || acted.Load() != 2 {
		t.Errorf("%d answers, %d acted; want 2", n, acted.Load())
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	within(t, time.Minute, check)
}

func within(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-ticker.C
	}
}
