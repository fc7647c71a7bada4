// Package index keeps every webhook in memory, by account and event type, as the
// database has it. The database is the truth: each change there raises a version in its
// own transaction; an announcement on the bus makes the index load what changed at
// once, and a poll every 10 seconds finds what an announcement missed.
package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"waybill.dev/shared/domain"
)

// Store reads the webhooks.
type Store interface {
	Webhooks(ctx context.Context, since int64) ([]domain.Webhook, int64, error)
	Healths(ctx context.Context, since time.Time) ([]domain.Health, error)
}

// Announcer carries nudges between processes; they may be lost.
type Announcer interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	ListenAnswering(subject string, handle func(body []byte, answer func())) (stop func(), err error)
}

// answerTime is how long an announcer's question is worth an answer.
const answerTime = 2 * time.Second

// maxAhead bounds the news of unknown webhooks that are kept.
const maxAhead = 1024

// PollInterval is after how long a change is seen whose announcement was lost.
const PollInterval = 10 * time.Second

// Options of an index.
type Options struct {
	Store     Store
	Announcer Announcer
	// ConfigSubject and HealthSubject are where changes are announced.
	ConfigSubject, HealthSubject string
	Prepare                      Prepare
	Logger                       *slog.Logger
}

// Index is the webhooks in memory.
type Index struct {
	options Options

	mu       sync.RWMutex
	hooks    map[domain.WebhookID]*Hook
	byEvent  map[subscription][]*Hook
	version  int64
	loaded   bool
	advanced chan struct{} // closed and replaced whenever version grows
	changes  []func(*Hook)
	ahead    map[domain.WebhookID]healthNews // of webhooks that are not known yet

	poke chan struct{}
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
		byEvent:  make(map[subscription][]*Hook),
		advanced: make(chan struct{}),
		ahead:    make(map[domain.WebhookID]healthNews),
		poke:     make(chan struct{}, 1),
	}
}

// OnChange has handle called after each change of a hook, on the loading goroutine.
// It is to be called before Run.
func (x *Index) OnChange(handle func(*Hook)) { x.changes = append(x.changes, handle) }

// Subscribers returns the webhooks of account that events of type kind go to, the
// inactive ones included. The slice must not be changed.
func (x *Index) Subscribers(account string, kind domain.EventType) []*Hook {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.byEvent[subscription{account, kind}]
}

// Hook returns a webhook, deleted ones that are still remembered included.
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

// Loaded tells whether the index has been filled once.
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
func (x *Index) Poke() {
	select {
	case x.poke <- struct{}{}:
	default:
	}
}

// listen hears announcements until ctx is done and stop is called.
func (x *Index) listen(ctx context.Context) (stop func(), err error) {
	var answering sync.WaitGroup
	ctx, stopAnswers := context.WithCancel(ctx)
	stopConfig, err := x.options.Announcer.ListenAnswering(x.options.ConfigSubject, func(body []byte, answer func()) {
		x.Poke()
		// A version is announced: its announcer may wait until it holds here.
		version, err := strconv.ParseInt(string(body), 10, 64)
		if err != nil {
			return
		}
		answering.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			if x.Await(ctx, version) == nil {
				answer()
			}
		})
	})
	if err != nil {
		stopAnswers()
		return nil, err
	}
	stopHealth, err := x.options.Announcer.Listen(x.options.HealthSubject, x.heardHealth)
	if err != nil {
		stopAnswers()
		stopConfig()
		return nil, err
	}
	return func() {
		stopHealth()
		stopConfig()
		stopAnswers()
		answering.Wait()
	}, nil
}

// Run loads the index and keeps it up to date until ctx is done.
func (x *Index) Run(ctx context.Context) error {
	stop, err := x.listen(ctx)
	if err != nil {
		return err
	}
	defer stop()
	ticker := time.NewTicker(PollInterval)
	defer ticker.Stop()
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	var retry <-chan time.Time
	failing := false
	for {
		pokes := x.poke
		if err := x.load(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !failing {
				x.options.Logger.Warn("webhooks can't be read; the present ones stay in force", "error", err)
			}
			// A poke must not turn the wait into a busy loop.
			failing, retry, pokes = true, time.After(wait.NextBackOff()), nil
		} else {
			if failing {
				x.options.Logger.Info("webhooks are read again")
			}
			failing, retry = false, nil
			wait.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
		case <-pokes:
		case <-ticker.C:
		}
	}
}

// The first load reads every webhook, which took 0.26 ms each on a busy machine.
const (
	firstLoadTime = 3 * time.Minute
	loadTime      = 30 * time.Second
)

// load reads what changed since the version that was reached. Healths are few and have
// no version: those written in the last two minutes are read again each time.
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
	webhooks, version, err := x.options.Store.Webhooks(ctx, since)
	if err != nil {
		return fmt.Errorf("read webhooks: %w", err)
	}
	var healthSince time.Time
	if loaded {
		healthSince = time.Now().Add(-2 * time.Minute)
	}
	healths, err := x.options.Store.Healths(ctx, healthSince)
	if err != nil {
		return fmt.Errorf("read healths: %w", err)
	}
	x.apply(webhooks, healths, version)
	return nil
}

func (x *Index) apply(webhooks []domain.Webhook, healths []domain.Health, version int64) {
	changed := make(map[*Hook]struct{})
	x.mu.Lock()
	for i := range webhooks {
		hook, err := x.put(&webhooks[i])
		if err != nil {
			x.options.Logger.Error("webhook can't be used", "webhook", webhooks[i].ID, "error", err)
			continue
		}
		changed[hook] = struct{}{}
	}
	for _, health := range healths {
		if hook, ok := x.hooks[health.Webhook]; ok && hook.setHealth(health) {
			changed[hook] = struct{}{}
		}
	}
	if version > x.version || !x.loaded {
		x.version, x.loaded = max(version, x.version), true
		close(x.advanced)
		x.advanced = make(chan struct{})
	}
	x.mu.Unlock()
	for hook := range changed {
		for _, handle := range x.changes {
			handle(hook)
		}
	}
}

// put adds or replaces a webhook; x.mu is held.
func (x *Index) put(w *domain.Webhook) (*Hook, error) {
	prepared, err := x.options.Prepare(w)
	if err != nil {
		return nil, fmt.Errorf("prepare webhook: %w", err)
	}
	hook, known := x.hooks[w.ID]
	if !known {
		hook = &Hook{ID: w.ID, Account: w.Account}
		x.hooks[w.ID] = hook
		if news, ok := x.ahead[w.ID]; ok {
			delete(x.ahead, w.ID)
			hook.disable(news.DisabledVersion, news.Reason, news.At)
		}
	} else {
		old := hook.config.Load()
		if old.Version > w.Version {
			return hook, nil
		}
		for _, kind := range old.Events {
			key := subscription{w.Account, kind}
			// A new slice: readers hold the old one.
			x.byEvent[key] = slices.DeleteFunc(slices.Clone(x.byEvent[key]), func(h *Hook) bool { return h == hook })
		}
	}
	hook.config.Store(&Config{Webhook: w, Prepared: prepared})
	if w.Deleted {
		return hook, nil
	}
	for _, kind := range w.Events {
		key := subscription{w.Account, kind}
		x.byEvent[key] = append(slices.Clip(x.byEvent[key]), hook)
	}
	return hook, nil
}

// healthNews is the body of an announcement of a webhook's health.
type healthNews struct {
	Webhook         domain.WebhookID      `json:"webhook"`
	DisabledVersion int64                 `json:"disabledVersion,omitempty"`
	Reason          domain.DisabledReason `json:"reason,omitempty"`
	At              time.Time             `json:"at"`
}

// Disable marks a webhook as disabled here and tells the other dispatchers. The caller
// records it.
func (x *Index) Disable(hook *Hook, change domain.HealthChange) {
	x.disable(hook, change.DisabledVersion, change.DisabledReason, change.At)
	body, err := json.Marshal(healthNews{hook.ID, change.DisabledVersion, change.DisabledReason, change.At})
	if err == nil {
		x.options.Announcer.Announce(x.options.HealthSubject, body)
	}
}

func (x *Index) heardHealth(body []byte) {
	var news healthNews
	if err := json.Unmarshal(body, &news); err != nil || news.DisabledVersion == 0 {
		x.Poke()
		return
	}
	x.mu.Lock()
	hook, known := x.hooks[news.Webhook]
	if !known {
		// It was made a moment ago: another dispatcher knows it already and has found it
		// gone. Its health may reach the database after it is read from there.
		if len(x.ahead) >= maxAhead {
			clear(x.ahead)
		}
		x.ahead[news.Webhook] = news
	}
	x.mu.Unlock()
	if !known {
		x.Poke()
		return
	}
	x.disable(hook, news.DisabledVersion, news.Reason, news.At)
}

func (x *Index) disable(hook *Hook, version int64, reason domain.DisabledReason, at time.Time) {
	if !hook.disable(version, reason, at) {
		return
	}
	for _, handle := range x.changes {
		handle(hook)
	}
}

// disable marks the webhook as disabled; false: it is already.
func (h *Hook) disable(version int64, reason domain.DisabledReason, at time.Time) bool {
	health := h.Health()
	if health.DisabledVersion >= version {
		return false
	}
	health.DisabledVersion, health.DisabledReason, health.DisabledAt, health.UpdatedAt = version, reason, at, at
	return h.setHealth(health)
}

// ErrUnknown is for a webhook that the database does not have.
var ErrUnknown = errors.New("unknown webhook")

// Prepared is what deliveries need of a webhook beyond its fields, made once for each change.
type Prepared any

// Prepare makes it.
type Prepare func(*domain.Webhook) (Prepared, error)

// Config is one state of a webhook; it never changes.
type Config struct {
	*domain.Webhook
	Prepared Prepared
}

// Hook is a webhook in memory. It stays the same while its configuration changes.
type Hook struct {
	ID      domain.WebhookID
	Account string
	config  atomic.Pointer[Config]
	health  atomic.Pointer[domain.Health]
}

// Config returns the present configuration.
func (h *Hook) Config() *Config { return h.config.Load() }

// Health returns the present health.
func (h *Hook) Health() domain.Health {
	if p := h.health.Load(); p != nil {
		return *p
	}
	return domain.Health{Webhook: h.ID}
}

// SetFailing notes here since when the receiver has only failed; zero: it succeeded.
// The caller records it.
func (h *Hook) SetFailing(since time.Time) {
	health := h.Health()
	health.FailingSince, health.UpdatedAt = since, time.Now()
	h.setHealth(health)
}

// setHealth keeps the newer of two healths; a disablement is never taken back, as an
// activation has a higher version.
func (h *Hook) setHealth(health domain.Health) bool {
	for {
		old := h.health.Load()
		if old != nil {
			if health.DisabledVersion < old.DisabledVersion {
				health.DisabledVersion, health.DisabledReason, health.DisabledAt = old.DisabledVersion, old.DisabledReason, old.DisabledAt
			}
			if health.UpdatedAt.Before(old.UpdatedAt) {
				health.FailingSince, health.UpdatedAt = old.FailingSince, old.UpdatedAt
			}
			if health == *old {
				return false
			}
		}
		if h.health.CompareAndSwap(old, &health) {
			return true
		}
	}
}

// Inactive tells whether nothing but tests is to be sent.
func (h *Hook) Inactive() bool {
	_, inactive := h.Config().Inactive(h.Health())
	return inactive
}
