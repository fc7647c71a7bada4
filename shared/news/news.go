// Package news tells clients that watch an account what has changed in it: kinds and ids, never
// data. News is sent on core subjects of the bus and may be lost. A client that gets news reads the
// change from the API; a client that gets none for long may read anyway.
//
// News costs nothing while no client wants it: an account has news only if a client has said within
// the last seconds that it watches the account.
package news

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/signal"
)

// Kind is what has changed.
type Kind string

// The kinds of news.
const (
	Event    Kind = "event"    // an event was accepted
	Delivery Kind = "delivery" // a delivery was made, attempted, or asked for
	Webhook  Kind = "webhook"  // a webhook was registered, changed, deleted, disabled, or recovered
	Job      Kind = "job"      // a job began, went on, or ended
)

// Kinds returns every kind.
func Kinds() []Kind { return []Kind{Event, Delivery, Webhook, Job} }

const (
	// Lease is how long an account has news after a client has said that it watches the account.
	Lease = 15 * time.Second
	// Renewal is how often a client says that again.
	Renewal = 5 * time.Second
	// interval is the least time between two messages of a process about one account.
	interval = 100 * time.Millisecond
	// MaxIDs is how many ids of a kind a message has. If there are more, it says only that there are many.
	MaxIDs = 32
	// maxAccounts is how many accounts have news at a time; others have none.
	maxAccounts = 1000
)

// Bus carries news.
type Bus interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
}

// Watch says that a client watches an account for the next Lease.
func Watch(b Bus, account string) { b.Announce(bus.SubjectWatch, []byte(account)) }

// Changes are the ids of what has changed, by kind. A kind without ids stands for many changes: a
// page that shows that kind should read it again.
type Changes map[Kind][]string

// Hear calls handle with the news of an account until stop is called.
func Hear(b Bus, account string, handle func(Changes)) (stop func(), err error) {
	stop, err = b.Listen(bus.LiveSubject(account), func(body []byte) {
		var changes Changes
		if json.Unmarshal(body, &changes) == nil { // a message that can't be read is lost, as any message may be
			handle(changes)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("hear news: %w", err)
	}
	return stop, nil
}

// Publisher publishes the changes of a process. Run must be running.
type Publisher struct {
	bus     Bus
	watched atomic.Pointer[map[string]struct{}] // replaced, never changed; nil: no account is watched

	mu      sync.Mutex
	leases  map[string]time.Time
	pending map[string]Changes
	wake    signal.Signal
}

// NewPublisher returns a Publisher of news.
func NewPublisher(b Bus) *Publisher {
	return &Publisher{bus: b, leases: make(map[string]time.Time), pending: make(map[string]Changes), wake: signal.New()}
}

// Watched reports whether any account is watched. If none is, there is nothing to note.
func (p *Publisher) Watched() bool { return p.watched.Load() != nil }

// Note announces a committed change to the clients that watch account; an empty id stands for many
// changes. It never waits.
func (p *Publisher) Note(account string, kind Kind, id string) {
	watched := p.watched.Load()
	if watched == nil {
		return
	}
	if _, ok := (*watched)[account]; !ok {
		return
	}
	p.mu.Lock()
	changes := p.pending[account]
	if changes == nil {
		changes = make(Changes, 1)
		p.pending[account] = changes
	}
	first := len(p.pending) == 1 && len(changes) == 0
	changes.Add(kind, id, MaxIDs)
	p.mu.Unlock()
	if first {
		p.wake.Give()
	}
}

// Add adds a change. A kind with more than limit ids loses its ids, which stands for many changes.
func (c Changes) Add(kind Kind, id string, limit int) {
	ids, known := c[kind]
	switch {
	case known && len(ids) == 0: // there are many already
	case id == "" || len(ids) == limit && !slices.Contains(ids, id):
		c[kind] = []string{}
	case !slices.Contains(ids, id):
		c[kind] = append(ids, strings.Clone(id))
	}
}

// Run receives which accounts are watched, and publishes changes, until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	stop, err := p.bus.Listen(bus.SubjectWatch, func(body []byte) { p.lease(string(body), time.Now()) })
	if err != nil {
		return fmt.Errorf("hear who watches: %w", err)
	}
	defer stop()
	for {
		var again <-chan time.Time
		if p.Watched() {
			again = time.After(Renewal)
		}
		select {
		case <-ctx.Done():
			return nil
		case now := <-again:
			p.expire(now)
			continue
		case <-p.wake:
		}
		p.flush()
		select { // changes in the interval go into one message
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// lease makes account watched until Lease is over.
func (p *Publisher) lease(account string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.leases[account]
	if !known && len(p.leases) >= maxAccounts {
		return
	}
	p.leases[account] = now.Add(Lease)
	if !known {
		p.publishLeases()
		p.wake.Give() // Run must wait for the end of this lease
	}
}

// expire ends the leases that were not renewed.
func (p *Publisher) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for account, end := range p.leases {
		if now.After(end) {
			delete(p.leases, account)
			delete(p.pending, account)
		}
	}
	p.publishLeases()
}

// publishLeases makes the set that Note reads; the caller holds mu.
func (p *Publisher) publishLeases() {
	if len(p.leases) == 0 {
		p.watched.Store(nil)
		return
	}
	watched := make(map[string]struct{}, len(p.leases))
	for account := range p.leases {
		watched[account] = struct{}{}
	}
	p.watched.Store(&watched)
}

// flush publishes the pending changes: one message for each account.
func (p *Publisher) flush() {
	p.mu.Lock()
	pending := p.pending
	p.pending = make(map[string]Changes, len(pending))
	p.mu.Unlock()
	for account, changes := range pending {
		body, err := json.Marshal(changes)
		if err != nil {
			continue // can't happen: ids are ASCII
		}
		p.bus.Announce(bus.LiveSubject(account), body)
	}
}
