// Package natsconf_test runs a NATS server with the configuration in deploy/nats and
// tries the rights of its users: each may do what its process does, and no more.
package natsconf_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	webhook  = domain.WebhookID("0198aaaa-bbbb-7ccc-8ddd-eeeeffff0001")
	patience = 20 * time.Second
)

// read reads one of the shipped configurations, for a server on a free port.
func read(t *testing.T, file string) *server.Options {
	t.Helper()
	t.Setenv("NATS_API_PASSWORD", "kApi")
	t.Setenv("NATS_DISPATCHER_PASSWORD", "kDispatcher")
	t.Setenv("NATS_GATEWAY_PASSWORD", "kGateway")
	t.Setenv("NATS_PUBLISHER_PASSWORD", "kPublisher")
	t.Setenv("NATS_PARTNER_PASSWORD", "kPartner")
	options, err := server.ProcessConfigFile(withPartner(t, file))
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	options.Host, options.Port = "127.0.0.1", server.RANDOM_PORT
	options.HTTPHost, options.HTTPPort = "", 0
	options.StoreDir = t.TempDir()
	options.NoLog, options.NoSigs = true, true
	return options
}

// withPartner returns the configuration with one publisher more, added as publishers.conf says:
// user partner, who publishes for the account acme.
func withPartner(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{file, "publishers.conf"} {
		text, err := os.ReadFile("../../../deploy/nats/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "publishers.conf" {
			_, block, ok := bytes.Cut(text, []byte("\npublisher_default {"))
			if !ok {
				t.Fatal("publishers.conf has no block to copy")
			}
			text = append(text, "\npublisher_acme {"+strings.NewReplacer(
				"user: publisher", "user: partner", "_INBOX_publisher", "_INBOX_partner",
				"NATS_PUBLISHER_PASSWORD", "NATS_PARTNER_PASSWORD", "default.>", "acme.>",
			).Replace(string(block))...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, file)
}

// start starts a server.
func start(t *testing.T, options *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	return s
}

// run starts a server with the shipped configuration.
func run(t *testing.T) *server.Server {
	t.Helper()
	return start(t, read(t, "nats.conf"))
}

func url(s *server.Server, user, password string) string {
	return "nats://" + user + ":" + password + "@" + s.Addr().String()
}

// join connects as a process of Waybill does.
func join(t *testing.T, s *server.Server, name, password string) *bus.Bus {
	t.Helper()
	return joinAt(t, url(s, name, password), name, 1)
}

func joinAt(t *testing.T, urls, name string, replicas int) *bus.Bus {
	t.Helper()
	b := connect(t, urls, name, replicas)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Ensure(ctx); err != nil {
		t.Fatalf("make the streams as %s: %v", name, err)
	}
	return b
}

// connect is a process that leaves the streams to others.
func connect(t *testing.T, urls, name string, replicas int) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{
		URL: urls, Name: name, Replicas: replicas,
		Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)},
	})
	if err != nil {
		t.Fatalf("connect as %s: %v", name, err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.WaitReady(ctx); err != nil {
		t.Fatalf("connect as %s: %v", name, err)
	}
	return b
}

func TestServicesDoTheirWork(t *testing.T) {
	for _, first := range []string{"api", "dispatcher"} {
		t.Run(first+" starts first", func(t *testing.T) {
			s := run(t)
			var api, dispatcher *bus.Bus
			if first == "api" {
				api, dispatcher = join(t, s, "api", "kApi"), join(t, s, "dispatcher", "kDispatcher")
			} else {
				dispatcher, api = join(t, s, "dispatcher", "kDispatcher"), join(t, s, "api", "kApi")
			}
			work(t, api, dispatcher)
		})
	}
}

// work does once each thing that the two services do on the bus.
func work(t *testing.T, api, dispatcher *bus.Bus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	must := func(doing string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}
	wait := func(doing string, start func(done func(error))) {
		t.Helper()
		errs := make(chan error, 1)
		start(func(err error) { errs <- err })
		must(doing, <-errs)
	}

	for _, b := range []*bus.Bus{api, dispatcher} {
		for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamRecords} {
			_, err := b.Stream(name).State(ctx)
			must("ask how far "+name+" is", err)
		}
		_, err := b.Stream(bus.StreamEvents).Read(ctx, bus.SubjectsEvents, 1)
		must("read the oldest event", err)
		_, err = b.Stream(bus.StreamRecords).Read(ctx, bus.SubjectRecords, 1)
		must("read the oldest records", err)
		for stream, name := range map[string]string{bus.StreamEvents: bus.ConsumerFanout, bus.StreamRecords: bus.ConsumerRecord} {
			_, err := b.Stream(stream).ConsumerState(ctx, name)
			must("ask how far "+name+" is", err)
		}
		hear(ctx, t, bus.SubjectConfig, api, b)
	}
	hear(ctx, t, bus.SubjectKeys, api, api)

	stop, err := dispatcher.ListenAnswering(bus.SubjectConfig, func(_ []byte, answer func()) { answer() })
	must("listen", err)
	defer stop()
	answers := 0
	await(t, "an answer to an announcement", func() bool {
		answers = api.AnnounceAnswered(ctx, bus.SubjectConfig, nil, patience/10, patience)
		return answers > 0
	})
	if answers != 1 {
		t.Fatalf("%d answers to an announcement, want 1", answers)
	}

	event := domain.Event{
		Account: domain.DefaultAccount, ID: "evt_1", Type: domain.ShipmentCreated,
		Payload: []byte(`{}`), ReceivedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	wait("publish an event", func(done func(error)) {
		api.PublishEvent(bus.AcceptedEvent{Event: event, Version: 1}, 0, func(_ bool, err error) { done(err) })
	})
	one(ctx, t, "an event", fetch(dispatcher, bus.StreamEvents, bus.ConsumerFanout, bus.FetchOptions{Heartbeat: time.Second / 2}))

	task := &domain.Task{
		Delivery: domain.NewDeliveryID(event.Key(), webhook), Account: event.Account, Webhook: webhook,
		EventID: event.ID, EventType: event.Type, ReceivedAt: event.ReceivedAt, Body: event.Payload,
	}
	holds := dispatcher.Stream(bus.StreamHold)
	for name, b := range map[string]*bus.Bus{"api": api, "dispatcher": dispatcher} {
		must(name+" schedules", bustest.Schedule(ctx, b, task, time.Now()))
		one(ctx, t, "a due delivery", pull(dispatcher, webhook.Shard()))
		must(name+" holds", bustest.Hold(ctx, b, task))
		held, err := holds.Subjects(ctx, bus.HoldSubjects(webhook.Shard()))
		must("list hold queues", err)
		if held[bus.HoldSubject(webhook)] != 1 {
			t.Fatalf("the hold queues have %v, want 1 delivery", held)
		}
		entry, err := holds.Read(ctx, bus.HoldSubject(webhook), 0)
		must("read a hold queue", err)
		must("delete from a hold queue", holds.Delete(ctx, entry.Sequence))
	}
	must("hold", bustest.Hold(ctx, dispatcher, task))
	drain, err := holds.CreateConsumer(ctx, bus.HoldConsumer(webhook), bus.HoldSubject(webhook), 10, time.Minute)
	must("open a hold queue", err)
	var held []*bus.Message
	await(t, "a delivery of a hold queue", func() bool { // in a cluster its consumer must have a leader first
		err := drain.Fetch(ctx, 1, bus.FetchOptions{Wait: time.Second}, func(m *bus.Message) { held = append(held, m) })
		must("fetch from a hold queue", err)
		return len(held) == 1
	})
	must("acknowledge", held[0].AckWait(ctx))
	drain.Close()
	must("close a hold queue", holds.DeleteConsumer(ctx, bus.HoldConsumer(webhook)))

	wait("publish records", func(done func(error)) { dispatcher.PublishRecords([]byte("a batch"), done) })
	one(ctx, t, "records", fetch(dispatcher, bus.StreamRecords, bus.ConsumerRecord, bus.FetchOptions{Pinned: true}))

	wait("reject", func(done func(error)) {
		dispatcher.Reject(event.Account, bus.EventSubject(event.Account, event.Type), nil, []byte("?"), "no JSON", done)
	})
	await(t, "one message is listed as rejected", func() bool { // in a cluster a replica may not have it yet
		rejected, _, err := api.ListRejected(ctx, event.Account, time.Time{}, 10, 0)
		must("list what was rejected", err)
		return len(rejected) == 1
	})
}

// hear has one process announce something that another one listens for, until it is heard:
// in a cluster a server may not know yet who listens at another one.
func hear(ctx context.Context, t *testing.T, subject string, from, to *bus.Bus) {
	t.Helper()
	heard := make(chan struct{})
	var once sync.Once
	stop, err := to.Listen(subject, func([]byte) { once.Do(func() { close(heard) }) })
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer stop()
	if err := to.Sync(ctx); err != nil {
		t.Fatalf("wait for the subscription: %v", err)
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		from.Announce(subject, []byte("1"))
		select {
		case <-heard:
			return
		case <-ctx.Done():
			t.Fatal("an announcement did not arrive")
		case <-ticker.C:
		}
	}
}

// fetch consumes by fetches until ctx is done.
func fetch(b *bus.Bus, stream, name string, options bus.FetchOptions) func(context.Context, func(*bus.Message)) error {
	return func(ctx context.Context, handle func(*bus.Message)) error {
		consumer, err := b.Stream(stream).Consumer(ctx, name)
		if err != nil {
			return unlessDone(ctx, err)
		}
		defer consumer.Close()
		for options.Wait = 2 * time.Second; err == nil && ctx.Err() == nil; {
			if err = consumer.Fetch(ctx, 1, options, handle); errors.Is(err, bus.ErrAway) {
				err = nil
			}
		}
		return unlessDone(ctx, err)
	}
}

// pull consumes what is due in a shard until ctx is done.
func pull(b *bus.Bus, shard int) func(context.Context, func(*bus.Message)) error {
	return func(ctx context.Context, handle func(*bus.Message)) error {
		consumer, err := b.Stream(bus.StreamRetries).Consumer(ctx, bus.DueConsumer(shard))
		if err != nil {
			return unlessDone(ctx, err)
		}
		due, err := consumer.Pull(bus.PullOptions{Messages: 10, Expiry: 10 * time.Second, Heartbeat: 2 * time.Second})
		if err != nil {
			return unlessDone(ctx, err)
		}
		defer due.Close()
		for {
			m, err := due.Next(ctx)
			if err != nil {
				return unlessDone(ctx, err)
			}
			handle(m)
		}
	}
}

// unlessDone leaves out what comes of being asked to stop.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the test told it to stop
	}
	return err
}

// one takes one message and acknowledges it.
func one(ctx context.Context, t *testing.T, what string, consume func(context.Context, func(*bus.Message)) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got := 0
	err := consume(ctx, func(m *bus.Message) {
		got++
		m.Ack()
		cancel()
	})
	if err != nil || got == 0 {
		t.Fatalf("consume %s: %d came, error %v", what, got, err)
	}
}

// guest connects as any NATS client would; what the server refuses arrives on the channel.
func guest(t *testing.T, s *server.Server, user, password string) (*nats.Conn, <-chan error) {
	t.Helper()
	refused := make(chan error, 16)
	conn, err := nats.Connect(url(s, user, password), nats.CustomInboxPrefix("_INBOX_"+user),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(conn.Close)
	return conn, refused
}

// Each of the shipped users has what its process needs. A right that is taken away is named. To find that
// out stores nothing.
func TestRights(t *testing.T) {
	options := read(t, "nats.conf")
	s := start(t, options)
	password := map[string]string{"api": "kApi", "dispatcher": "kDispatcher", "gateway": "kGateway"}
	join(t, s, "api", "kApi")
	for name, secret := range password {
		b := connect(t, url(s, name, secret), name, 1)
		if r, err := b.Rights(t.Context()); err != nil || len(r.Missing)+len(r.Unpublished) > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for name, lost := range map[string][]string{"api": {"events.>", "d.>"}, "dispatcher": {"hold.>", "records"}} {
		narrow := read(t, "nats.conf")
		for _, u := range narrow.Users {
			if u.Username == name {
				u.Permissions.Publish.Allow = slices.DeleteFunc(slices.Clone(u.Permissions.Publish.Allow), func(subject string) bool { return slices.Contains(lost, subject) })
			}
		}
		b := connect(t, url(start(t, narrow), name, password[name]), name, 1)
		var want []string
		for _, subject := range lost {
			want = append(want, strings.TrimSuffix(subject, ">"))
		}
		r, err := b.Rights(t.Context())
		slices.Sort(r.Unpublished)
		slices.Sort(want)
		if err != nil || !slices.Equal(r.Unpublished, want) || len(r.Missing) > 0 {
			t.Errorf("%s without %v: %+v, %v", name, lost, r, err)
		}
	}
	streams, err := connect(t, url(s, "api", "kApi"), "api", 1).InspectStreams(t.Context())
	if err != nil || len(streams) == 0 {
		t.Fatalf("%d streams, %v", len(streams), err)
	}
	for _, stream := range streams {
		if stream.Messages > 0 {
			t.Errorf("%s holds %d messages", stream.Name, stream.Messages)
		}
	}
}

func TestPublisherPublishesEvents(t *testing.T) {
	s := run(t)
	serve(t, join(t, s, "api", "kApi"))
	conn, _ := guest(t, s, "publisher", "kPublisher")
	publish(t, conn)
}

// serve lets api take what publishers publish, as its process does.
func serve(t *testing.T, api *bus.Bus) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := api.ServePublishers(ctx, func(string) {}); err != nil {
			t.Errorf("serve publishers: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
}

// publish publishes an event as any producer would, as soon as somebody takes it.
func publish(t *testing.T, conn *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	var ack *jetstream.PubAck
	await(t, "an event to be stored", func() bool {
		ack, err = js.Publish(t.Context(), "events.default.shipment.created", []byte(`{}`), jetstream.WithMsgID("1"))
		if err != nil && !errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Fatalf("publish: %v", err)
		}
		return err == nil
	})
	if ack.Stream != bus.StreamEvents {
		t.Errorf("the event went to %s, want %s", ack.Stream, bus.StreamEvents)
	}
}

func TestRefused(t *testing.T) {
	passwords := map[string]string{"api": "kApi", "dispatcher": "kDispatcher", "gateway": "kGateway", "publisher": "kPublisher"}
	rows := []struct{ user, publish, subscribe string }{
		{user: "publisher", publish: "events.other.shipment.created"},
		{user: "publisher", publish: "d.0.x"},
		{user: "publisher", publish: "records"},
		{user: "publisher", publish: "rejected.default"},
		{user: "publisher", publish: "waybill.config"},
		{user: "publisher", publish: "waybill.keys"},
		{user: "publisher", publish: "$JS.API.STREAM.INFO.EVENTS"},
		{user: "publisher", publish: "$JS.API.STREAM.MSG.GET.EVENTS"},
		{user: "publisher", subscribe: "events.default.>"},
		{user: "publisher", subscribe: "_INBOX_api.>"},
		{user: "publisher", subscribe: "_INBOX.>"},
		{user: "publisher", subscribe: ">"},
		{user: "api", publish: "$JS.API.STREAM.DELETE.EVENTS"},
		{user: "api", publish: "$JS.API.STREAM.PURGE.RETRIES"},
		{user: "api", publish: "records"},
		{user: "api", publish: "$JS.API.CONSUMER.MSG.NEXT.EVENTS.fanout"},
		{user: "api", subscribe: "events.>"},
		{user: "api", subscribe: "_INBOX_dispatcher.>"},
		{user: "dispatcher", publish: "$JS.API.STREAM.DELETE.EVENTS"},
		{user: "dispatcher", publish: "$JS.API.STREAM.PURGE.HOLD"},
		{user: "dispatcher", publish: "$JS.API.CONSUMER.DELETE.EVENTS.fanout"},
		{user: "dispatcher", publish: "events.default.shipment.created"},
		{user: "dispatcher", subscribe: "events.>"},
		{user: "dispatcher", publish: "waybill.keys"},
		{user: "dispatcher", subscribe: "waybill.keys"},
		{user: "dispatcher", subscribe: "_INBOX_api.>"},
		{user: "gateway", publish: "events.default.shipment.created"},
		{user: "gateway", publish: "waybill.config"},
		{user: "gateway", publish: "waybill.keys"},
		{user: "gateway", publish: "_R_.x"},
		{user: "gateway", publish: "$JS.API.STREAM.INFO.EVENTS"},
		{user: "gateway", subscribe: "waybill.>"},
		{user: "gateway", subscribe: "events.>"},
		{user: "gateway", subscribe: "_INBOX_api.>"},
		{user: "dispatcher", publish: "waybill.tunnel.tun_x"},
		{user: "dispatcher", subscribe: "waybill.tunnel.>"},
		{user: "api", publish: "waybill.tunnel.tun_x"},
		{user: "api", subscribe: "waybill.tunnel.>"},
	}
	s := run(t)
	for _, row := range rows {
		t.Run(row.user+" "+row.publish+row.subscribe, func(t *testing.T) {
			conn, refused := guest(t, s, row.user, passwords[row.user])
			var err error
			if row.publish != "" {
				err = conn.Publish(row.publish, []byte("x"))
			} else {
				_, err = conn.SubscribeSync(row.subscribe)
			}
			if err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-refused:
				if !errors.Is(err, nats.ErrPermissionViolation) {
					t.Errorf("refused with %v, want %v", err, nats.ErrPermissionViolation)
				}
			case <-time.After(patience):
				t.Error("was not refused")
			}
		})
	}
}

// A gateway hears of deployments and of keys, and tells others of deployments.
func TestGatewayHears(t *testing.T) {
	s := run(t)
	api := join(t, s, "api", "kApi")
	gateway, second := connect(t, url(s, "gateway", "kGateway"), "gateway", 1), connect(t, url(s, "gateway", "kGateway"), "gateway", 1)
	for _, row := range []struct {
		from    *bus.Bus
		subject string
	}{{api, bus.SubjectKeys}, {api, bus.SubjectGateway}, {second, bus.SubjectGateway}} {
		heard := make(chan struct{}, 1)
		stop, err := gateway.Listen(row.subject, func([]byte) { heard <- struct{}{} })
		must(t, err)
		must(t, gateway.Sync(t.Context()))
		row.from.Announce(row.subject, nil)
		select {
		case <-heard:
		case <-time.After(patience):
			t.Errorf("a gateway does not hear of %s", row.subject)
		}
		stop()
	}
}

// Gateways ask each other for tunnels, and answer.
func TestGatewaysAskEachOther(t *testing.T) {
	s := run(t)
	asks, answers := connect(t, url(s, "gateway", "kGateway"), "gateway", 1), connect(t, url(s, "gateway", "kGateway"), "gateway", 1)
	stop, err := answers.TakeParts(bus.SubjectTunnel+"tun_x", "gateways", func(p bus.Part) {
		must(t, answers.SendPart(bus.Part{Subject: p.Reply, Head: p.Head + "!", Body: p.Body}))
	})
	must(t, err)
	defer stop()
	must(t, answers.Sync(t.Context()))
	heard := make(chan bus.Part, 2)
	box := bus.NewAnswers()
	end, err := asks.TakeParts(box, "", func(p bus.Part) { heard <- p })
	must(t, err)
	defer end()
	for subject, nobody := range map[string]bool{bus.SubjectTunnel + "tun_x": false, bus.SubjectTunnel + "tun_y": true} {
		must(t, asks.SendPart(bus.Part{Subject: subject, Reply: box, Head: "head", Body: []byte("body")}))
		select {
		case p := <-heard:
			if p.Nobody != nobody || !nobody && (p.Head != "head!" || string(p.Body) != "body") {
				t.Errorf("%s: %+v", subject, p)
			}
		case <-time.After(patience):
			t.Errorf("%s: no answer", subject)
		}
	}
}

func TestNobodyElseComesIn(t *testing.T) {
	s := run(t)
	for _, at := range []string{
		"nats://" + s.Addr().String(),
		url(s, "publisher", "kApi"),
		url(s, "api", ""),
		url(s, "someone", "kPublisher"),
	} {
		conn, err := nats.Connect(at)
		if err == nil {
			conn.Close()
			t.Errorf("%s was let in", at)
		}
	}
}

// The upgrade note in docs/operators.md: what was stored before there were NATS accounts is
// found again in its new folder.
func TestFilesFromBeforeTheAccountsAreTakenOver(t *testing.T) {
	options := read(t, "nats.conf")
	older := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: options.StoreDir, NoLog: true, NoSigs: true}
	before := start(t, older)
	if _, err := storeFor(joinAt(t, "nats://"+before.Addr().String(), "api", 1), domain.DefaultAccount, "evt_before"); err != nil {
		t.Fatalf("publish: %v", err)
	}
	before.Shutdown()
	before.WaitForShutdown()
	jetStream := filepath.Join(options.StoreDir, server.JetStreamStoreDir)
	if err := os.Rename(filepath.Join(jetStream, "$G"), filepath.Join(jetStream, "waybill")); err != nil {
		t.Fatal(err)
	}
	s := start(t, options)
	join(t, s, "api", "kApi")
	one(t.Context(), t, "the event from before", fetch(join(t, s, "dispatcher", "kDispatcher"), bus.StreamEvents, bus.ConsumerFanout, bus.FetchOptions{}))
}
