// Package member divides the shards among the live dispatchers: each says once a second
// that it lives, and a rendezvous hash over those heard in the last 3.5 seconds gives
// every shard one owner, without any coordinator. Two may believe for a moment that
// they own a shard; the pinned consumers serve only one of them.
package member

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"waybill.dev/shared/domain"
)

// Announcer carries heartbeats; they may be lost.
type Announcer interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
}

const (
	heartbeat = time.Second
	lifetime  = 3500 * time.Millisecond
	// introduction is how long a new one listens to who is there before it counts itself.
	introduction = 100 * time.Millisecond
)

// Members knows the live dispatchers.
type Members struct {
	self      string
	subject   string
	announcer Announcer
	log       *slog.Logger

	dividing sync.Mutex // keeps changes in order

	mu    sync.Mutex
	seen  map[string]time.Time
	owned [domain.Shards]bool
	live  int
	gone  bool
	on    []func(shard int, owned bool)

	settled     chan struct{} // closed once this one knows who is there
	settledOnce sync.Once
}

// New returns the members as this dispatcher, named self, sees them.
func New(self, subject string, announcer Announcer, log *slog.Logger) *Members {
	return &Members{self: self, subject: subject, announcer: announcer, log: log, seen: make(map[string]time.Time), live: 1, settled: make(chan struct{})}
}

// OnChange has handle called whenever a shard is gained or lost; before Run.
func (m *Members) OnChange(handle func(shard int, owned bool)) { m.on = append(m.on, handle) }

// Owns tells whether this dispatcher owns the shard of a webhook.
func (m *Members) Owns(id domain.WebhookID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[id.Shard()]
}

// Settled is closed once this dispatcher knows who else is there: before, it would take
// itself for the only one.
func (m *Members) Settled() <-chan struct{} { return m.settled }

func (m *Members) settle() { m.settledOnce.Do(func() { close(m.settled) }) }

// Live returns the number of live dispatchers, this one included.
func (m *Members) Live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

type beat struct {
	ID   string `json:"id"`
	Gone bool   `json:"gone,omitempty"`
}

// Run takes part until ctx is done; then it says goodbye and gives all shards up.
func (m *Members) Run(ctx context.Context) error {
	stop, err := m.announcer.Listen(m.subject, m.heard)
	if err != nil {
		return err
	}
	defer stop()
	m.say(beat{ID: m.self})
	select {
	case <-time.After(introduction):
	case <-ctx.Done():
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		m.say(beat{ID: m.self})
		m.divide(time.Now())
		m.settle()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			m.say(beat{ID: m.self, Gone: true})
			m.giveUp()
			return nil
		}
	}
}

func (m *Members) say(b beat) {
	if body, err := json.Marshal(b); err == nil {
		m.announcer.Announce(m.subject, body)
	}
}

func (m *Members) heard(body []byte) {
	var b beat
	if err := json.Unmarshal(body, &b); err != nil || b.ID == "" || b.ID == m.self {
		return
	}
	m.mu.Lock()
	_, known := m.seen[b.ID]
	if b.Gone {
		delete(m.seen, b.ID)
	} else {
		m.seen[b.ID] = time.Now()
	}
	m.mu.Unlock()
	if !known && !b.Gone {
		m.say(beat{ID: m.self}) // who comes new learns at once who is there
	}
	if known == b.Gone { // somebody new, or somebody gone
		m.divide(time.Now())
	}
}

type change struct {
	shard int
	owned bool
}

func (m *Members) divide(now time.Time) {
	m.dividing.Lock()
	defer m.dividing.Unlock()
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return
	}
	ids := []string{m.self}
	for id, at := range m.seen {
		if now.Sub(at) > lifetime {
			delete(m.seen, id)
			continue
		}
		ids = append(ids, id)
	}
	if len(ids) != m.live {
		m.log.Info("dispatchers changed", "live", len(ids))
	}
	m.live = len(ids)
	var changes []change
	for shard := range domain.Shards {
		owned := owner(ids, shard) == m.self
		if owned != m.owned[shard] {
			m.owned[shard] = owned
			changes = append(changes, change{shard, owned})
		}
	}
	m.mu.Unlock()
	m.tell(changes)
}

func (m *Members) giveUp() {
	m.dividing.Lock()
	defer m.dividing.Unlock()
	m.mu.Lock()
	m.gone = true
	var changes []change
	for shard, owned := range m.owned {
		if owned {
			m.owned[shard] = false
			changes = append(changes, change{shard, false})
		}
	}
	m.mu.Unlock()
	m.tell(changes)
}

func (m *Members) tell(changes []change) {
	for _, c := range changes {
		for _, handle := range m.on {
			handle(c.shard, c.owned)
		}
	}
}

// owner is the dispatcher whose hash with the shard is greatest.
func owner(ids []string, shard int) string {
	var best string
	var greatest uint64
	for _, id := range ids {
		h := fnv.New64a()
		_, _ = h.Write([]byte(strconv.Itoa(shard) + "/" + id))
		sum := mix(h.Sum64())
		if best == "" || sum > greatest || (sum == greatest && id > best) {
			best, greatest = id, sum
		}
	}
	return best
}

// mix spreads FNV's weak high bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
