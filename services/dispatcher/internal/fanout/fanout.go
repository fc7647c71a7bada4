// Package fanout takes events from the bus and makes one delivery for each webhook that is
// registered for them. An event is acknowledged when each of its deliveries has an
// outcome that is stored: recorded, scheduled or held.
package fanout

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/consumer"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/inflight"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/loss"
)

// Bus is where events come from and where what is none goes.
type Bus interface {
	consumer.Bus
	Server() string
	ParseAccepted(subject string, header map[string][]string, body []byte) (bus.Accepted, bool)
	Reject(account, subject string, header map[string][]string, body []byte, reason string, done func(error))
	MakeRoom(ctx context.Context) (bus.Room, error)
}

// Deliverer takes deliveries.
type Deliverer interface {
	Room(ctx context.Context) error
	Offer(hook *index.Hook, job *deliver.Job)
}

// Emitter takes what is to be recorded.
type Emitter interface{ Emit(record.Item) }

// Log tells what the database knows of deliveries.
type Log interface {
	Revs(ctx context.Context, account string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error)
}

// Index tells who subscribes.
type Index interface {
	Subscribers(account string, kind domain.EventType) []*index.Hook
	Version() int64
	Await(ctx context.Context, version int64) error
}

// Options of a Fanout.
type Options struct {
	Bus       Bus
	Deliverer Deliverer
	Emitter   Emitter
	Log       Log
	Index     Index
	Accounts  Accounts
	Room      *inflight.Budget // for what is in flight
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
}

// Fanout is the first stage of the dispatcher.
type Fanout struct {
	options   Options
	inFlight  *inflight.Messages
	ended     *loss.Acknowledged
	suspect   atomic.Uint64 // see Suspect
	checks    chan struct{} // bounds the events that wait for a look into the log
	lookups   *lookups
	strangers chan stranger             // messages of accounts that are not known here
	overREST  func() prometheus.Counter // events, from the first one on
	overBus   func() prometheus.Counter
	rejected  prometheus.Counter
	repeated  prometheus.Counter
	room      *roomMetrics
}

// maxChecks bounds the events that wait for a newer index or a look into the log.
const maxChecks = 256

// New returns a fan-out.
func New(options Options) *Fanout {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_events_taken_total", Help: "Events taken from the bus, by where they were published."}, []string{"origin"})
	f := &Fanout{
		options: options, inFlight: inflight.New(options.Room), ended: loss.NewAcknowledged(), checks: make(chan struct{}, maxChecks),
		strangers: make(chan stranger, maxStrangers),
		lookups:   newLookups(options.Log),
		overREST:  sync.OnceValue(func() prometheus.Counter { return events.WithLabelValues("rest") }),
		overBus:   sync.OnceValue(func() prometheus.Counter { return events.WithLabelValues("bus") }),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_bus_messages_rejected_total", Help: "Messages on the bus that were not valid events."}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_repeated_total", Help: "Events that the bus handed out again."}),
	}
	f.room = newRoomMetrics(options.Metrics)
	options.Metrics.MustRegister(events, f.rejected, f.repeated, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_events_in_hand", Help: "Events in flight: taken from the bus and not acknowledged."},
		func() float64 { return float64(f.inFlight.Len()) }))
	return f
}

// Run takes events until ctx is done.
func (f *Fanout) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { f.askOn(ctx) })
	asking.Go(func() { f.makeRoom(ctx) })
	return consumer.Events(ctx, f.options.Bus, f.options.Logger, f.inFlight, func(m *bus.Message) { f.handle(ctx, m) })
}

// Attend keeps the events in flight from going to others, until ctx is done. It outlives Run.
func (f *Fanout) Attend(ctx context.Context) error { return f.inFlight.Run(ctx) }

// Moves counts the events that came in flight and those that left it.
func (f *Fanout) Moves() uint64 { return f.inFlight.Moves() }

// Held tells whether an event is in flight.
func (f *Fanout) Held() bool { return f.inFlight.Len() > 0 }

// Suspect tells that events up to a sequence may have been handed out before though the
// bus calls them new: it has been restarted. The log is asked about each of them.
func (f *Fanout) Suspect(sequence uint64) { f.suspect.Store(sequence) }

func (f *Fanout) handle(ctx context.Context, m *bus.Message) {
	if f.ended.Has(m.Position()) { // its acknowledgement was lost
		f.repeated.Inc()
		f.inFlight.Done(m)
		m.Ack()
		return
	}
	if f.options.Deliverer.Room(ctx) != nil {
		f.inFlight.Done(m)
		m.Release()
		return
	}
	accepted, ok := f.options.Bus.ParseAccepted(m.Subject(), m.Header(), m.Body())
	if ok && accepted.Unknown {
		f.leave(ctx, m)
		return
	}
	if ok {
		f.overREST().Inc()
		g := &group{f: f, message: m, event: accepted.Event, trace: accepted.TraceParent, rest: true}
		g.known = accepted.Round > 0
		f.route(ctx, g, accepted.Version)
		return
	}
	account, kind, ok := bus.ParseEventSubject(m.Subject())
	switch {
	case !ok:
		f.reject(ctx, m, errSubject)
	case !domain.ValidAccount(account):
		f.reject(ctx, m, errName)
	case !kind.Valid():
		f.reject(ctx, m, errType)
	case !f.options.Accounts.Known(account):
		f.ask(m, account)
	default:
		f.take(ctx, m, account)
	}
}

// take takes an event that somebody published for an account that exists.
func (f *Fanout) take(ctx context.Context, m *bus.Message, account string) {
	event, err := busEvent(m, account)
	if err != nil {
		f.reject(ctx, m, err)
		return
	}
	f.overBus().Inc()
	f.route(ctx, &group{f: f, message: m, event: event, trace: bus.TraceParent(m.Header())}, 0)
}

// route sends an event to its subscribers as soon as the index is new enough. Only what
// is rare waits, on a goroutine of its own.
func (f *Fanout) route(ctx context.Context, g *group, version int64) {
	if g.message.Repeated {
		f.repeated.Inc()
	}
	g.known = g.known || g.message.Repeated || g.message.Sequence <= f.suspect.Load()
	if version <= f.options.Index.Version() && !g.known {
		f.dispatch(g, nil)
		return
	}
	select {
	case f.checks <- struct{}{}:
	case <-ctx.Done():
		g.giveBack()
		return
	}
	go func() {
		defer func() { <-f.checks }()
		if err := f.options.Index.Await(ctx, version); err != nil {
			g.giveBack()
			return
		}
		var recorded map[domain.DeliveryID]domain.Revision
		if g.known {
			recorded = f.recorded(g)
		}
		f.dispatch(g, recorded)
	}()
}

// recorded asks which deliveries of an event have an outcome in the log: they are not
// sent again. While the log can't be asked all of them are.
func (f *Fanout) recorded(g *group) map[domain.DeliveryID]domain.Revision {
	hooks := f.options.Index.Subscribers(g.event.Account, g.event.Type)
	ids := make([]domain.DeliveryID, 0, len(hooks))
	for _, hook := range hooks {
		ids = append(ids, domain.NewDeliveryID(g.event.Key(), hook.ID))
	}
	if len(ids) == 0 {
		return nil
	}
	known, err := f.lookups.revs(g.event.Account, ids)
	if err != nil {
		f.options.Logger.Debug("the delivery log can't be asked about a repeated event", "error", err)
		return nil
	}
	return known
}

func (f *Fanout) dispatch(g *group, known map[domain.DeliveryID]domain.Revision) {
	hooks := f.options.Index.Subscribers(g.event.Account, g.event.Type)
	key := g.event.Key()
	jobs := make([]*deliver.Job, 0, len(hooks))
	targets := make([]*index.Hook, 0, len(hooks))
	for _, hook := range hooks {
		id := domain.NewDeliveryID(key, hook.ID)
		if known[id].HasOutcome() {
			continue
		}
		targets = append(targets, hook)
		jobs = append(jobs, &deliver.Job{Origin: g, Task: &domain.Task{
			Delivery: id, Account: g.event.Account, Webhook: hook.ID, EventID: g.event.ID, EventType: g.event.Type,
			EventSeq: g.message.Sequence, ReceivedAt: g.event.ReceivedAt, TraceParent: g.trace, Body: g.event.Payload,
		}})
	}
	if len(jobs) == 0 {
		f.options.Emitter.Emit(record.Item{Event: g.Emitting(), Settled: g.settled(), Done: g.done})
		return
	}
	f.inFlight.More(g.message, g.extra(len(jobs)))
	g.epoch = loss.EpochOf(f.options.Bus.Server())
	g.unstored.Store(int32(len(jobs)))
	for i, job := range jobs {
		job.Wide = len(jobs) >= deliver.WideFrom
		f.options.Deliverer.Offer(targets[i], job)
	}
}

// leave leaves an event that another build has accepted to a process that knows how.
func (f *Fanout) leave(ctx context.Context, m *bus.Message) {
	if m.Leave() {
		f.inFlight.Done(m)
		return
	}
	f.reject(ctx, m, bus.ErrVersion)
}

func (f *Fanout) reject(ctx context.Context, m *bus.Message, cause error) {
	account, _, _ := bus.ParseEventSubject(m.Subject())
	f.rejected.Inc()
	f.options.Logger.Info("a message on the bus was rejected", "subject", bus.ShownSubject(m.Subject()), "reason", cause.Error())
	f.options.Bus.Reject(account, m.Subject(), m.Header(), m.Body(), cause.Error(), func(err error) {
		f.inFlight.Done(m)
		if err != nil {
			if ctx.Err() == nil {
				f.options.Logger.Warn("a rejected message can't be kept; the bus hands it out again", "error", err)
			}
			return // not acknowledged: it comes again
		}
		m.Ack()
	})
}

// group is an event with its deliveries in flight.
type group struct {
	f       *Fanout
	message *bus.Message
	event   domain.Event
	trace   string
	rest    bool // REST accepted it: the database has it and an outbox row
	known   bool // it may have been handed out before

	epoch     loss.Epoch   // in which it was dispatched
	unstored  atomic.Int32 // deliveries whose outcome is not stored yet
	eventSent atomic.Bool
	abandoned atomic.Bool
	settling  atomic.Bool // in the batch with its last outcomes
}

// jobBytes is about what a delivery in flight takes beside the event, of which all have one body.
const jobBytes = 1 << 10

// extra is what the event takes in memory beside the message that brought it.
func (g *group) extra(jobs int) int64 {
	extra := int64(jobs) * jobBytes
	if !g.rest { // its payload was made of the message's
		extra += int64(len(g.event.Payload))
	}
	return extra
}

// Emitting implements deliver.Origin: the first outcome brings an event that the
// database doesn't have.
func (g *group) Emitting() *domain.Event {
	if g.rest || g.eventSent.Swap(true) {
		return nil
	}
	return &g.event
}

// settled is what takes the event out of the outbox; nil: it is not in it.
func (g *group) settled() *domain.EventKey {
	if !g.rest {
		return nil
	}
	key := g.event.Key()
	return &key
}

// Settler implements deliver.Origin.
func (g *group) Settler() record.Settler {
	if !g.rest {
		return nil
	}
	return g
}

// Settle implements record.Settler: a batch settles the event when no outcome is missing but
// the n that the batch itself has.
func (g *group) Settle(n int, server string) *domain.EventKey {
	last := int(g.unstored.Load()) == n && !g.abandoned.Load() && g.epoch.Holds(server)
	g.settling.Store(last)
	if !last {
		return nil
	}
	return g.settled()
}

// Stored implements deliver.Origin.
func (g *group) Stored() { g.end() }

// Abandoned implements deliver.Origin.
func (g *group) Abandoned() {
	g.abandoned.Store(true)
	g.end()
}

func (g *group) end() {
	if g.unstored.Add(-1) > 0 {
		return
	}
	if g.abandoned.Load() {
		g.giveBack()
		return
	}
	if !g.rest || g.settling.Load() {
		g.done()
		return
	}
	// The outcomes were in several batches. It is settled after all of them and on the same
	// server. A bus that is lost takes outcomes with it that the database does not have; an
	// event that was settled before them would never be sent again.
	g.f.options.Emitter.Emit(record.Item{Settled: g.settled(), In: g.epoch, Done: g.done})
}

func (g *group) done() {
	g.f.ended.Add(g.message.Position())
	g.message.Ack()
	g.f.inFlight.Done(g.message)
}

func (g *group) giveBack() {
	g.f.inFlight.Done(g.message)
	g.message.Release()
}

var (
	errSubject = errors.New("the subject is not events.<account>.<type>")
	errName    = errors.New("the account in the subject is not a valid name: 1 to 64 characters of a-z, 0-9 and -")
	errType    = errors.New("the type in the subject is unknown")
)

// busEvent reads an event that somebody published straight to the bus. What its
// publisher left out comes from the stream, so that a repeat has the same.
func busEvent(m *bus.Message, account string) (domain.Event, error) {
	_, kind, _ := bus.ParseEventSubject(m.Subject())
	parsed, err := envelope.FromBus(account, m.Header(), m.Body())
	if err != nil {
		return domain.Event{}, err
	}
	if parsed.Type != kind {
		return domain.Event{}, errors.New("the type in the body differs from the one in the subject")
	}
	if parsed.ID == "" {
		parsed.ID = cmp.Or(bus.GivenID(m.Header()), "evt_"+strconv.FormatInt(m.Time.UnixNano(), 36)+"_"+strconv.FormatUint(m.Sequence, 36))
	}
	if parsed.Timestamp == "" {
		parsed.Timestamp = m.Time.Format("2006-01-02T15:04:05.000Z")
	}
	return domain.Event{
		Account: account, ID: parsed.ID, Type: parsed.Type, Timestamp: parsed.Timestamp,
		Payload: parsed.Payload(), ReceivedAt: m.Time.Truncate(time.Millisecond),
	}, nil
}
