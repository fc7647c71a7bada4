// Package index keeps every webhook in memory, by account and event type, as the
// database has it. The database is the truth. Each change there raises a version in its
// own transaction. An announcement on the bus makes the index load the change at
// once, and a poll every 10 seconds finds changes whose announcement was lost.
package index

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/signal"
)

// Store reads the webhooks.
type Store interface {
	// Webhooks returns the webhooks that changed after version since, deleted ones included, and the
	// version that this covers. since 0: all webhooks.
	Webhooks(ctx context.Context, since int64) ([]domain.Webhook, int64, error)
	// LiveWebhooks returns the given webhooks that exist.
	LiveWebhooks(ctx context.Context, ids []domain.WebhookID) ([]domain.Webhook, error)
	Healths(ctx context.Context, since time.Time) ([]domain.Health, error)
}

// PollInterval is how long it takes to notice a change whose announcement was lost.
const PollInterval = 10 * time.Second

// Options of an index.
type Options struct {
	Store     Store
	Announcer Announcer
	// ConfigSubject and HealthSubject are where changes are announced.
	ConfigSubject, HealthSubject string
	Prepare                      Prepare
	// Ready waits until the changes that OnChange's handlers were called for are in force in this process; nil:
	// they are in force at once. Announcements are answered after Ready.
	Ready  func(ctx context.Context) error
	Logger *slog.Logger
}

// Index has the webhooks in memory.
type Index struct {
	options Options

	mu       sync.RWMutex
	hooks    map[domain.WebhookID]*Hook
	byEvent  map[subscription]*subscribers
	version  int64
	loaded   bool
	advanced chan struct{} // closed and replaced whenever version grows
	changes  []func(*Hook)
	ahead    map[domain.WebhookID]healthNews // of webhooks that are not known yet
	faulty   map[domain.WebhookID]struct{}   // whose configuration has a Fault
	asked    map[domain.WebhookID][]func(*Hook, error)
	reread   time.Time // when webhooks with a fault were last read again
	stopped  bool

	costly atomic.Int64 // how many lists are costly

	loadedAt time.Time // only the loading goroutine uses it
	poke     signal.Signal
}

type subscription struct {
	account string
	kind    domain.EventType
}

// New returns an empty index; Run fills it.
func New(options Options) *Index {
	return &Index{
		options:  options,
		hooks:    make(map[domain.WebhookID]*Hook),
		byEvent:  make(map[subscription]*subscribers),
		advanced: make(chan struct{}),
		ahead:    make(map[domain.WebhookID]healthNews),
		faulty:   make(map[domain.WebhookID]struct{}),
		asked:    make(map[domain.WebhookID][]func(*Hook, error)),
		poke:     signal.New(),
	}
}

// OnChange sets handle, which is called after each change of a hook, on the loading goroutine.
// Call it before Run.
func (x *Index) OnChange(handle func(*Hook)) { x.changes = append(x.changes, handle) }

// Subscribers returns the webhooks that an event goes to: those of its account that are registered
// for its type and whose filter it matches, inactive webhooks included. An alert does not go to the
// webhook that it is about. The slice must not be changed.
func (x *Index) Subscribers(e *domain.Event) []*Hook {
	x.mu.RLock()
	list := x.byEvent[subscription{e.Account, e.Type}]
	x.mu.RUnlock()
	if list == nil {
		return nil
	}
	hooks := list.matching(e.Payload)
	if len(hooks) == 0 || !e.Type.Alert() {
		return hooks
	}
	about := envelope.Webhook(e.Payload)
	return slices.DeleteFunc(slices.Clone(hooks), func(h *Hook) bool { return h.ID == about })
}

// Costly reports whether Subscribers may take long for an event, because its account has many
// filters on its type.
func (x *Index) Costly(e *domain.Event) bool {
	if x.costly.Load() == 0 {
		return false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	list := x.byEvent[subscription{e.Account, e.Type}]
	return list != nil && list.costly
}

// Hook returns a webhook. A webhook that is not known here may still exist: Find asks the database.
func (x *Index) Hook(id domain.WebhookID) (*Hook, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	h, ok := x.hooks[id]
	return h, ok
}

// Version returns the configuration version that the index has reached.
func (x *Index) Version() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.version
}

// Size returns the number of webhooks.
func (x *Index) Size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.hooks)
}

// Faulty returns the number of webhooks that can't be read.
func (x *Index) Faulty() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.faulty)
}

// Loaded reports whether the index has been loaded once.
func (x *Index) Loaded() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.loaded
}

// Await waits until the index has reached version, asking the database at once.
func (x *Index) Await(ctx context.Context, version int64) error {
	for {
		x.mu.RLock()
		reached, advanced := x.loaded && x.version >= version, x.advanced
		x.mu.RUnlock()
		if reached {
			return nil
		}
		x.Poke()
		select {
		case <-advanced:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("wait for configuration version %d: %w", version, ctx.Err())
		}
	}
}

// Poke makes the index ask the database now.
func (x *Index) Poke() { x.poke.Give() }

// Run loads the index and keeps it up to date until ctx is done.
func (x *Index) Run(ctx context.Context) error {
	stop, err := x.listen(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer x.stopFinds()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	for again.Do(ctx, again.Loop{
		First: 200 * time.Millisecond, Longest: 5 * time.Second, Log: x.options.Logger,
		Fails: "webhooks can't be read from the database; the known ones stay in use", Works: "webhooks can be read from the database again",
	}, func(func()) error { return x.load(ctx) }) == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-x.poke:
		case <-ticker.C:
		}
	}
	return nil
}

// The first load reads every webhook, which took 0.26 ms each on a busy machine.
const (
	firstLoadTime = 3 * time.Minute
	loadTime      = 30 * time.Second
)

// healthMargin: healths that changed up to this long before the last load are read again. They are
// few. They have no version, only the times at which dispatchers wrote them, by their own clocks.
const healthMargin = 2 * time.Minute

// load reads the changes since the version that the index has reached.
func (x *Index) load(ctx context.Context) error {
	x.mu.RLock()
	since, loaded := x.version, x.loaded
	x.mu.RUnlock()
	limit := loadTime
	if !loaded {
		limit = firstLoadTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	webhooks, version, err := x.options.Store.Webhooks(ctx, since)
	if err != nil {
		return fmt.Errorf("read webhooks: %w", err)
	}
	var healthSince time.Time
	if loaded {
		healthSince = x.loadedAt.Add(-healthMargin)
	}
	healths, err := x.options.Store.Healths(ctx, healthSince)
	if err != nil {
		return fmt.Errorf("read healths: %w", err)
	}
	x.apply(webhooks, healths, version)
	x.loadedAt = start
	return x.lookUp(ctx)
}
