package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	b := dial(t, server, keys...)
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	return b
}

// dial is connect without the streams.
func dial(t *testing.T, server *bustest.Server, keys ...[]byte) *bus.Bus {
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
	return b
}

func publish(t *testing.T, b *bus.Bus, a bus.AcceptedEvent, round int) (duplicate bool) {
	t.Helper()
	duplicate, err := tryPublish(b, a, round)
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return duplicate
}

func tryPublish(b *bus.Bus, a bus.AcceptedEvent, round int) (duplicate bool, err error) {
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

// events takes what EVENTS hands out.
func events(b *bus.Bus) func(context.Context, func(*bus.Message)) error {
	return fetched(b, bus.StreamEvents, bus.ConsumerFanout, bus.FetchOptions{Wait: 200 * time.Millisecond})
}

// fetched takes what a consumer hands out.
func fetched(b *bus.Bus, stream, name string, options bus.FetchOptions) func(context.Context, func(*bus.Message)) error {
	return func(ctx context.Context, handle func(*bus.Message)) error {
		consumer, err := b.Stream(stream).Consumer(ctx, name)
		if err != nil {
			return unlessDone(ctx, err)
		}
		defer consumer.Close()
		for err == nil && ctx.Err() == nil {
			if err = consumer.Fetch(ctx, bus.MaxFetch, options, handle); errors.Is(err, bus.ErrAway) {
				err = nil
			}
		}
		return unlessDone(ctx, err)
	}
}

// due takes what is due in a shard.
func due(b *bus.Bus, shard int) func(context.Context, func(*bus.Message)) error {
	return func(ctx context.Context, handle func(*bus.Message)) error {
		consumer, err := b.Stream(bus.StreamRetries).Consumer(ctx, bus.DueConsumer(shard))
		if err != nil {
			return err
		}
		pull, err := consumer.Pull(bus.PullOptions{Messages: 10, Expiry: 10 * time.Second, Heartbeat: 2 * time.Second})
		if err != nil {
			return err
		}
		defer pull.Close()
		for err == nil {
			var m *bus.Message
			if m, err = pull.Next(ctx); err == nil {
				handle(m)
			}
		}
		return unlessDone(ctx, err)
	}
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the test told it to stop
	}
	return err
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
	sent := bus.AcceptedEvent{Event: event(), Version: 42, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
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
	publish(t, b, bus.AcceptedEvent{Event: event(), Version: 1}, 0)
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
		RunStartedAt: received.Add(time.Second), Rev: 2004, Test: true, Forge: domain.ForgeOldTime, Overflowed: true, Request: "req1",
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
		if err := bustest.Schedule(t.Context(), b, t1, at); err != nil {
			t.Fatalf("schedule: %v", err)
		}
	}
	m := take(t, 1, due(b, webhook.Shard()))[0]
	if left := time.Until(at); left > 250*time.Millisecond {
		t.Errorf("due %s early", left)
	}
	if told := bus.DueAt(m.Header()); told.Sub(at).Abs() > time.Microsecond {
		t.Errorf("due at %s, want %s", told, at)
	}
	got, err := bus.ParseTask(m.Header(), m.Body())
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if diff := cmp.Diff(second, got); diff != "" {
		t.Errorf("task changed on its way (-sent +got):\n%s", diff)
	}
	left, err := b.Stream(bus.StreamRetries).State(t.Context())
	if err != nil || left.Messages != 0 {
		t.Errorf("left in RETRIES: %d, %v; want nothing", left.Messages, err)
	}
}

// What is due sooner than the server looks at schedules is handed out at once, with its time.
// Published twice, it is one.
func TestScheduledDeliveryThatIsDueSoon(t *testing.T) {
	t.Parallel()
	b := connect(t, bustest.Start(t))
	soon, now := task(), task()
	now.Delivery += "1"
	began := time.Now()
	for range 2 {
		if err := bustest.Schedule(t.Context(), b, soon, time.Now().Add(240*time.Millisecond)); err != nil {
			t.Fatalf("schedule: %v", err)
		}
	}
	if err := bustest.Schedule(t.Context(), b, now, time.Now()); err != nil {
		t.Fatalf("schedule: %v", err)
	}
	dues := make(map[domain.DeliveryID]time.Time)
	for _, m := range take(t, 2, due(b, webhook.Shard())) {
		got, err := bus.ParseTask(m.Header(), m.Body())
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		dues[got.Delivery] = bus.DueAt(m.Header())
	}
	if at, ok := dues[soon.Delivery]; !ok || at.Before(began.Add(239*time.Millisecond)) {
		t.Errorf("what is due soon: %t, at %s", ok, at)
	}
	if at, ok := dues[now.Delivery]; !ok || !at.IsZero() {
		t.Errorf("what is due now: %t, at %s", ok, at)
	}
	left, err := b.Stream(bus.StreamRetries).State(t.Context())
	if err != nil || left.Messages != 0 {
		t.Errorf("left in RETRIES: %d, %v; want nothing", left.Messages, err)
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
	if _, err := listener.Stream(bus.StreamEvents).State(t.Context()); err != nil { // by now the subscriptions hold
		t.Fatal(err)
	}
	if n := announcer.AnnounceAnswered(t.Context(), "waybill.config", []byte("7"), 2*time.Second, 20*time.Second); n != 2 || acted.Load() != 2 {
		t.Errorf("%d answers, %d acted; want 2", n, acted.Load())
	}
}

// One who needs longer than nobody may say anything is waited for, also when another one has answered at once.
func TestAnnouncerWaitsForWhoIsSlow(t *testing.T) {
	t.Parallel()
	const quiet = 50 * time.Millisecond
	server := bustest.Start(t)
	announcer, listener := connect(t, server), connect(t, server)
	late, done := make(chan func(), 1), make(chan int, 1)
	for _, handle := range []func([]byte, func()){
		func(_ []byte, answer func()) { answer() },
		func(_ []byte, answer func()) { late <- answer },
	} {
		stop, err := listener.ListenAnswering("waybill.config", handle)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	if err := listener.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { done <- announcer.AnnounceAnswered(t.Context(), "waybill.config", nil, quiet, time.Minute) }()
	answer := <-late
	select {
	case n := <-done:
		t.Fatalf("it waits no longer, with %d answers", n)
	case <-time.After(10 * quiet):
	}
	answer()
	if n := <-done; n != 2 {
		t.Errorf("%d answers, want 2", n)
	}
}

// An announcer of an earlier version takes whatever comes on its reply for an answer.
func TestHearingIsNoAnswer(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	listener := connect(t, server)
	answers := make(chan func(), 1)
	stop, err := listener.ListenAnswering("waybill.config", func(_ []byte, answer func()) { answers <- answer })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	conn, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	reply := nats.NewInbox()
	sub, err := conn.SubscribeSync(reply)
	if err := errors.Join(err, listener.Sync(t.Context()), conn.PublishRequest("waybill.config", reply, nil)); err != nil {
		t.Fatal(err)
	}
	answer := <-answers
	if err := listener.Sync(t.Context()); err != nil { // what was said before has arrived
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := sub.Pending(); n != 0 {
		t.Errorf("%d messages came before the answer", n)
	}
	answer()
	if _, err := sub.NextMsg(time.Minute); err != nil {
		t.Error(err)
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
