// Package dispatcher is the service that takes events from the bus, fans them out to the
// webhooks that are registered for them, signs and posts each payload, retries what failed, and
// records every attempt.
package dispatcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/cancelled"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/fanout"
	"waybill.dev/services/dispatcher/internal/hold"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/order"
	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/services/dispatcher/internal/post"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/services/dispatcher/internal/retry"
	"waybill.dev/services/dispatcher/internal/shard"
	"waybill.dev/shared/again"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/news"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store"
)

// Options of a dispatcher. All handles are required; they are not closed.
type Options struct {
	Store   *store.Store
	Bus     *bus.Bus
	Egress  *egress.Policy
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Tracer makes a span of each attempt; nil: no traces.
	Tracer  trace.TracerProvider
	Version string // in the User-Agent of callbacks
	// DefaultSchedule is the retry schedule of webhooks that have none of their
	// own; nil: Standard Webhooks' table.
	DefaultSchedule []time.Duration
	Retention       time.Duration // 0: 168 h
	DisableAfter    time.Duration // 0: 120 h
	// PublicURL is the start of the links in alerts, without a slash at its
	// end; empty: the links are paths.
	PublicURL string
	// Memory is how many bytes deliveries in flight may take, without their connections; at least
	// LeastMemory. 0: 256 MiB. Deliveries that wait for their turn may take half as much again.
	Memory int64
	// Watch is called after each attempt; nil: nothing is called. It must not block.
	Watch func(MadeAttempt)
}

// MadeAttempt is an attempt that was made, and what followed from it.
type MadeAttempt = deliver.MadeAttempt

// drainTime is how long Run waits at its end for attempts in flight. The steps after that still fit
// into the 30 seconds that a process has to stop.
const drainTime = 25 * time.Second

// catchUpTime is how long Run waits at its start until the records on the bus are written.
const catchUpTime = 5 * time.Second

// Dispatcher is the service.
type Dispatcher struct {
	options   Options
	database  database
	memory    memory
	owners    *shard.Owners
	index     *index.Index
	cancelled *cancelled.Runs
	accounts  *index.Accounts
	emitter   *record.Emitter
	stage     *record.Stage
	news      *news.Publisher
	deliverer *deliver.Deliverer
	fanout    *fanout.Fanout
	due       *retry.DueDeliveries
	queues    *hold.Manager
	order     *order.Manager
	stall     *stallWatch
	circuits  *circuits
}

// New returns a dispatcher; Run makes it work.
func New(options Options) (*Dispatcher, error) {
	if options.Store == nil || options.Bus == nil || options.Egress == nil || options.Logger == nil || options.Metrics == nil {
		return nil, errors.New("dispatcher needs a store, a bus, an egress policy, a logger and metrics")
	}
	options.fill()
	d := &Dispatcher{options: options, database: newTables(options.Store, options.PublicURL), memory: divide(max(options.Memory, LeastMemory))}
	self := uuid.NewString()
	d.owners = shard.New(self, bus.Formats, bus.SubjectDispatchers, options.Bus, options.Logger)
	d.index = index.New(index.Options{
		Store: d.database, Announcer: options.Bus, ConfigSubject: bus.SubjectConfig, HealthSubject: bus.SubjectHealth,
		Prepare: post.Prepare, Ready: func(ctx context.Context) error { return d.order.Ready(ctx) }, Logger: options.Logger,
	})
	d.accounts = index.NewAccounts(d.database)
	d.cancelled = cancelled.New(d.database, options.Logger)
	d.news = news.NewPublisher(options.Bus)
	rows := record.RowsPostgres
	if options.Store.SQLite() {
		rows = record.RowsSQLite
	}
	d.emitter = record.NewEmitter(options.Bus, rows, d.memory.emitter, options.Logger)
	d.stage = record.NewStage(options.Bus, announcer{d.database, d.news, d.index, options.Bus.Announce}, rows, d.memory.records, options.Metrics, options.Logger)
	d.deliverer = deliver.New(deliver.Options{
		Poster: post.New(options.Egress.NewClient(egress.Options{})), Keeper: options.Bus, Emitter: d.emitter, Hooks: d.index, Owners: d.owners,
		Notices: notices{d}, Logger: options.Logger, Metrics: deliver.NewMetrics(options.Metrics), Tracer: tracer(options.Tracer),
		Schedule: options.DefaultSchedule, Retention: options.Retention, DisableAfter: options.DisableAfter,
		UserAgent: "Waybill/" + options.Version, Cancelled: d.cancelled.Has, AskCancelled: d.cancelled.Ask, Watch: options.Watch,
		Limits: admission.Options{Full: d.emitter.Full, Tight: d.memory.tight, WebhookBytes: d.memory.events.State().Limit / webhookShare},
	})
	d.order = order.New(order.Options{
		Bus: options.Bus, Deliverer: d.deliverer, Log: d.database, Index: d.index, Emitter: d.emitter, Room: d.memory.order,
		Memory: d.memory.turns, Self: self, Logger: options.Logger, Metrics: options.Metrics,
	})
	d.fanout = fanout.New(fanout.Options{
		Bus: options.Bus, Deliverer: d.deliverer, Emitter: d.emitter, Log: d.database, Index: d.index, Accounts: d.accounts, Order: d.order,
		Room: d.memory.events, Logger: options.Logger, Metrics: options.Metrics,
	})
	d.due = retry.New(options.Bus, d.deliverer, d.index, d.memory.due, options.Logger)
	d.queues = hold.New(hold.Options{
		Bus: options.Bus, Deliverer: d.deliverer, Index: d.index, Log: d.database, Logger: options.Logger,
		DrainRoom: d.memory.drains, ProbeRoom: d.memory.probes,
		Metrics: options.Metrics, Schedule: options.DefaultSchedule, Retention: options.Retention,
	})
	d.stall = &stallWatch{events: d.fanout, waits: d.eventsWait, reachable: d.reachable}
	d.owners.OnChange(d.due.Own)
	d.owners.OnChange(d.queues.Own)
	d.owners.OnChange(d.order.Own)
	d.circuits = &circuits{store: d.database, deliverer: d.deliverer, log: options.Logger, changed: signal.New()}
	d.owners.OnChange(d.circuits.own)
	d.owners.OnBehind(d.stage.Yield)
	d.index.OnChange(func(h *index.Hook) {
		d.queues.WebhookChanged(h.ID)
		d.order.WebhookChanged(h)
		if h.Config().Deleted {
			d.deliverer.Forget(h)
		}
	})
	d.register(options.Metrics)
	return d, nil
}

// fill sets the defaults of options that are not set.
func (o *Options) fill() {
	if o.DefaultSchedule == nil {
		o.DefaultSchedule = domain.DefaultRetrySchedule()
	}
	o.Retention = cmp.Or(o.Retention, 168*time.Hour)
	o.DisableAfter = cmp.Or(o.DisableAfter, 120*time.Hour)
	o.Memory = cmp.Or(o.Memory, defaultMemory)
}

// tracer returns the dispatcher's tracer; nil when tracing is off.
func tracer(provider trace.TracerProvider) trace.Tracer {
	if _, off := provider.(noop.TracerProvider); provider == nil || off {
		return nil
	}
	return provider.Tracer("waybill.dev/services/dispatcher")
}

// register registers the metrics of the dispatcher's parts.
func (d *Dispatcher) register(metrics prometheus.Registerer) {
	metrics.MustRegister(newBounds(d))
	metrics.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "waybill_bus_messages_set_aside_total", Help: "Messages of Waybill itself that this version could not read, most likely because another version wrote them. They are kept."},
			func() float64 { return float64(d.options.Bus.SetAsides()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_webhooks", Help: "Webhooks in memory."},
			func() float64 { return float64(d.index.Size()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_webhooks_unreadable", Help: "Webhooks that can't be read. Their deliveries are held."},
			func() float64 { return float64(d.index.Faulty()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_dispatchers_live", Help: "Dispatchers that this one knows to be alive."},
			func() float64 { return float64(d.owners.Live()) }))
}

// Run works until ctx is done. Then it finishes what is in flight and stores every outcome,
// within 30 seconds. A delivery whose outcome could not be stored stays on the bus and goes out again.
func (d *Dispatcher) Run(ctx context.Context) error {
	stops, err := d.listen()
	if err != nil {
		return err
	}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	if err := d.ensureStreams(ctx); err != nil {
		return nil // told to stop before the bus was there
	}
	// There are two generations: takers end first; keepers end when everything taken is stored.
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKeeping()
	keepers, keeping := errgroup.WithContext(keeping)
	for _, run := range []func(context.Context) error{
		d.index.Run, d.emitter.Run, d.stage.Run, d.deliverer.Run, d.fanout.Attend, d.due.Attend, d.watchReconnects, d.stall.Run, d.news.Run,
	} {
		keepers.Go(func() error { return run(keeping) })
	}
	if err := d.index.Await(ctx, 0); err != nil {
		stopKeeping()
		return keepers.Wait()
	}
	d.catchUp(ctx)
	if err := d.order.Begin(ctx); err != nil && ctx.Err() == nil {
		d.options.Logger.Warn("the bus can't say where orders begin; events of accounts that have just switched order on may be sent without order", "error", err)
	}
	if err := d.cancelled.Load(ctx); err != nil {
		stopKeeping()
		return keepers.Wait()
	}
	keepers.Go(func() error { return d.cancelled.Run(keeping) })
	taking, stopTaking := context.WithCancel(ctx)
	defer stopTaking()
	context.AfterFunc(keeping, stopTaking)
	takers, taking := errgroup.WithContext(taking)
	for _, run := range []func(context.Context) error{d.owners.Run, d.takeEvents, d.due.Run, d.queues.Run, d.order.Run, d.circuits.Run} {
		takers.Go(func() error { return run(taking) })
	}
	<-taking.Done()
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	d.options.Logger.Info("dispatcher stops; attempts in flight are finished first")
	drainErr := d.deliverer.Drain(draining)
	takersErr := takers.Wait()
	flushing, cancelFlush := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancelFlush()
	flushErr := d.emitter.Flush(flushing)
	d.deliverer.Close()
	if drainErr != nil || flushErr != nil {
		d.options.Logger.Warn("dispatcher stopped before every outcome was stored; deliveries without one are sent again")
	}
	stopKeeping()
	return errors.Join(takersErr, keepers.Wait())
}

// takeEvents takes events once the dispatcher knows how many dispatchers share a webhook's cap and rate.
func (d *Dispatcher) takeEvents(ctx context.Context) error {
	select {
	case <-d.owners.Introduced():
		if err := d.accounts.Load(ctx); err != nil && ctx.Err() == nil {
			d.options.Logger.Warn("accounts can't be read; each is looked up when it is needed", "error", err)
		}
		return d.fanout.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// catchUp waits until the records that are on the bus are written, before events are taken: a
// delivery that is recorded is not sent again.
func (d *Dispatcher) catchUp(ctx context.Context) {
	d.suspectEvents(ctx)
	deadline := time.Now().Add(catchUpTime)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		records, err := d.options.Bus.Stream(bus.StreamRecords).ConsumerState(ctx, bus.ConsumerRecord)
		if err == nil && records.Pending == 0 && records.Unacknowledged == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *Dispatcher) suspectEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sequence, err := pending.HandedOut(ctx, d.options.Bus.Stream(bus.StreamEvents))
	if err != nil {
		d.options.Logger.Warn("the bus can't say which events were handed out; some deliveries may be repeated", "error", err)
		return
	}
	d.fanout.Suspect(sequence)
}

// ensureStreams makes the streams. It tries until it succeeds.
func (d *Dispatcher) ensureStreams(ctx context.Context) error {
	return again.Do(ctx, again.Loop{
		First: 500 * time.Millisecond, Longest: 500 * time.Millisecond, Log: d.options.Logger, Fails: "the streams can't be made; trying again",
	}, func(func()) error {
		if err := d.options.Bus.WaitReady(ctx); err != nil {
			return err //nolint:wrapcheck // told to stop
		}
		trying, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return d.options.Bus.Ensure(trying) //nolint:wrapcheck // says what was being done
	})
}

// watchReconnects makes the streams again after each reconnection, as the server may have come
// back without its files.
func (d *Dispatcher) watchReconnects(ctx context.Context) error {
	reconnects, stop := d.options.Bus.Reconnects()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reconnects:
			if d.ensureStreams(ctx) == nil {
				d.suspectEvents(ctx)
				d.index.Poke()
			}
		}
	}
}

// listen subscribes to the announcements of other dispatchers.
func (d *Dispatcher) listen() (stops []func(), err error) {
	stopHold, err := d.options.Bus.Listen(bus.SubjectHold, func(body []byte) {
		id, reason, _ := strings.Cut(string(body), " ")
		d.queues.HeldElsewhere(domain.WebhookID(id), reason)
	})
	if err != nil {
		return nil, err
	}
	stopCircuit, err := d.options.Bus.Listen(bus.SubjectCircuit, func(body []byte) {
		var news circuitNews
		if err := json.Unmarshal(body, &news); err == nil {
			d.deliverer.CircuitHeard(news.Webhook, news.Open)
			d.circuitChanged(news.Webhook)
		}
	})
	if err != nil {
		stopHold()
		return nil, err
	}
	stopOrder, err := d.options.Bus.Listen(bus.SubjectOrder, func(body []byte) { d.order.OrderAnnounced(bus.ParseOrderNews(body)) })
	if err != nil {
		stopHold()
		stopCircuit()
		return nil, err
	}
	stopJobs, err := d.options.Bus.Listen(bus.SubjectJobs, func([]byte) { d.cancelled.JobCancelled() })
	if err != nil {
		stopHold()
		stopCircuit()
		stopOrder()
		return nil, err
	}
	return []func(){stopHold, stopCircuit, stopOrder, stopJobs}, nil
}

// circuitChanged tells the parts that keep deliveries of a webhook that its circuit has changed.
func (d *Dispatcher) circuitChanged(id domain.WebhookID) {
	d.queues.WebhookChanged(id)
	if hook, ok := d.index.Hook(id); ok {
		d.order.WebhookChanged(hook)
	}
}

// Ready returns nil when the dispatcher can work and works. Otherwise the error says what is missing.
func (d *Dispatcher) Ready(ctx context.Context) error {
	if err := d.reachable(ctx); err != nil {
		return err
	}
	if d.stall.stalled.Load() {
		return fmt.Errorf("events wait, and none was taken or acknowledged for %s", stallAfter)
	}
	return nil
}

// reachable returns nil when everything that the dispatcher needs is there. Otherwise the error says
// what is missing.
func (d *Dispatcher) reachable(ctx context.Context) error {
	var missing []error
	migrations, err := d.database.Pending(ctx)
	switch {
	case errors.Is(err, domain.ErrUnavailable):
		missing = append(missing, errors.New("store is unreachable"))
	case err != nil || migrations:
		missing = append(missing, errors.New("migrations are pending"))
	}
	if d.options.Bus.Ready() != nil {
		missing = append(missing, errors.New("bus is unreachable"))
	} else if stream := d.options.Bus.Missing(); stream != nil {
		missing = append(missing, stream)
	}
	if !d.index.Loaded() {
		missing = append(missing, errors.New("webhooks are not loaded"))
	}
	return errors.Join(missing...)
}

// Handler answers /healthz and /readyz.
func (d *Dispatcher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := d.Ready(ctx); err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{
				"status": "not ready", "missing": strings.ReplaceAll(err.Error(), "\n", ", ")})
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ready", "store": "up", "bus": "up"})
	})
	return mux
}

func writeJSON(w http.ResponseWriter, status int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// notices passes changes on to the parts and processes that must know them at once.
type notices struct{ d *Dispatcher }

type circuitNews struct {
	Webhook domain.WebhookID `json:"webhook"`
	Open    bool             `json:"open"`
}

// DeliveryHeld implements deliver.Notices.
func (n notices) DeliveryHeld(id domain.WebhookID, reason string) {
	n.d.queues.DeliveryHeld(id, reason)
}

// CircuitChanged implements deliver.Notices.
func (n notices) CircuitChanged(id domain.WebhookID, open bool) {
	n.d.circuitChanged(id)
	body, err := json.Marshal(circuitNews{id, open})
	if err != nil {
		n.d.options.Logger.Error("encode circuit", "error", fmt.Errorf("encode circuit news: %w", err))
		return
	}
	n.d.options.Bus.Announce(bus.SubjectCircuit, body)
}
