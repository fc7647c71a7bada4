// Package record carries outcomes to the database. The Emitter collects the outcomes of
// deliveries in batches on the bus. The Stage takes the batches and writes them in
// bulk. Deliveries go on while the database is down, and the log catches up.
package record

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
)

// Publisher stores batches on the bus; done is called exactly once.
type Publisher interface {
	PublishRecords(body []byte, done func(error))
	// Server returns the id of the connected server, which changes with each start of the server;
	// empty: none is connected.
	Server() string
}

const (
	// linger is how long a batch waits for more items, unless it has enough before. Only the event's
	// acknowledgement waits for a record. A message of one item costs as much as a message of a hundred: at 100
	// events/s, a message for each item took a quarter of all that the dispatcher and the bus do.
	linger = 40 * time.Millisecond
	// maxBatchItems is the most items that a batch has.
	maxBatchItems = 200
	// lingerInTurn is how long a batch waits if it has an outcome of an ordered delivery, because the
	// next delivery of the shipment goes out when the outcome is stored.
	lingerInTurn = 5 * time.Millisecond
	// maxOutstanding is how many batches may wait for the bus at once.
	maxOutstanding = 4
	// maxBatch is the size in bytes from which a batch is closed. The bus refuses 1 MiB, and one
	// more item has some 270 KiB at most.
	maxBatch = 448 << 10
)

// Item is one thing to record; nil and empty parts are left out.
type Item struct {
	Outcome *domain.Outcome
	Event   *domain.Event    // an event that was published on NATS
	Settled *domain.EventKey // an event with all deliveries stored
	// In is the epoch in which these deliveries were stored. If it does not hold any more, Settled
	// is left out, because the bus may have lost outcomes that the database does not have yet.
	In     Epoch
	Health *domain.HealthChange
	// OutcomeEvent is the event that the outcome belongs to, if that event is to be settled; otherwise nil.
	OutcomeEvent SettlingEvent
	Done         func() // called once the bus has stored the item, on a goroutine that it must not block
}

// SettlingEvent is an event whose deliveries are being recorded. When each delivery has a stored outcome, an item
// marks the event as settled. A settled event is never sent again.
type SettlingEvent interface {
	// Settle is called once for each batch with outcomes of the event, with their number. If all other
	// outcomes are stored, it returns the item that settles the event, which goes into the batch behind
	// them; otherwise nil.
	Settle(n int) *Item
}

// Emitter gathers items into batches and stores them on the bus, and tries for ever if needed. It
// accepts every item, so callers ask Full before they begin work that leads to more items.
type Emitter struct {
	publisher  Publisher
	log        *slog.Logger
	batchItems int          // items of a batch
	maxBytes   int64        // bytes with which the emitter is full
	bytes      atomic.Int64 // bytes of items that are not stored yet

	mu         sync.Mutex
	pending    []entry
	idle       *sync.Cond // pending is empty and no batch is on its way
	publishing int

	wake   signal.Signal // something is pending
	full   signal.Signal // enough items are pending
	inTurn signal.Signal // the outcome of an ordered delivery is pending
	slots  chan struct{}
}

// NewEmitter returns an emitter that is full with most bytes. rows is about how many outcomes the
// stage writes at a time; no batch has more. Run makes the emitter work.
func NewEmitter(publisher Publisher, rows int, most int64, log *slog.Logger) *Emitter {
	e := &Emitter{
		publisher: publisher, log: log, batchItems: min(rows, maxBatchItems), maxBytes: most, wake: signal.New(), full: signal.New(),
		inTurn: signal.New(), slots: make(chan struct{}, maxOutstanding),
	}
	e.idle = sync.NewCond(&e.mu)
	return e
}

// Full reports whether the items that wait for the bus have reached the bound.
func (e *Emitter) Full() bool { return e.bytes.Load() >= e.maxBytes }

// Bytes returns how many bytes wait to be stored.
func (e *Emitter) Bytes() int64 { return e.bytes.Load() }

// Emit takes an item over.
func (e *Emitter) Emit(item Item) {
	added := newEntry(&item)
	e.bytes.Add(int64(len(added.encoded)))
	e.mu.Lock()
	e.pending = append(e.pending, added)
	n := len(e.pending)
	e.mu.Unlock()
	switch n {
	case 1:
		e.wake.Give()
	case e.batchItems:
		e.full.Give()
	}
	if item.Outcome != nil && item.Outcome.Sequence > 0 {
		e.inTurn.Give()
	}
}

// Run publishes batches until ctx is done. A caller that needs everything stored calls Flush first.
func (e *Emitter) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
		}
		e.await(ctx)
		for {
			select {
			case e.slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			batch := e.takeBatch()
			if len(batch) == 0 {
				<-e.slots
				break
			}
			go e.store(ctx, batch)
		}
	}
}

// await waits for more items. A signal that is left over from an earlier batch ends one wait too early.
func (e *Emitter) await(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for inTurn := e.inTurn; ; {
		select {
		case <-inTurn:
			inTurn = nil
			timer.Reset(lingerInTurn)
		case <-timer.C:
			return
		case <-e.full:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Flush waits until everything emitted so far is stored, or ctx is done.
func (e *Emitter) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.idle.Broadcast()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for (len(e.pending) > 0 || e.publishing > 0) && ctx.Err() == nil {
		e.idle.Wait()
	}
	return ctx.Err()
}

// takeBatch removes the next batch from the items that wait.
func (e *Emitter) takeBatch() []entry {
	e.mu.Lock()
	size, n := 0, 0
	for n < len(e.pending) && n < e.batchItems && size < maxBatch {
		size += len(e.pending[n].encoded)
		n++
	}
	batch := e.pending[:n:n]
	e.pending = e.pending[n:]
	if len(e.pending) == 0 {
		e.pending = nil
	}
	if n > 0 {
		e.publishing++
	}
	e.mu.Unlock()
	return e.settle(batch)
}

// settle appends the settlements of the events that a batch completes.
func (e *Emitter) settle(batch []entry) []entry {
	outcomes := make(map[SettlingEvent]int)
	for i := range batch {
		if of := batch[i].outcomeEvent; of != nil {
			outcomes[of]++
		}
	}
	for of, n := range outcomes {
		if item := of.Settle(n); item != nil {
			batch = append(batch, newEntry(item))
			e.bytes.Add(int64(len(batch[len(batch)-1].encoded)))
		}
	}
	return batch
}

func (e *Emitter) store(ctx context.Context, batch []entry) {
	defer func() { <-e.slots }()
	stored := make(chan error, 1)
	if again.Do(ctx, again.Loop{
		First: 50 * time.Millisecond, Longest: 2 * time.Second, Log: e.log,
		Fails: "records can't be stored on the bus; trying again", About: []any{"items", len(batch)},
	}, func(func()) error {
		e.publisher.PublishRecords(encode(batch, e.publisher.Server()), func(err error) { stored <- err })
		return <-stored
	}) == nil {
		for i := range batch {
			if batch[i].done != nil {
				batch[i].done()
			}
		}
	}
	e.endBatch(batch)
}

func (e *Emitter) endBatch(batch []entry) {
	size := 0
	for i := range batch {
		size += len(batch[i].encoded)
	}
	e.bytes.Add(-int64(size))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publishing--
	if e.publishing == 0 && len(e.pending) == 0 {
		e.idle.Broadcast()
	}
}
