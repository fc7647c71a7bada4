package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/apitest"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/transcript"
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

// tables are what the tests look at behind the api's back, and what a dispatcher does.
type tables struct {
	*store.Store
	*accounts.Accounts
	*access.Access
	*auditlog.Log
	*pipeline.Pipeline
	*recorder.Recorder
	*deployments.Deployments
}

func newTables(db *store.Store) tables {
	return tables{db, accounts.New(db), access.New(db), auditlog.New(db), pipeline.New(db), recorder.New(db), deployments.New(db)}
}

// rig is a whole api with a real database and a real bus.
type rig struct {
	t        *testing.T
	nats     *bustest.Server
	keys     *seal.Keyring
	database string
	store    tables
	bus      *bus.Bus
	service  *api.Service
	url      string
	logs     *logBuffer
	registry *prometheus.Registry
	stop     func() // ends the service; the test's end does so, too
	options  func(*api.Options)
	unready  bool    // the database is left without its tables
	limit    float64 // requests a second of an account

	refused *atomic.Int64 // answers with 503 after which insist has tried again
}

func newRig(t *testing.T, database string) *rig {
	t.Helper()
	r := prepareRig(t, database)
	r.start()
	eventually(t, "the streams are there", func() bool { _, err := r.bus.Stream(bus.StreamRecords).State(t.Context()); return err == nil })
	return r
}

// prepareRig returns a rig that is still to be started.
func prepareRig(t *testing.T, database string) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, nats: bustest.Start(t), keys: keys, database: database, logs: &logBuffer{}, refused: new(atomic.Int64)}
}

// open opens the handles; they are closed when the test ends.
func (r *rig) open() *slog.Logger {
	t := r.t
	t.Helper()
	log := slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	db, err := store.Open(t.Context(), store.Options{URL: r.database, Keys: r.keys, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r.store = newTables(db)
	if !r.unready {
		if _, err := r.store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.bus, err = bus.Connect(bus.Options{
		URL: r.nats.URL(), Name: "api", Logger: log, MACKeys: r.keys.Derive("waybill event acceptance"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.bus.Close)
	return log
}

func (r *rig) apiOptions(log *slog.Logger) api.Options {
	r.registry = prometheus.NewRegistry()
	return api.Options{
		Store: r.store.Store, Bus: r.bus, Logger: log, AdminKey: adminKey, Keyring: r.keys, Registerer: r.registry, RateLimit: r.limit,
		Egress: &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}, Gateway: functions{r},
	}
}

// start opens the handles and runs the service; everything ends with the test.
func (r *rig) start() {
	t := r.t
	t.Helper()
	options := r.apiOptions(r.open())
	if r.options != nil {
		r.options(&options)
	}
	var err error
	r.service, err = api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.service.Run(ctx) }()
	server := httptest.NewServer(r.service.Handler())
	r.url = server.URL
	r.stop = sync.OnceFunc(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(r.stop)
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

// documented holds every answer of every test to the OpenAPI document.
var documented = sync.OnceValue(func() *apitest.Checker {
	documents, err := spec.New()
	if err != nil {
		panic(err)
	}
	checker, err := apitest.New(documents.OpenAPI.Body)
	if err != nil {
		panic(err)
	}
	return checker
})

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

// do calls the service with the admin key.
func (r *rig) do(method, path, body string, tweaks ...tweak) answer {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+adminKey)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, tweak := range tweaks {
		tweak(request)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	if err := documented().Answer(method, request.URL.EscapedPath(), response.StatusCode, response.Header, content); err != nil {
		r.t.Errorf("not as documented: %v", err)
	}
	if response.StatusCode == http.StatusInternalServerError {
		for line := range strings.Lines(r.logs.String()) {
			if strings.Contains(line, "request failed") {
				r.t.Log(line)
			}
		}
	}
	if response.StatusCode < http.StatusMultipleChoices {
		if err := documented().Request(method, request.URL.RequestURI(), []byte(body)); err != nil {
			r.t.Errorf("not documented: %v", err)
		}
	}
	return answer{t: r.t, call: method + " " + path, status: response.StatusCode, header: response.Header, body: content}
}

// send calls what is not in the API's own document.
func (r *rig) send(method, path, body string, tweaks ...tweak) answer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+adminKey)
	for _, tweak := range tweaks {
		tweak(request)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	return answer{t: r.t, call: method + " " + path, status: response.StatusCode, header: response.Header, body: content}
}

// How often insist tries again: one call, and all calls of a test. A time limit that is too short
// for what a call does would be beyond it.
const (
	mostRefusals = 20
	allRefusals  = 100
)

// insist is do for tests that put a load on a slow machine: 503 means to try again, with
// the same ids. It is an error to need it too often.
func (r *rig) insist(method, path, body string, tweaks ...tweak) answer {
	r.t.Helper()
	for n := 1; ; n++ {
		a := r.do(method, path, body, tweaks...)
		if a.status != http.StatusServiceUnavailable {
			return a
		}
		if all := r.refused.Add(1); n > mostRefusals || all > allRefusals {
			r.t.Errorf("%s was refused %d times, and all calls %d times", a.call, n, all)
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

// gauge returns the value of a metric without labels; -1: there is none.
func (r *rig) gauge(name string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// register registers a webhook and returns its answer.
func (r *rig) register(body string) answer {
	r.t.Helper()
	return r.insist(http.MethodPost, "/v1/webhooks", body).want(http.StatusCreated)
}

const plainWebhook = `{"url":"http://127.0.0.1:9/hook","events":["shipment.created"]}`

// event returns a body for POST /v1/events.
func event(id string) string {
	return fmt.Sprintf(`{"id":%q,"type":"shipment.created","timestamp":"2026-01-02T03:04:05+01:00","data":{"shipmentId":"s-%s","n":0.1000}}`, id, id)
}

// deliver writes what a dispatcher would record: one attempt of an event's delivery.
func (r *rig) deliver(webhook, eventID string, status domain.Status, reason string) domain.DeliveryID {
	r.t.Helper()
	e, err := r.store.GetEvent(r.t.Context(), domain.DefaultAccount, eventID)
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
			Status: 500, Class: domain.Class5xx, ResponseBody: "out of order", Transcript: transcript.Encode(
				&transcript.SentRequest{URL: "https://receiver.example/hooks", UserAgent: "Waybill/test", Signature: "v1,c2ln", Own: []string{"X-Own"}, BodySize: 9},
				&transcript.Got{
					Remote: netip.MustParseAddrPort("192.0.2.10:443"), Header: http.Header{"Server": {"nginx"}, "Set-Cookie": {"hunter2"}},
					Truncated: true, Phases: domain.Phases{FirstByte: 76_250 * time.Microsecond},
				}),
		},
	}
	switch status {
	case domain.StatusRetrying:
		outcome.NextAttemptAt = now.Add(time.Hour)
	case domain.StatusHeld:
		outcome.InLane = true
	}
	batch := domain.RecordBatch{Outcomes: []domain.Outcome{outcome}, Settled: []domain.EventKey{e.Key()}}
	if _, err := r.store.Record(r.t.Context(), []domain.RecordBatch{batch}); err != nil {
		r.t.Fatal(err)
	}
	return id
}
