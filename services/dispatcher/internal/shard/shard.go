// Package shard decides which dispatcher owns which shard. Each dispatcher announces once a second
// that it is alive. A rendezvous hash over the dispatchers that were heard in the last 3.5 seconds
// gives every shard one owner, without a coordinator. For a moment, two dispatchers may believe
// that they own the same shard. The pinned consumers serve only one of them.
//
// While two versions run side by side, only the dispatchers that can read the most formats own shards.
package shard

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
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
	// introduction is how long a new dispatcher listens for others before it counts itself.
	introduction = 100 * time.Millisecond
)

// Owners knows the live dispatchers, and which of them owns which shard.
type Owners struct {
	self      string
	reads     int // see bus.Formats
	subject   string
	announcer Announcer
	log       *slog.Logger

	dividing sync.Mutex // keeps changes in order

	// owned and live are read for each delivery, some of them many times. They change under mu.
	owned [domain.Shards]atomic.Bool
	live  atomic.Int64

	mu       sync.Mutex
	seen     map[string]peer
	behind   bool // another dispatcher reads more formats
	gone     bool
	onChange []func(shard int, owned bool)
	onBehind []func(behind bool)

	introduced     chan struct{} // closed once this dispatcher knows the others
	introducedOnce sync.Once
}

// peer is another dispatcher.
type peer struct {
	at    time.Time // when the dispatcher was last heard
	reads int
}

// New returns the shard owners as this dispatcher, named self, sees them. reads is the version up
// to which it reads the formats on the bus.
func New(self string, reads int, subject string, announcer Announcer, log *slog.Logger) *Owners {
	m := &Owners{
		self: self, reads: reads, subject: subject, announcer: announcer, log: log,
		seen: make(map[string]peer), introduced: make(chan struct{}),
	}
	m.live.Store(1)
	return m
}

// OnChange sets handle, which is called whenever a shard is gained or lost. Call it before Run.
func (m *Owners) OnChange(handle func(shard int, owned bool)) {
	m.onChange = append(m.onChange, handle)
}

// OnBehind sets handle, which is called when a dispatcher appears that reads more than this one,
// and when the last such dispatcher is gone. Call it before Run.
func (m *Owners) OnBehind(handle func(behind bool)) { m.onBehind = append(m.onBehind, handle) }

// Owns reports whether this dispatcher owns the shard of a webhook.
func (m *Owners) Owns(id domain.WebhookID) bool { return m.owned[id.Shard()].Load() }

// OwnsAccount reports whether this dispatcher keeps the order of an account.
func (m *Owners) OwnsAccount(name string) bool { return m.owned[domain.AccountShard(name)].Load() }

// Introduced returns a channel that is closed once this dispatcher knows the other dispatchers. Before
// that, it would take itself for the only one.
func (m *Owners) Introduced() <-chan struct{} { return m.introduced }

func (m *Owners) introduce() { m.introducedOnce.Do(func() { close(m.introduced) }) }

// Live returns the number of live dispatchers, this one included.
func (m *Owners) Live() int { return int(m.live.Load()) }

type beat struct {
	ID   string `json:"id"`
	Gone bool   `json:"gone,omitempty"`
	// Reads is the version up to which the dispatcher reads the formats on the bus. A build that
	// does not send it reads the first.
	Reads int `json:"reads,omitempty"`
}

// Run takes part until ctx is done. Then it announces that it ends, and gives up all shards.
func (m *Owners) Run(ctx context.Context) error {
	stop, err := m.announcer.Listen(m.subject, m.noteBeat)
	if err != nil {
		return err
	}
	defer stop()
	m.announce(beat{ID: m.self, Reads: m.reads})
	select {
	case <-time.After(introduction):
	case <-ctx.Done():
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		m.announce(beat{ID: m.self, Reads: m.reads})
		m.divide(time.Now())
		m.introduce()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			m.announce(beat{ID: m.self, Gone: true})
			m.giveUp()
			return nil
		}
	}
}

func (m *Owners) announce(b beat) {
	if body, err := json.Marshal(b); err == nil {
		m.announcer.Announce(m.subject, body)
	}
}

func (m *Owners) noteBeat(body []byte) {
	var b beat
	if err := json.Unmarshal(body, &b); err != nil || b.ID == "" || b.ID == m.self {
		return
	}
	m.mu.Lock()
	_, known := m.seen[b.ID]
	if b.Gone {
		delete(m.seen, b.ID)
	} else {
		m.seen[b.ID] = peer{time.Now(), max(1, b.Reads)}
	}
	m.mu.Unlock()
	if !known && !b.Gone {
		m.announce(beat{ID: m.self, Reads: m.reads}) // a new dispatcher learns at once which others are there
	}
	if known == b.Gone { // a dispatcher has come or gone
		m.divide(time.Now())
	}
}

type change struct {
	shard int
	owned bool
}

func (m *Owners) divide(now time.Time) {
	m.dividing.Lock()
	defer m.dividing.Unlock()
	m.mu.Lock()
	if m.gone {
		m.mu.Unlock()
		return
	}
	newest := m.reads
	for id, p := range m.seen {
		if now.Sub(p.at) > lifetime {
			delete(m.seen, id)
			continue
		}
		newest = max(newest, p.reads)
	}
	if live := len(m.seen) + 1; live != m.Live() {
		m.log.Info("the set of live dispatchers changed", "live", live)
		m.live.Store(int64(live))
	}
	var ids []string
	if m.reads == newest {
		ids = append(ids, m.self)
	}
	for id, p := range m.seen {
		if p.reads == newest {
			ids = append(ids, id)
		}
	}
	behind := m.reads < newest
	turned := m.behind != behind
	m.behind = behind
	var changes []change
	for shard := range domain.Shards {
		owned := owner(ids, shard) == m.self
		if owned != m.owned[shard].Swap(owned) {
			changes = append(changes, change{shard, owned})
		}
	}
	m.mu.Unlock()
	m.notify(changes)
	if !turned {
		return
	}
	m.log.Info("dispatchers of the latest version now own retries, hold queues and records", "behind", behind)
	for _, handle := range m.onBehind {
		handle(behind)
	}
}

func (m *Owners) giveUp() {
	m.dividing.Lock()
	defer m.dividing.Unlock()
	m.mu.Lock()
	m.gone = true
	var changes []change
	for shard := range m.owned {
		if m.owned[shard].Swap(false) {
			changes = append(changes, change{shard, false})
		}
	}
	m.mu.Unlock()
	m.notify(changes)
}

func (m *Owners) notify(changes []change) {
	for _, c := range changes {
		for _, handle := range m.onChange {
			handle(c.shard, c.owned)
		}
	}
}

// owner returns the id of the dispatcher that has the greatest hash with the shard.
func owner(ids []string, shard int) string {
	var best string
	var greatest uint64
	for _, id := range ids {
		h := fnv.New64a()
		_, _ = h.Write([]byte(strconv.Itoa(shard) + "/" + id))
		sum := mixBits(h.Sum64())
		if best == "" || sum > greatest || (sum == greatest && id > best) {
			best, greatest = id, sum
		}
	}
	return best
}

// mixBits spreads FNV's weak high bits (the finalizer of SplitMix64).
func mixBits(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
