// Package news tells those who watch an account what has changed in it: kinds and ids, never
// data. News go over core subjects of the bus and may be lost. Who hears of a change reads it
// by the API, and who hears nothing for long may read all the same.
//
// Nobody pays for news that nobody wants: an account is told of only while somebody has said,
// within the last seconds, that it is watched.
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
	// Lease is how long an account is told of after somebody has said that it is watched.
	Lease = 15 * time.Second
	// Renewal is how often that is said again.
	Renewal = 5 * time.Second
	// interval is between two messages of a process about one account, at least.
	interval = 100 * time.Millisecond
	// MaxIDs is how many ids of a kind a message has. Of more it says only that there are many.
	MaxIDs = 32
	// maxAccounts is how many accounts are told of at a time; others have no news.
	maxAccounts = 1000
)

// Bus carries news.
type Bus interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
}

// Watch says that an account is watched for the next Lease.
func Watch(b Bus, account string) { b.Announce(bus.SubjectWatch, []byte(account)) }

// Changes are the ids of what has changed, by kind. A kind without ids stands for many
// changes: a page that shows such things should read them again.
type Changes map[Kind][]string

// Hear calls handle with the news of an account until stop is called.
func Hear(b Bus, account string, handle func(Changes)) (stop func(), err error) {
	stop, err = b.Listen(bus.LiveSubject(account), func(body []byte) {
		var changes Changes
		if json.Unmarshal(body, &changes) == nil { // what can't be read is lost, as news may be
			handle(changes)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("hear news: %w", err)
	}
	return stop, nil
}

// Publisher tells what a process has changed. Run must be running.
type Publisher struct {
	bus     Bus
	watched atomic.Pointer[map[string]struct{}] // replaced, never changed; nil: none

	mu      sync.Mutex
	leases  map[string]time.Time
	pending map[string]Changes
	wake    signal.Signal
}

// NewPublisher returns a Publisher of news.
func NewPublisher(b Bus) *Publisher {
	return &Publisher{bus: b, leases: make(map[string]time.Time), pending: make(map[string]Changes), wake: signal.New()}
}

// Watched reports whether any account is watched: without that, there is nothing to note.
func (p *Publisher) Watched() bool { return p.watched.Load() != nil }

// Note tells those who watch account of a change that is committed; an empty id stands for
// many. It never waits.
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
		p.signal()
	}
}

// Add adds a change. A kind with more than limit ids has none from then on, which stands for
// many.
func (c Changes) Add(kind Kind, id string, limit int) {
	ids, known := c[kind]
	switch {
	case known && len(ids) == 0: // many already
	case id == "" || len(ids) == limit && !slices.Contains(ids, id):
		c[kind] = []string{}
	case !slices.Contains(ids, id):
		c[kind] = append(ids, strings.Clone(id))
	}
}

func (p *Publisher) signal() {
	p.wake.Give()
}

// Run hears who watches, and tells, until ctx ends.
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
		select { // what changes meanwhile falls together
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// lease has account told of until Lease is over.
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
		p.signal() // Run has an end of leases to wait for
	}
}

// expire ends the leases that nobody has renewed.
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

// publishLeases makes anew what Note looks at; the caller holds mu.
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

// flush publishes what is pending: one message an account.
func (p *Publisher) flush() {
	p.mu.Lock()
	pending := p.pending
	p.pending = make(map[string]Changes, len(pending))
	p.mu.Unlock()
	for account, changes := range pending {
		body, err := json.Marshal(changes)
		if err != nil {
			continue // ids are ASCII: it can't fail
		}
		p.bus.Announce(bus.LiveSubject(account), body)
	}
}
