// Package fanout takes events from the bus and makes one delivery for each webhook that is
// registered for them and whose filter they match. An event is acknowledged when each of its deliveries has an
// outcome that is stored: recorded, scheduled or held.
package fanout

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/order"
	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Bus is the source of events. It also takes messages that are not valid events.
type Bus interface {
	admission.Bus
	Server() string
	ParseAccepted(subject string, header map[string][]string, body []byte) (bus.AcceptedEvent, bool)
	Reject(account, subject string, header map[string][]string, body []byte, reason string, done func(error))
	MakeRoom(ctx context.Context) (bus.Room, error)
}

// Deliverer takes deliveries.
type Deliverer interface {
	Room(ctx context.Context) error
	Offer(hook *index.Hook, job *deliver.Job)
}

// Emitter takes items for the record.
type Emitter interface{ Emit(record.Item) }

// Log reads from the database what is recorded of deliveries.
type Log interface {
	Revs(ctx context.Context, account string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error)
}

// Index knows the webhooks that an event goes to.
type Index interface {
	Subscribers(event *domain.Event) []*index.Hook
	// Costly reports whether Subscribers may take long for an event.
	Costly(event *domain.Event) bool
	Version() int64
	Await(ctx context.Context, version int64) error
}

// Order keeps the order of accounts that use it.
type Order interface {
	Route(account string, place int64, sequence uint64, rest bool) order.Route
	// Await calls again when Route may know more about the account. bytes is the size of the event. False: too many
	// events wait already.
	Await(account string, bytes int64, again func()) bool
}

// Options of a Fanout.
type Options struct {
	Bus       Bus
	Deliverer Deliverer
	Emitter   Emitter
	Log       Log
	Index     Index
	Accounts  Accounts
	Order     Order             // nil: no account uses order
	Room      *admission.Budget // for events in flight
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
}

// Fanout is the first stage of the dispatcher: it makes the deliveries of each event.
type Fanout struct {
	options   Options
	stage     *pending.Stage
	inFlight  *admission.Messages
	ended     *pending.AcknowledgedSet
	suspect   atomic.Uint64 // see Suspect
	checks    chan struct{} // bounds the events that wait for a look into the log
	lookups   *lookups
	aside     *asideQueue
	strangers chan stranger      // messages of accounts that are not known here
	overREST  prometheus.Counter // events
	overBus   prometheus.Counter
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
		options: options, inFlight: admission.NewMessages(options.Room), ended: pending.NewAcknowledgedSet(), checks: make(chan struct{}, maxChecks),
		strangers: make(chan stranger, maxStrangers),
		lookups:   newLookups(options.Log),
		aside:     newAside(options.Room),
		overREST:  events.WithLabelValues("rest"),
		overBus:   events.WithLabelValues("bus"),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_bus_messages_rejected_total", Help: "Messages on the bus that were not valid events."}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_repeated_total", Help: "Events that the bus handed out again."}),
	}
	f.stage = &pending.Stage{Emitter: options.Emitter, Server: options.Bus.Server, Done: f.done, Back: f.giveBack}
	f.room = newRoomMetrics(options.Metrics)
	options.Metrics.MustRegister(events, f.rejected, f.repeated, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_events_in_hand", Help: "Events in flight: taken from the bus and not acknowledged."},
		func() float64 { return float64(f.inFlight.Len()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_events_aside", Help: "Events that wait for the filters of their account, beside those of other accounts."},
		f.aside.len))
	return f
}

// Run takes events until ctx is done.
func (f *Fanout) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { f.askAccounts(ctx) })
	asking.Go(func() { f.makeRoom(ctx) })
	defer f.aside.close()
	admission.Events(ctx, f.options.Bus, f.options.Logger, f.inFlight, func(m *bus.Message) { f.handle(ctx, m) })
	return nil
}

// Attend keeps the events in flight from going to other dispatchers, until ctx is done. It outlives Run.
func (f *Fanout) Attend(ctx context.Context) error { return f.inFlight.Run(ctx) }

// Moves returns how many times an event came in flight or left it.
func (f *Fanout) Moves() uint64 { return f.inFlight.Moves() }

// Held reports whether an event is in flight.
func (f *Fanout) Held() bool { return f.inFlight.Len() > 0 }

// Suspect says that events up to a sequence may have been handed out before although the bus calls
// them new, because the bus has been restarted. Fan-out asks the log about each of them.
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
		f.leaveToOther(ctx, m)
		return
	}
	if ok {
		f.overREST.Inc()
		f.route(ctx, f.stage.OfREST(m, accepted), accepted.Version)
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
		f.askLater(m, account)
	default:
		f.takePublished(ctx, m, account)
	}
}

// takePublished takes an event that was published on NATS for an account that exists.
func (f *Fanout) takePublished(ctx context.Context, m *bus.Message, account string) {
	event, err := pending.FromBus(m, account)
	if err != nil {
		f.reject(ctx, m, err)
		return
	}
	f.overBus.Inc()
	f.route(ctx, f.stage.OfBus(m, event), 0)
}

// route sends an event to its subscribers as soon as the index is new enough. Rare cases wait, each on
// a goroutine of its own. Events with filters that take long wait behind other events of their account.
func (f *Fanout) route(ctx context.Context, g *pending.Event, version int64) {
	if g.Message.Repeated {
		f.repeated.Inc()
	}
	g.Known = g.Known || g.Message.Repeated || g.Message.Sequence <= f.suspect.Load()
	if f.handleAside(g, func() { f.routeLater(ctx, g, version) }) {
		return
	}
	if version <= f.options.Index.Version() && !g.Known {
		f.dispatch(g, nil)
		return
	}
	select {
	case f.checks <- struct{}{}:
	case <-ctx.Done():
		g.GiveBack()
		return
	}
	go func() {
		defer func() { <-f.checks }()
		f.routeLater(ctx, g, version)
	}()
}

// handleAside handles an event apart from the others if its filters may take long, and reports whether they may.
func (f *Fanout) handleAside(g *pending.Event, handle func()) bool {
	if !f.options.Index.Costly(&g.Event) {
		return false
	}
	if !f.aside.add(g.Event.Account, admission.Size(g.Message), handle) {
		f.postpone(g.Message)
	}
	return true
}

// routeLater sends an event to its subscribers once the index is new enough and the log has answered.
func (f *Fanout) routeLater(ctx context.Context, g *pending.Event, version int64) {
	if f.options.Index.Await(ctx, version) != nil || ctx.Err() != nil {
		g.GiveBack()
		return
	}
	var recorded map[domain.DeliveryID]domain.Revision
	if g.Known {
		recorded = f.recordedRevs(g)
	}
	f.dispatch(g, recorded)
}

// recordedRevs asks the log which deliveries of an event have an outcome. These are not sent again.
// While the log can't be asked, all deliveries are sent.
func (f *Fanout) recordedRevs(g *pending.Event) map[domain.DeliveryID]domain.Revision {
	hooks := f.options.Index.Subscribers(&g.Event)
	ids := make([]domain.DeliveryID, 0, len(hooks))
	for _, hook := range hooks {
		ids = append(ids, domain.NewDeliveryID(g.Event.Key(), hook.ID))
	}
	if len(ids) == 0 {
		return nil
	}
	known, err := f.lookups.revs(g.Event.Account, ids)
	if err != nil {
		f.options.Logger.Debug("the delivery log can't be asked about a repeated event", "error", err)
		return nil
	}
	return known
}

func (f *Fanout) dispatch(g *pending.Event, known map[domain.DeliveryID]domain.Revision) {
	if f.options.Order != nil && f.leaveToOrder(g, known) {
		return
	}
	hooks := f.options.Index.Subscribers(&g.Event)
	key := g.Event.Key()
	jobs := make([]*deliver.Job, 0, len(hooks))
	targets := make([]*index.Hook, 0, len(hooks))
	for _, hook := range hooks {
		id := domain.NewDeliveryID(key, hook.ID)
		if known[id].HasOutcome() {
			continue
		}
		targets = append(targets, hook)
		jobs = append(jobs, &deliver.Job{Origin: g, Task: &domain.Task{
			Delivery: id, Account: g.Event.Account, Webhook: hook.ID, EventID: g.Event.ID, EventType: g.Event.Type,
			EventSeq: g.Message.Sequence, ReceivedAt: g.Event.ReceivedAt, TraceParent: g.Trace, Body: g.Event.Payload,
		}})
	}
	if len(jobs) > 0 {
		f.inFlight.AddBytes(g.Message, g.ExtraBytes(len(jobs)))
	}
	g.Begin(len(jobs))
	for i, job := range jobs {
		job.Lane = deliver.LaneOf(len(jobs))
		f.options.Deliverer.Offer(targets[i], job)
	}
}

// leaveToOrder reports whether fan-out must not handle an event now. Either the owner of the account's order handles the
// event, or it is not known yet which of the two does; then the event waits until that is known.
func (f *Fanout) leaveToOrder(g *pending.Event, known map[domain.DeliveryID]domain.Revision) bool {
	switch f.options.Order.Route(g.Event.Account, g.Place, g.Message.Sequence, g.REST) {
	case order.Fanout:
		return false
	case order.Order:
		f.done(g.Message)
	case order.Unknown:
		if !f.options.Order.Await(g.Event.Account, admission.Size(g.Message), func() {
			if again := func() { f.dispatch(g, known) }; !f.handleAside(g, again) {
				again()
			}
		}) {
			f.postpone(g.Message)
		}
	}
	return true
}

func (f *Fanout) done(m *bus.Message) {
	f.ended.Add(m.Position())
	m.Ack()
	f.inFlight.Done(m)
}

func (f *Fanout) giveBack(m *bus.Message) {
	f.inFlight.Done(m)
	m.Release()
}

// leaveToOther gives an event that another build has accepted back to the bus, for a process that can read it.
func (f *Fanout) leaveToOther(ctx context.Context, m *bus.Message) {
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

var (
	errSubject = errors.New("the subject is not events.<account>.<type>")
	errName    = errors.New("the account in the subject is not a valid name: 1 to 64 characters of a-z, 0-9 and -")
	errType    = errors.New("the type in the subject is unknown")
)
