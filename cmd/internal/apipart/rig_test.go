package apipart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"waybill.dev/cmd/internal/apipart"
	"waybill.dev/services/api"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/body"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
)

// shared are the databases that each test gets a copy of.
var shared *storetest.Templates // initdb takes seconds: one for all tests

func TestMain(m *testing.M) {
	cluster, err := pgtest.Start(context.Background(), "", pgtest.Disposable("max_connections=300")...)
	if err != nil {
		panic(err) // a test that can't run fails
	}
	if shared, err = storetest.NewTemplates(context.Background(), cluster); err != nil {
		panic(err)
	}
	m.Run()
	if err := cluster.Stop(); err != nil {
		panic(err)
	}
	if err := goleak.Find(
		// nats-server leaves these behind when it is stopped while it makes a stream.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
	); err != nil {
		panic(err)
	}
}

const adminKey = "canary-admin-key-0123456789-abcdefghij"

// eachDatabase runs a test on both databases that Waybill works with.
func eachDatabase(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newRig(t, sqliteURL(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newRig(t, shared.Postgres(t)))
	})
}

func sqliteURL(t *testing.T) string {
	t.Helper()
	return "sqlite:" + shared.SQLite(t)
}

// rig is an API with routes behind it, on a real database and a real bus.
type rig struct {
	t        *testing.T
	nats     *bustest.Server
	keys     *seal.Keyring
	database string
	store    *store.Store
	url      string
	server   *httptest.Server
	service  *api.Service
	logs     *logBuffer
	registry *prometheus.Registry
	api      func(*api.Options)           // changes what it is made of; nil: nothing
	routes   func(*gateway.RoutesOptions) // likewise
}

func newRig(t *testing.T, database string) *rig {
	t.Helper()
	r := prepareRig(t, database)
	r.start()
	return r
}

// prepareRig returns a rig that is still to be started.
func prepareRig(t *testing.T, database string) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, nats: bustest.Start(t), keys: keys, database: database, logs: &logBuffer{}, registry: prometheus.NewRegistry()}
}

// compose opens the handles, which are closed when the test ends, and makes the services.
func (r *rig) compose() (*api.Service, *gateway.Routes, error) {
	t := r.t
	t.Helper()
	log := slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.store, err = store.Open(t.Context(), store.Options{URL: r.database, Keys: r.keys, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close() })
	eventually(t, "the migrations are applied", func() bool { _, err := r.store.Migrate(t.Context()); return err == nil })
	b, err := bus.Connect(bus.Options{
		URL: r.nats.URL(), Name: "api", Logger: log, MACKeys: r.keys.Derive("waybill event acceptance"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	policy := &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	memory := body.NewMemory(256<<20, r.registry)
	own := api.Options{
		Store: r.store, Bus: b, Logger: log, AdminKey: adminKey, Keyring: r.keys, Registerer: r.registry, Egress: policy, Memory: memory,
	}
	routes := gateway.RoutesOptions{Egress: policy, Memory: memory, Logger: log, Registerer: r.registry}
	if r.api != nil {
		r.api(&own)
	}
	if r.routes != nil {
		r.routes(&routes)
	}
	return apipart.Compose(own, routes)
}

// start runs the services; everything ends with the test.
func (r *rig) start() {
	t := r.t
	t.Helper()
	service, routes, err := r.compose()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- service.Run(ctx) }()
	go func() { ended <- routes.Run(ctx) }()
	server := httptest.NewServer(service.Handler())
	r.url, r.server, r.service = server.URL, server, service
	t.Cleanup(func() {
		server.Close()
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	})
	eventually(t, "events are taken", func() bool {
		return r.do(http.MethodGet, "/v1/rejected", "").status == http.StatusOK
	})
}

// logBuffer gathers what is logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// answer is a response that was read whole.
type answer struct {
	t      *testing.T
	call   string
	status int
	header http.Header
	body   []byte
}

type tweak func(*http.Request)

func header(name, value string) tweak {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func without(name string) tweak {
	return func(r *http.Request) { r.Header.Del(name) }
}

// do calls the service with the admin key. A body is JSON.
func (r *rig) do(method, path, text string, tweaks ...tweak) answer {
	r.t.Helper()
	if text != "" {
		tweaks = append([]tweak{header("Content-Type", "application/json")}, tweaks...)
	}
	return r.send(method, path, text, tweaks...)
}

// mostRefusals is how often insist tries again.
const mostRefusals = 20

// insist is do for tests that put a load on a slow machine: 503 means to try again, with
// the same ids. It is an error to need it too often: a time limit is too short then.
func (r *rig) insist(method, path, text string, tweaks ...tweak) answer {
	r.t.Helper()
	for n := 1; ; n++ {
		a := r.do(method, path, text, tweaks...)
		if a.status != http.StatusServiceUnavailable {
			return a
		}
		if n > mostRefusals {
			r.t.Errorf("%s was refused %d times", a.call, n)
			return a
		}
		<-time.After(200 * time.Millisecond)
	}
}

// want fails the test unless the answer has that status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.call, a.status, status, a.body)
	}
	return a
}

// object decodes the answer.
func (a answer) object() map[string]any {
	a.t.Helper()
	var v map[string]any
	a.into(&v)
	return v
}

func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("%s: decode %s: %v", a.call, a.body, err)
	}
}

// text returns a text member of the answer.
func (a answer) text(name string) string {
	a.t.Helper()
	text, ok := a.object()[name].(string)
	if !ok {
		a.t.Fatalf("%s: %s is no text in %s", a.call, name, a.body)
	}
	return text
}

// eventually waits until check is content, and fails the test after some time.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// messages returns what a stream holds, in order; empty while the bus is away.
func (r *rig) messages(stream string) []*jetstream.RawStreamMsg {
	r.t.Helper()
	conn, err := nats.Connect(r.nats.URL(), nats.Timeout(2*time.Second))
	if err != nil {
		return nil
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil
	}
	state := s.CachedInfo().State
	var list []*jetstream.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq && seq > 0; seq++ {
		if m, err := s.GetMsg(ctx, seq); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// register registers a webhook and returns its answer.
func (r *rig) register(text string) answer {
	r.t.Helper()
	return r.insist(http.MethodPost, "/v1/webhooks", text).want(http.StatusCreated)
}

const plainWebhook = `{"url":"http://127.0.0.1:9/hook","events":["shipment.created"]}`

// event returns a body for POST /v1/events.
func event(id string) string {
	return fmt.Sprintf(`{"id":%q,"type":"shipment.created","timestamp":"2026-01-02T03:04:05+01:00","data":{"shipmentId":"s-%s","n":0.1000}}`, id, id)
}

// deliver writes what a dispatcher would record: one attempt of an event's delivery.
func (r *rig) deliver(webhook, eventID string, status domain.Status, reason string) domain.DeliveryID {
	r.t.Helper()
	e, err := pipeline.New(r.store).GetEvent(r.t.Context(), domain.DefaultAccount, eventID)
	if err != nil {
		r.t.Fatal(err)
	}
	id := domain.NewDeliveryID(e.Key(), domain.WebhookID(webhook))
	now := time.Now().UTC().Truncate(time.Millisecond)
	outcome := domain.Outcome{
		Delivery: id, Account: e.Account, Webhook: domain.WebhookID(webhook), EventID: e.ID, EventType: e.Type,
		Status: status, Rev: 2, Attempts: 1, RunAttempts: 1, RunStartedAt: now, Reason: reason, UpdatedAt: now,
		Attempt: &domain.Attempt{
			ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: 120 * time.Millisecond,
			Status: 500, Class: domain.Class5xx, ResponseBody: "out of order",
		},
	}
	switch status {
	case domain.StatusRetrying:
		outcome.NextAttemptAt = now.Add(time.Hour)
	case domain.StatusHeld:
		outcome.InLane = true
	}
	batch := domain.RecordBatch{Outcomes: []domain.Outcome{outcome}, Settled: []domain.EventKey{e.Key()}}
	if _, err := recorder.New(r.store).Record(r.t.Context(), []domain.RecordBatch{batch}); err != nil {
		r.t.Fatal(err)
	}
	return id
}

func as(key string) tweak { return header("Authorization", "Bearer "+key) }

const bucketsPath = "/v1/accounts/default/key-buckets"

// bucket makes a bucket of the default account and returns its path.
func (r *rig) bucket(name string, more ...string) string {
	r.t.Helper()
	r.insist(http.MethodPost, bucketsPath, fmt.Sprintf(`{"name":%q%s}`, name, strings.Join(more, ""))).want(http.StatusCreated)
	return bucketsPath + "/" + name
}

// holder makes a consumer with those scopes and a key in a bucket of the default account.
func (r *rig) holder(bucket, name string, scopes ...domain.Scope) (path, key string) {
	r.t.Helper()
	words := make([]string, len(scopes))
	for i, scope := range scopes {
		words[i] = fmt.Sprintf("%q", scope)
	}
	a := r.insist(http.MethodPost, bucket+"/consumers?with-api-key=true",
		fmt.Sprintf(`{"name":%q,"scopes":[%s]}`, name, strings.Join(words, ","))).want(http.StatusCreated)
	return bucket + "/consumers/" + name, a.items("apiKeys")[0]["key"].(string)
}

// secondAccount makes an account and returns the admin key that it comes with.
func (r *rig) secondAccount(name string) string {
	r.t.Helper()
	return r.insist(http.MethodPost, "/v1/accounts", fmt.Sprintf(`{"name":%q}`, name)).want(http.StatusCreated).text("key")
}

// items returns an array of objects of the answer.
func (a answer) items(name string) []map[string]any {
	a.t.Helper()
	list, ok := a.object()[name].([]any)
	if !ok {
		a.t.Fatalf("%s: %s is no array in %s", a.call, name, a.body)
	}
	items := make([]map[string]any, len(list))
	for i, item := range list {
		if items[i], ok = item.(map[string]any); !ok {
			a.t.Fatalf("%s: %s has more than objects in %s", a.call, name, a.body)
		}
	}
	return items
}

// publish publishes one event.
func (r *rig) publish(text string) {
	r.t.Helper()
	r.insist(http.MethodPost, "/v1/events", text).want(http.StatusAccepted)
}

// due returns the tasks that became due, as the dispatchers will find them.
func (r *rig) due() map[domain.DeliveryID]*domain.Task {
	r.t.Helper()
	tasks := map[domain.DeliveryID]*domain.Task{}
	for _, m := range r.messages(bus.StreamRetries) {
		if !strings.HasPrefix(m.Subject, "d.") {
			continue
		}
		task, err := bus.ParseTask(m.Header, m.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		tasks[task.Delivery] = task
	}
	return tasks
}

// ownPlace is what tells one refusal from another.
var ownPlace = regexp.MustCompile(`"(instance|requestId)":"[^"]*"`)
