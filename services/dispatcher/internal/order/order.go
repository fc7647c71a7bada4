// Package order keeps the order of ordered webhooks: of the deliveries of one webhook and one shipment, only
// the first that has not ended is in flight. One dispatcher keeps the order of an account: the owner of the
// account's shard. It takes all events of the account, in the order of EVENTS and, for events that REST
// accepted, in the order of their commits. See docs/decisions/0036.
package order

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/recorder"
)

// Bus has the events, and keeps the deliveries that wait for their turn.
type Bus interface {
	Stream(name string) *bus.Stream
	Server() string
	ParseAccepted(subject string, header map[string][]string, body []byte) (bus.AcceptedEvent, bool)
	TakeEvents(ctx context.Context, account, self string, most int, first func() (uint64, error)) (bus.EventsClaim, error)
	Orders(ctx context.Context, account string, take func(*domain.Task, bus.OrderPosition, error)) error
	KeepOrdered(task *domain.Task, position bus.OrderPosition, done func(error))
	Announce(subject string, body []byte)
	AskPlaces(m bus.MissingPlaces)
	Reconnects() (c <-chan struct{}, stop func())
}

// Deliverer takes deliveries.
type Deliverer interface {
	Room(ctx context.Context) error
	Offer(hook *index.Hook, job *deliver.Job)
	End(job *deliver.Job, how domain.Change)
	RecordWaiting(job *deliver.Job, next *domain.Task, why domain.Change)
	Cap(hook *index.Hook) int
	Circuit(hook *index.Hook) (open bool, nextProbe time.Time)
	TryProbe(hook *index.Hook) bool
	DropProbe(hook *index.Hook)
}

// Log reads from the database what is recorded of orders and deliveries.
type Log interface {
	Revs(ctx context.Context, account string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error)
	Sequences(ctx context.Context, keys []recorder.SequenceKey) (map[recorder.SequenceKey]recorder.Numbers, error)
	OrderStarts(ctx context.Context) ([]recorder.OrderStart, error)
	StartOrder(ctx context.Context, start recorder.OrderStart) (recorder.OrderStart, error)
	NextPlace(ctx context.Context, account string, from int64) (int64, error)
	PlacedEvents(ctx context.Context, account string, from, below int64) ([]recorder.PlacedEvent, error)
}

// Index knows the webhooks.
type Index interface {
	Subscribers(event *domain.Event) []*index.Hook
	Find(id domain.WebhookID, answer func(*index.Hook, error))
	Await(ctx context.Context, version int64) error
}

// Emitter takes items for the record.
type Emitter interface{ Emit(record.Item) }

// Options of a Manager.
type Options struct {
	Bus       Bus
	Deliverer Deliverer
	Log       Log
	Index     Index
	Emitter   Emitter
	Room      *admission.Budget // for events in flight; nil: without a bound
	Memory    *admission.Budget // for the state of deliveries that have not ended
	Self      string            // names this process
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
}

// Route says which dispatcher handles an event.
type Route int

// Routes of an event.
const (
	Fanout  Route = iota // the dispatcher that has the event
	Order                // the owner of the account's order
	Unknown              // not decided yet
)

const (
	// reloadInterval is how often the starts of orders are read again, because the announcement of a start
	// may be lost. While events wait for a start, they are read every reloadRetryInterval.
	reloadInterval      = 10 * time.Second
	reloadRetryInterval = time.Second
	// identifyRetryInterval is how long after a failure the bus is asked again which stream EVENTS is. Events of accounts
	// with ordering wait for the answer.
	identifyRetryInterval = 100 * time.Millisecond
	// maxAwaiting is how many events of an account may wait until its order has started.
	maxAwaiting = 4096
	// awaitShare: the events of all accounts together that wait until their order has started take at most this part of
	// the room (a quarter).
	awaitShare = 4
	askTime    = 5 * time.Second
)

// Manager keeps the order of the accounts that this dispatcher owns. It knows for every account
// whether its order is kept.
type Manager struct {
	options  Options
	metrics  *metrics
	ordering atomic.Bool // at least one account uses order
	events   sharedQuery[struct{}, bus.StreamState]
	recorded sharedQuery[struct{}, []recorder.OrderStart]
	written  sharedQuery[struct{}, struct{}] // see recordsWritten
	numbers  sharedQuery[recorder.SequenceKey, map[recorder.SequenceKey]recorder.Numbers]

	mu            sync.Mutex
	owned         [domain.Shards]bool
	wanted        map[string]bool // accounts that use order, or used it before
	starts        map[string]recorder.OrderStart
	created       time.Time               // of the stream EVENTS, in milliseconds; zero: EVENTS may be another stream now
	plannedStarts map[string]plannedStart // where the order of an account will start; see Ready
	awaiting      map[string][]waitingEvent
	awaited       int64 // bytes of the events that wait
	keepers       map[string]*keeper
	running       context.Context //nolint:containedctx // of Run
	working       sync.WaitGroup
	poke          signal.Signal
	news          atomic.Bool // an order may have started that is not in starts
}

// New returns a manager; Run makes it work.
func New(options Options) *Manager {
	m := &Manager{
		options: options, metrics: newMetrics(options.Metrics), wanted: make(map[string]bool), starts: make(map[string]recorder.OrderStart), plannedStarts: make(map[string]plannedStart),
		awaiting: make(map[string][]waitingEvent), keepers: make(map[string]*keeper), poke: signal.New(),
	}
	events := options.Bus.Stream(bus.StreamEvents)
	m.events.m, m.events.question = m, func(ctx context.Context, _ []struct{}) (bus.StreamState, error) { return events.State(ctx) }
	m.recorded.m, m.recorded.question = m, func(ctx context.Context, _ []struct{}) ([]recorder.OrderStart, error) {
		return options.Log.OrderStarts(ctx)
	}
	m.written.m, m.written.question = m, m.recordsWritten
	m.numbers.m, m.numbers.question = m, options.Log.Sequences
	return m
}

// Own is called when this dispatcher has become the owner of a shard, or is no longer its owner.
func (m *Manager) Own(shard int, owned bool) {
	m.mu.Lock()
	m.owned[shard] = owned
	m.mu.Unlock()
	m.poke.Give()
}

// WebhookChanged is called when a webhook, or its circuit, has changed.
func (m *Manager) WebhookChanged(hook *index.Hook) {
	config := hook.Config()
	ordered := config.Ordering == domain.OrderingShipment && !config.Deleted
	if !ordered && !m.ordering.Load() {
		return
	}
	m.mu.Lock()
	if ordered && !m.wanted[hook.Account] {
		m.wanted[hook.Account] = true
		m.ordering.Store(true)
		m.poke.Give()
	}
	keeper := m.keepers[hook.Account]
	m.mu.Unlock()
	if keeper != nil {
		keeper.wakeSession()
	}
}

// OrderAnnounced is called for an announcement about the order of an account: the order has started, an event
// needs it, or the relay has restored deliveries that wait in it.
func (m *Manager) OrderAnnounced(account string, restored bool) {
	if !domain.ValidAccount(account) {
		return
	}
	m.mu.Lock()
	m.wanted[account] = true
	m.ordering.Store(true)
	keeper := m.keepers[account]
	m.mu.Unlock()
	if keeper != nil && restored {
		keeper.restartSession()
	}
	m.news.Store(true)
	m.poke.Give()
}

// waitingEvent is an event for which Route does not know yet which of the two handles it.
type waitingEvent struct {
	bytes int64
	again func()
}

// plannedStart is a place in EVENTS from which an order is kept.
type plannedStart struct {
	created time.Time // of the stream
	from    uint64
}

// Ready notes the end of EVENTS for each account that uses order and whose order has not started. Fan-out keeps the
// events of these accounts back already. Their order will start at that end, however long the start takes. So
// everything that is published after Ready is in order. The error is that of the bus or ctx's.
func (m *Manager) Ready(ctx context.Context) error {
	return m.planStarts(ctx, func(events bus.StreamState) (uint64, error) { return events.LastSeq + 1, nil })
}

// Begin is Ready for a dispatcher that takes no events yet. An API that has switched order on may have found no
// dispatcher that takes events, so Begin notes the first event that fan-out has not been handed. Then everything that
// was published since the API's answer is in order, too. Call Begin when all webhooks are loaded.
func (m *Manager) Begin(ctx context.Context) error {
	return m.planStarts(ctx, func(events bus.StreamState) (uint64, error) {
		fanout, err := m.options.Bus.Stream(bus.StreamEvents).ConsumerState(ctx, bus.ConsumerFanout)
		return min(fanout.Delivered, events.LastSeq) + 1, err
	})
}

// planStarts notes the sequence from which each order that has not started will be kept.
func (m *Manager) planStarts(ctx context.Context, from func(bus.StreamState) (uint64, error)) error {
	var begin []string
	m.mu.Lock()
	for account := range m.wanted {
		_, started := m.starts[account]
		if _, noted := m.plannedStarts[account]; !started && !noted {
			begin = append(begin, account)
		}
	}
	m.mu.Unlock()
	if len(begin) == 0 {
		return nil
	}
	events, err := m.options.Bus.Stream(bus.StreamEvents).State(ctx)
	if err != nil {
		return err
	}
	first, err := from(events)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, account := range begin {
		if _, noted := m.plannedStarts[account]; !noted {
			m.plannedStarts[account] = plannedStart{events.Created, first}
		}
	}
	return nil
}

// startSequence returns the sequence in EVENTS at which the order of an account will start; events is the present state of EVENTS.
func (m *Manager) startSequence(account string, events bus.StreamState) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, noted := m.plannedStarts[account]; noted && at.created.Equal(events.Created) {
		return at.from
	}
	return events.LastSeq + 1
}

// Route returns which dispatcher handles an event.
func (m *Manager) Route(account string, place int64, sequence uint64, rest bool) Route {
	if rest && place == 0 || place == 0 && !m.ordering.Load() {
		return Fanout
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	start, started := m.starts[account]
	switch {
	case !started && place == 0 && !m.wanted[account]:
		return Fanout
	case !started:
		return Unknown
	case rest:
		return Order
	case !start.Created.Equal(m.created): // the owner starts the order for this stream
		return Unknown
	case sequence >= start.From:
		return Order
	}
	return Fanout
}

// Await calls again when Route may know more about the account. bytes is the size of the event. False: too many
// events wait already.
func (m *Manager) Await(account string, bytes int64, again func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.awaiting[account]) >= maxAwaiting || m.options.Room != nil && m.awaited+bytes > m.options.Room.Limit()/awaitShare {
		return false
	}
	first := len(m.awaiting[account]) == 0
	m.awaiting[account] = append(m.awaiting[account], waitingEvent{bytes, again})
	m.awaited += bytes
	if first { // the owner may not know yet that it owns the order
		m.wanted[account] = true
		m.ordering.Store(true)
		m.options.Bus.Announce(bus.SubjectOrder, []byte(account))
		m.news.Store(true)
	}
	m.poke.Give()
	return true
}

// Run keeps order until ctx is done. Then it waits until the attempts in flight have ended.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.running = ctx
	m.mu.Unlock()
	m.working.Go(func() { m.followStream(ctx) })
	for next := time.Now(); ctx.Err() == nil; {
		if m.news.Swap(false) || !time.Now().Before(next) {
			wait := reloadInterval
			if !m.loadStarts(ctx) || m.hasAwaiting() {
				wait = reloadRetryInterval
			}
			next = time.Now().Add(wait)
		}
		m.syncKeepers()
		select {
		case <-ctx.Done():
		case <-m.poke:
		case <-time.After(time.Until(next)):
		}
	}
	m.working.Wait()
	return nil
}

// followStream keeps m.created, the time at which the stream EVENTS was created, up to date until ctx is done: a stream
// that was made anew has another. followStream works without the database, because fan-out hands on events of accounts
// with ordering while the database is away. Otherwise these events would fill the memory of all accounts.
func (m *Manager) followStream(ctx context.Context) {
	reconnects, stop := m.options.Bus.Reconnects()
	defer stop()
	for ctx.Err() == nil {
		wait := reloadInterval
		if !m.identifyStream(ctx) {
			wait = identifyRetryInterval
		}
		select {
		case <-ctx.Done():
		case <-reconnects:
			m.doubtStream()
		case <-time.After(wait):
		}
	}
}

// doubtStream forgets m.created, because EVENTS may be another stream now. No event from NATS is routed until the bus has been asked.
func (m *Manager) doubtStream() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created = time.Time{}
	for _, k := range m.keepers {
		k.checkStream()
	}
}

// identifyStream asks the bus which stream EVENTS is, unless that is known and no account uses order. False: the bus can't be asked.
func (m *Manager) identifyStream(ctx context.Context) bool {
	m.mu.Lock()
	known := !m.created.IsZero()
	m.mu.Unlock()
	if known && !m.ordering.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	events, err := m.options.Bus.Stream(bus.StreamEvents).State(ctx)
	if err != nil {
		return false
	}
	m.mu.Lock()
	m.created = events.Created.Truncate(time.Millisecond)
	m.mu.Unlock()
	m.routeAwaiting()
	return true
}

// hasAwaiting reports whether an event waits for the start of an order.
func (m *Manager) hasAwaiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.awaiting) > 0
}

// loadStarts reads where the order of each account has started. It returns false if the database can't be asked.
func (m *Manager) loadStarts(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	starts, err := m.options.Log.OrderStarts(ctx)
	if err != nil {
		return false
	}
	m.noteStarts(starts...)
	return true
}

// noteStarts notes where orders have started, and routes the events that have waited for that.
func (m *Manager) noteStarts(starts ...recorder.OrderStart) {
	if len(starts) == 0 {
		return
	}
	m.mu.Lock()
	for _, start := range starts {
		m.wanted[start.Account] = true
		m.starts[start.Account] = start
		delete(m.plannedStarts, start.Account)
	}
	m.ordering.Store(true)
	m.mu.Unlock()
	m.routeAwaiting()
}

// routeAwaiting routes again all events that waited and whose route is known now.
func (m *Manager) routeAwaiting() {
	var again []waitingEvent
	m.mu.Lock()
	for account, list := range m.awaiting {
		if start, started := m.starts[account]; !started || !start.Created.Equal(m.created) {
			continue
		}
		again = append(again, list...)
		delete(m.awaiting, account)
	}
	for _, w := range again {
		m.awaited -= w.bytes
	}
	m.mu.Unlock()
	for _, w := range again {
		w.again()
	}
}

// syncKeepers starts a keeper for each account that this dispatcher owns, and stops the others.
func (m *Manager) syncKeepers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for account := range m.wanted {
		owned := m.owned[domain.AccountShard(account)]
		k := m.keepers[account]
		switch {
		case owned && k == nil && m.running.Err() == nil:
			ctx, stop := context.WithCancel(m.running)
			k = newKeeper(m, account, stop)
			m.keepers[account] = k
			m.working.Go(func() {
				k.run(ctx)
				m.mu.Lock()
				delete(m.keepers, account)
				m.mu.Unlock()
				m.poke.Give()
			})
		case !owned && k != nil:
			k.stop()
		}
	}
}
