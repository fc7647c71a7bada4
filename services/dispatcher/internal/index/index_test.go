package index_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

type source struct {
	mu       sync.Mutex
	webhooks map[domain.WebhookID]domain.Webhook
	healths  []domain.Health
	version  int64
	err      error
	reads    int
	lookups  int
}

func (s *source) Webhooks(_ context.Context, since int64) ([]domain.Webhook, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, 0, s.err
	}
	var list []domain.Webhook
	for _, w := range s.webhooks {
		if w.Version > since && (since > 0 || !w.Deleted) {
			list = append(list, w)
		}
	}
	return list, s.version, nil
}

func (s *source) LiveWebhooks(_ context.Context, ids []domain.WebhookID) ([]domain.Webhook, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups++
	if s.err != nil {
		return nil, s.err
	}
	var list []domain.Webhook
	for _, id := range ids {
		if w, ok := s.webhooks[id]; ok && !w.Deleted {
			list = append(list, w)
		}
	}
	return list, nil
}

func (s *source) Healths(context.Context, time.Time) ([]domain.Health, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healths, s.err
}

func (s *source) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *source) put(w domain.Webhook) {
	s.change(func() {
		s.version++
		w.Version = s.version
		s.webhooks[w.ID] = w
	})
}

// silent is a bus on which every announcement is lost.
type silent struct{}

func (silent) Announce(string, []byte) {}
func (silent) Listen(string, func([]byte)) (func(), error) {
	return func() {}, nil
}

func hook(n int, events ...domain.EventType) domain.Webhook {
	return domain.Webhook{
		ID: domain.WebhookID(fmt.Sprintf("0198aaaa-bbbb-7ccc-8ddd-%012x", n)), Account: "default", Active: true, Events: events,
	}
}

func (silent) ListenAnswering(string, func([]byte, func())) (func(), error) {
	return func() {}, nil
}

func start(t *testing.T, s *source) *index.Index { return startOn(t, s, silent{}) }

func startOn(t *testing.T, s *source, announcer index.Announcer) *index.Index {
	t.Helper()
	return startWith(t, index.Options{
		Store: s, Announcer: announcer, Logger: slog.New(slog.DiscardHandler),
		Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil },
	})
}

func startWith(t *testing.T, options index.Options) *index.Index {
	t.Helper()
	x := index.New(options)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = x.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return x
}

func TestIndexFollowsTheDatabaseThoughAnnouncementsAreLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		s.put(hook(1, domain.ShipmentCreated, domain.ShipmentDelivered))
		s.put(hook(2, domain.ShipmentDelivered))
		x := start(t, s)
		if err := x.Await(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		subscribers := func(kind domain.EventType, want int) {
			t.Helper()
			if got := len(x.Subscribers(&domain.Event{Account: "default", Type: kind})); got != want {
				t.Errorf("%d subscribers of %s, want %d", got, kind, want)
			}
		}
		subscribers(domain.ShipmentDelivered, 2)
		subscribers(domain.ShipmentCreated, 1)
		subscribers(domain.ShipmentException, 0)
		if n := len(x.Subscribers(&domain.Event{Account: "other", Type: domain.ShipmentDelivered})); n != 0 {
			t.Errorf("another account sees %d webhooks", n)
		}
		kept, _ := x.Hook(hook(1).ID)
		deleted, _ := x.Hook(hook(2).ID)
		s.put(hook(1, domain.ShipmentException))
		gone := hook(2)
		gone.Deleted = true
		s.put(gone)
		<-time.After(index.PollInterval + time.Second)
		synctest.Wait()
		subscribers(domain.ShipmentDelivered, 0)
		subscribers(domain.ShipmentCreated, 0)
		subscribers(domain.ShipmentException, 1)
		if now, _ := x.Hook(hook(1).ID); now != kept {
			t.Error("a changed webhook is another hook: its state in memory would be lost")
		}
		if _, ok := x.Hook(hook(2).ID); ok || !deleted.Config().Deleted || x.Size() != 1 {
			t.Errorf("%d webhooks in memory, deleted %t", x.Size(), deleted.Config().Deleted)
		}
	})
}

func TestAwaitWaitsForTheVersionThroughAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}, err: errors.New("down")}
		x := start(t, s)
		reached := make(chan error, 1)
		go func() { reached <- x.Await(t.Context(), 1) }()
		<-time.After(time.Minute)
		synctest.Wait()
		select {
		case err := <-reached:
			t.Fatalf("reached without a database: %v", err)
		default:
		}
		reads := 0
		s.change(func() { reads, s.err = s.reads, nil })
		if reads > 60 {
			t.Errorf("%d reads in a minute of outage: it does not back off", reads)
		}
		s.put(hook(1, domain.ShipmentCreated))
		if err := <-reached; err != nil || x.Version() < 1 {
			t.Errorf("version %d, %v", x.Version(), err)
		}
	})
}

func TestDisablementHoldsUntilALaterActivation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		w := hook(1, domain.ShipmentCreated)
		w.ActivatedVersion = 1
		s.put(w)
		x := start(t, s)
		if err := x.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		h, _ := x.Hook(w.ID)
		x.Disable(h, domain.HealthChange{Webhook: w.ID, DisabledVersion: 1, DisabledReason: domain.DisabledGone, At: time.Now()})
		if !h.Inactive() {
			t.Fatal("not inactive after it was disabled")
		}
		// The database has not heard of it yet: an older health must not undo it.
		s.change(func() { s.healths = []domain.Health{{Webhook: w.ID}} })
		<-time.After(index.PollInterval + time.Second)
		if !h.Inactive() {
			t.Error("an older health undid the disablement")
		}
		w.ActivatedVersion = 2
		s.put(w)
		<-time.After(index.PollInterval + time.Second)
		synctest.Wait()
		if h.Inactive() {
			t.Error("still inactive after its owner activated it")
		}
	})
}

// heard is a bus on which a process hears what the others announce.
type heard struct {
	silent
	mu       sync.Mutex
	handlers []func([]byte)
}

func (h *heard) Announce(_ string, body []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, handle := range h.handlers {
		go handle(body)
	}
}

func (h *heard) Listen(_ string, handle func([]byte)) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handlers = append(h.handlers, handle)
	return func() {}, nil
}

func TestDisablementIsHeardBeforeTheWebhookIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bus := &heard{}
		first := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		second := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		a, b := startOn(t, first, bus), startOn(t, second, bus)
		synctest.Wait() // both listen
		w := hook(1, domain.ShipmentCreated)
		w.ActivatedVersion = 1
		first.put(w)
		if err := a.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		known, _ := a.Hook(w.ID)
		a.Disable(known, domain.HealthChange{Webhook: w.ID, DisabledVersion: 1, DisabledReason: domain.DisabledGone, At: time.Now()})
		synctest.Wait()
		second.put(w)
		if err := b.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if late, ok := b.Hook(w.ID); !ok || !late.Inactive() {
			t.Error("active in a process that heard of the disablement before it knew the webhook")
		}
	})
}

// A webhook that is read by pull gets no deliveries, until it is one of push again.
func TestPullHasNoDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		pull := hook(1, domain.ShipmentCreated)
		pull.Delivery = domain.DeliveryPull
		s.put(pull)
		s.put(hook(2, domain.ShipmentCreated))
		x := start(t, s)
		if err := x.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := x.Subscribers(&domain.Event{Account: "default", Type: domain.ShipmentCreated}); len(got) != 1 || got[0].ID != hook(2).ID {
			t.Errorf("subscribers %v", got)
		}
	})
}

// asking has one listener for answers.
type asking struct {
	silent

	heard chan func(body []byte, answer func())
}

func (a asking) ListenAnswering(_ string, handle func([]byte, func())) (func(), error) {
	a.heard <- handle
	return func() {}, nil
}

// Who waits for a change waits until all that were to hear of it have, and until it holds there.
func TestAChangeIsAnsweredWhenItHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		s.put(hook(1, domain.ShipmentCreated))
		var told atomic.Int32
		announcer, ready := asking{heard: make(chan func([]byte, func()), 1)}, make(chan struct{})
		x := index.New(index.Options{
			Store: s, Announcer: announcer, Logger: slog.New(slog.DiscardHandler),
			Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil },
			Ready: func(context.Context) error {
				if told.Load() != 1 {
					t.Error("the change holds before it was told")
				}
				<-ready
				return nil
			},
		})
		x.OnChange(func(*index.Hook) {
			<-time.After(time.Second)
			told.Add(1)
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = x.Run(ctx) })
		answered := make(chan struct{})
		(<-announcer.heard)([]byte("1"), func() { close(answered) })
		select {
		case <-answered:
			t.Error("answered before the change holds")
		case <-time.After(1500 * time.Millisecond):
		}
		close(ready)
		synctest.Wait()
		select {
		case <-answered:
		default:
			t.Error("not answered")
		}
		stop()
		running.Wait()
	})
}

// Nobody waits for the index while webhooks are made ready, which takes long for many, nor does what says whether the
// process is ready.
func TestNobodyWaitsWhileWebhooksAreMadeReady(t *testing.T) {
	t.Parallel()
	s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
	s.put(hook(1, domain.ShipmentCreated))
	var x *index.Index
	made := make(chan struct{})
	x = index.New(index.Options{
		Store: s, Announcer: silent{}, Logger: slog.New(slog.DiscardHandler),
		Prepare: func(*domain.Webhook) (index.Preparation, error) {
			answered := make(chan struct{})
			go func() {
				x.Loaded()
				close(answered)
			}()
			select {
			case <-answered:
			case <-time.After(5 * time.Second):
				t.Error("the index does not answer")
			}
			close(made)
			return nil, nil
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	<-made
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
