package dispatcher_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
)

// cluster is the Postgres of this test process, and templates are the databases that tests get
// copies of.
var (
	cluster   *pgtest.Cluster
	templates *storetest.Templates
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(serveBus) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "dispatcher")
	if err == nil {
		cluster, err = pgtest.Start(context.Background(), dir)
	}
	if err == nil {
		templates, err = storetest.NewTemplates(context.Background(), cluster)
	}
	if err != nil {
		panic(fmt.Sprintf("the Postgres row can't run: %v", err))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop Postgres:", err)
			code = max(code, 1)
		}
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// onBoth runs a test on SQLite and on Postgres.
func onBoth(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newBench(t, "sqlite:"+templates.SQLite(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newBench(t, templates.Postgres(t)))
	})
}

// database is the store with what the api writes and reads of it.
type database struct {
	*store.Store
	*pipeline.Pipeline
}

// bench is a store, a bus and whatever dispatchers a test starts.
type bench struct {
	t      testing.TB
	url    string
	key    string // as keys are read from it
	keys   *seal.Keyring
	store  database
	server *bustest.Server
	nats   string // where the bus is
	bus    *bus.Bus
	last   *dispatcher.Dispatcher // that was started
}

func newBench(tb testing.TB, url string) *bench {
	tb.Helper()
	server := bustest.Start(tb)
	b := newBenchOn(tb, url, server.URL())
	b.server = server
	return b
}

// newBenchOn is newBench with a bus that is there.
func newBenchOn(tb testing.TB, url, busURL string) *bench {
	tb.Helper()
	key := seal.Generate()
	keys, err := seal.Parse(key)
	if err != nil {
		tb.Fatal(err)
	}
	b := &bench{t: tb, url: url, key: key, keys: keys, nats: busURL}
	b.store = b.openStore()
	if _, err := b.store.Migrate(tb.Context()); err != nil {
		tb.Fatalf("migrate: %v", err)
	}
	b.bus = b.connect("api")
	if err := b.bus.Ensure(tb.Context()); err != nil {
		tb.Fatalf("ensure: %v", err)
	}
	return b
}

func (b *bench) openStore() database {
	b.t.Helper()
	return b.openUnder(b.url, b.keys)
}

// openUnder opens the bench's database at an address, with other keys.
func (b *bench) openUnder(url string, keys *seal.Keyring) database {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), store.Options{URL: url, Keys: keys, Logger: logger(b.t), MaxConns: 4})
	if err != nil {
		b.t.Fatalf("open store: %v", err)
	}
	b.t.Cleanup(func() { _ = s.Close() })
	return database{s, pipeline.New(s)}
}

func (b *bench) connect(name string) *bus.Bus {
	b.t.Helper()
	c, err := bus.Connect(bus.Options{URL: b.nats, Name: name, Logger: logger(b.t), MACKeys: b.keys.Derive("waybill event acceptance")})
	if err != nil {
		b.t.Fatalf("connect: %v", err)
	}
	b.t.Cleanup(c.Close)
	if err := c.WaitReady(b.t.Context()); err != nil {
		b.t.Fatalf("wait for bus: %v", err)
	}
	return c
}

// dispatch starts a dispatcher; stop ends it gracefully and waits for it.
func (b *bench) dispatch(change ...func(*dispatcher.Options)) (stop func()) {
	b.t.Helper()
	options := dispatcher.Options{
		Store: b.store.Store, Bus: b.connect("dispatcher"), Logger: logger(b.t), Metrics: prometheus.NewRegistry(), Version: "test",
		Egress: loopback(),
	}
	for _, c := range change {
		c(&options)
	}
	d, err := dispatcher.New(options)
	if err != nil {
		b.t.Fatalf("new dispatcher: %v", err)
	}
	b.last = d
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			b.t.Errorf("run dispatcher: %v", err)
		}
	})
	once := sync.OnceFunc(func() { cancel(); running.Wait() })
	b.t.Cleanup(once)
	b.eventually(func() error { return d.Ready(b.t.Context()) })
	return once
}

// webhook registers a webhook.
func (b *bench) webhook(url string, change ...func(*domain.Webhook)) domain.Webhook {
	b.t.Helper()
	w := domain.Webhook{
		Account: domain.DefaultAccount, URL: url, Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret(),
		Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight,
	}
	for _, c := range change {
		c(&w)
	}
	made, _, err := b.store.CreateWebhook(b.t.Context(), w, nil)
	if err != nil {
		b.t.Fatalf("create webhook: %v", err)
	}
	b.bus.Announce(bus.SubjectConfig, nil)
	return made
}

func (b *bench) update(id domain.WebhookID, change func(*domain.Webhook)) {
	b.t.Helper()
	_, _, err := b.store.UpdateWebhook(b.t.Context(), domain.DefaultAccount, id, func(w *domain.Webhook) error { change(w); return nil })
	if err != nil {
		b.t.Fatalf("update webhook: %v", err)
	}
	b.bus.Announce(bus.SubjectConfig, nil)
}

// accept does what api does with n events: commit, then publish. It returns their ids.
func (b *bench) accept(n int) []string {
	b.t.Helper()
	var ids []string
	var events []domain.Event
	for range n {
		id := "evt_" + uuid.NewString()
		ids = append(ids, id)
		e := envelope.Event{ID: id, Type: domain.ShipmentCreated, Timestamp: "2026-11-16T13:04:11Z", Data: []byte(`{"shipmentId":"shp_1","n":0.1000}`)}
		events = append(events, domain.Event{ID: id, Type: e.Type, Timestamp: e.Timestamp, Payload: e.Payload()})
	}
	receipts, err := b.store.Accept(b.t.Context(), []pipeline.Submission{{Account: domain.DefaultAccount, Events: events}})
	if err != nil {
		b.t.Fatalf("accept: %v", err)
	}
	done := make(chan error, n)
	for i, e := range events {
		e.Account, e.ReceivedAt = domain.DefaultAccount, receipts[0].Events[i].ReceivedAt
		b.bus.PublishEvent(bus.AcceptedEvent{Event: e, Version: receipts[0].Version}, 0, func(_ bool, err error) { done <- err })
	}
	for range n {
		if err := <-done; err != nil {
			b.t.Fatalf("publish: %v", err)
		}
	}
	return ids
}

// client returns a plain client, as a publisher would use.
func (b *bench) client() *nats.Conn {
	b.t.Helper()
	nc, err := nats.Connect(b.nats)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// deliveries waits until the log has want deliveries of a webhook, all in one status.
func (b *bench) deliveries(id domain.WebhookID, status domain.Status, want int) []domain.Delivery {
	b.t.Helper()
	var list []domain.Delivery
	b.eventually(func() error {
		var err error
		list, _, err = b.store.ListDeliveries(b.t.Context(), pipeline.DeliveryFilter{Account: domain.DefaultAccount, Webhook: id, Limit: 1000})
		if err != nil {
			return err
		}
		byStatus := map[domain.Status]int{}
		for _, d := range list {
			byStatus[d.Status]++
		}
		if len(list) != want || byStatus[status] != want {
			return fmt.Errorf("deliveries by status: %v, want %d %s", byStatus, want, status)
		}
		return nil
	})
	return list
}

// settled waits until nothing is left to do for any event.
func (b *bench) settled() {
	b.t.Helper()
	b.eventually(func() error {
		at, some, err := b.store.OldestUnsettled(b.t.Context())
		if err == nil && some {
			err = fmt.Errorf("unsettled since %s", at)
		}
		return err
	})
}

// backlog is how many messages there are on the bus that are not done.
type backlog struct{ Events, Records, Scheduled, Held uint64 }

// backlog asks the bus.
func (b *bench) backlog() (left backlog, err error) {
	b.t.Helper()
	waiting := func(stream, consumer string) uint64 {
		state, stateErr := b.bus.Stream(stream).ConsumerState(b.t.Context(), consumer)
		err = errors.Join(err, stateErr)
		return state.Pending + uint64(state.Unacknowledged)
	}
	messages := func(stream string) uint64 {
		state, stateErr := b.bus.Stream(stream).State(b.t.Context())
		err = errors.Join(err, stateErr)
		return state.Messages
	}
	left = backlog{
		Events: waiting(bus.StreamEvents, bus.ConsumerFanout), Records: waiting(bus.StreamRecords, bus.ConsumerRecord),
		Scheduled: messages(bus.StreamRetries), Held: messages(bus.StreamHold),
	}
	return left, err
}

// eventually waits until check returns nil: for 40 s after it last said something else, as a
// busy machine is slow, and for 2 minutes at most.
func (b *bench) eventually(check func() error) {
	b.t.Helper()
	var last string
	deadline, latest := time.Now(), time.Now().Add(2*time.Minute)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		now := time.Now()
		if text := err.Error(); text != last {
			last, deadline = text, now.Add(40*time.Second)
		}
		if now.After(deadline) || now.After(latest) {
			b.t.Fatalf("not in time: %v", err)
		}
		<-ticker.C
	}
}

// verbose shows the dispatcher's log: go test -args -waybill.log
var verbose = flag.Bool("waybill.log", false, "show the dispatcher's log")

func logger(tb testing.TB) *slog.Logger {
	tb.Helper()
	if !*verbose {
		return discard
	}
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// ear notes that a dispatcher says that the bus did not store or acknowledge a delivery in time.
type ear struct {
	slog.Handler
	late *atomic.Bool
}

func (e ear) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || e.Handler.Enabled(ctx, level)
}

func (e ear) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "deliveries can't be stored on the bus; trying on", "due delivery could not be acknowledged; it may be repeated":
		e.late.Store(true)
	}
	if !e.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return e.Handler.Handle(ctx, r)
}

// call is one POST that a sink saw.
type call struct {
	id      string
	attempt string
	header  http.Header
	body    []byte
	at      time.Time
}

// sink is a receiver.
type sink struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	answer func(call) int
	now    int
	most   int // in flight at once
}

func newSink(t *testing.T, answer func(call) int) *sink {
	t.Helper()
	s := &sink{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := call{r.Header.Get("webhook-id"), r.Header.Get("Waybill-Attempt"), r.Header, body, time.Now()}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	status := http.StatusOK
	if s.answer != nil {
		status = s.answer(c)
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	w.WriteHeader(status)
}

// seen returns the POSTs so far and the ids in order of first arrival.
func (s *sink) seen() (calls []call, ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if !slices.Contains(ids, c.id) {
			ids = append(ids, c.id)
		}
	}
	return slices.Clone(s.calls), ids
}

func (s *sink) set(answer func(call) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// verify checks every call with the independent library.
func verify(t *testing.T, secret domain.Secret, calls []call) {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if err := wh.Verify(c.body, c.header); err != nil {
			t.Errorf("event %s: %v", c.id, err)
		}
	}
}

func filter(id domain.WebhookID) pipeline.DeliveryFilter {
	return pipeline.DeliveryFilter{Account: domain.DefaultAccount, Webhook: id, Limit: 1000}
}
