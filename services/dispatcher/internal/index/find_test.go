package index_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

// ask asks for a webhook; what comes is the answer, or an error.
func ask(x *index.Index, id domain.WebhookID) <-chan any {
	answers := make(chan any, 1)
	x.Find(id, func(hook *index.Hook, err error) {
		if err != nil {
			answers <- err
			return
		}
		answers <- hook
	})
	return answers
}

func TestOnlyTheDatabaseSaysThatAWebhookIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		s.put(hook(1, domain.ShipmentCreated))
		x := start(t, s)
		if err := x.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.err = errors.New("down") })
		late := hook(2, domain.ShipmentCreated)
		s.put(late)
		known, unknown, never := ask(x, hook(1).ID), ask(x, late.ID), ask(x, hook(3).ID)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if h, ok := (<-known).(*index.Hook); !ok || h == nil || h.ID != hook(1).ID {
			t.Error("a webhook that is known is not answered while the database is away")
		}
		if len(unknown) > 0 || len(never) > 0 {
			t.Errorf("answered without the database: %v", <-unknown)
		}
		s.change(func() { s.err = nil })
		if h, ok := (<-unknown).(*index.Hook); !ok || h == nil || h.ID != late.ID {
			t.Error("a webhook that the index did not know is taken as gone")
		}
		if h, ok := (<-never).(*index.Hook); !ok || h != nil {
			t.Error("a webhook is found that was never there")
		}
		if got := len(x.Subscribers(&domain.Event{Account: "default", Type: domain.ShipmentCreated})); got != 2 {
			t.Errorf("%d subscribers, want 2", got)
		}
	})
}

func TestWebhooksAreLookedUpTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}, err: errors.New("down")}
		x := start(t, s)
		const asked = 20_000
		answers := make(chan *index.Hook, asked)
		for i := range asked {
			x.Find(hook(i%5000).ID, func(h *index.Hook, err error) {
				if err != nil {
					t.Error(err)
				}
				answers <- h
			})
		}
		s.put(hook(7, domain.ShipmentCreated))
		s.change(func() { s.err = nil })
		found := 0
		for range asked {
			if <-answers != nil {
				found++
			}
		}
		if found != asked/5000 {
			t.Errorf("%d answers name a webhook, want %d", found, asked/5000)
		}
		s.change(func() {
			if s.lookups > 20 || s.reads > 30 {
				t.Errorf("%d look-ups and %d reads for %d questions", s.lookups, s.reads, asked)
			}
		})
	})
}

func TestWhoAsksIsToldWhenTheIndexStops(t *testing.T) {
	t.Parallel()
	s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}, err: errors.New("down")}
	x := index.New(index.Options{Store: s, Announcer: silent{}, Logger: slog.New(slog.DiscardHandler)})
	answer := ask(x, hook(1).ID)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := x.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got, ok := (<-answer).(error); !ok || !errors.Is(got, index.ErrStopped) {
		t.Errorf("answer: %v", got)
	}
}

func TestAWebhookThatCantBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		faulty, unusable, strange := hook(1, domain.ShipmentCreated), hook(2, domain.ShipmentCreated), hook(3, domain.ShipmentCreated)
		faulty.Fault, unusable.Description, strange.Account = "its secret can't be opened", "unusable", "other"
		for _, w := range []domain.Webhook{faulty, unusable, strange} {
			s.put(w)
		}
		bad := true
		x := startWith(t, index.Options{
			Store: s, Announcer: silent{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Prepare: func(w *domain.Webhook) (index.Preparation, error) {
				if bad && w.Description == "unusable" {
					return nil, errors.New("no good")
				}
				return nil, nil
			},
		})
		if err := x.Await(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		hooks := x.Subscribers(&domain.Event{Account: "default", Type: domain.ShipmentCreated})
		if len(hooks) != 2 || !hooks[0].Inactive() || !hooks[1].Inactive() || x.Faulty() != 2 {
			t.Errorf("%d subscribers, %d of them faulty, want 2 whose deliveries are held", len(hooks), x.Faulty())
		}
		if other := x.Subscribers(&domain.Event{Account: "other", Type: domain.ShipmentCreated}); len(other) != 1 || other[0].Inactive() {
			t.Error("a webhook of another account is held up")
		}
		<-time.After(5 * index.PollInterval)
		synctest.Wait()
		for _, w := range []domain.Webhook{faulty, unusable} {
			if n := strings.Count(log.String(), "webhook="+string(w.ID)+" account=default"); n != 1 {
				t.Errorf("webhook %s is named %d times in the log:\n%s", w.ID, n, log.String())
			}
		}
		// What was wrong is mended beneath the API: there is no new version.
		s.change(func() {
			w := s.webhooks[faulty.ID]
			w.Fault, bad = "", false
			s.webhooks[faulty.ID] = w
		})
		<-time.After(2 * index.PollInterval)
		synctest.Wait()
		if hooks[0].Inactive() || hooks[1].Inactive() || x.Faulty() != 0 {
			t.Errorf("%d webhooks are still faulty", x.Faulty())
		}
	})
}

func TestDeletedWebhooksLeaveMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		x := start(t, s)
		for i := range 1000 {
			s.put(hook(i, domain.EventTypes()...))
		}
		if err := x.Await(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		one, _ := x.Hook(hook(1).ID)
		for i := range 1000 {
			gone := hook(i, domain.EventTypes()...)
			gone.Deleted = true
			s.put(gone)
		}
		if err := x.Await(t.Context(), 2000); err != nil {
			t.Fatal(err)
		}
		if !one.Config().Deleted {
			t.Error("a caller that holds the webhook does not see that it is deleted")
		}
		if x.Size() != 0 || len(x.Subscribers(&domain.Event{Account: "default", Type: domain.ShipmentCreated})) != 0 {
			t.Errorf("%d deleted webhooks are in memory", x.Size())
		}
		if h, ok := (<-ask(x, one.ID)).(*index.Hook); !ok || h != nil {
			t.Error("a deleted webhook is found")
		}
	})
}

// BenchmarkLoad fills an index with the webhooks of one account.
func BenchmarkLoad(b *testing.B) {
	for _, size := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
			for i := range size {
				s.put(hook(i, domain.EventTypes()...))
			}
			b.ReportAllocs()
			for b.Loop() {
				x := index.New(index.Options{
					Store: s, Announcer: silent{}, Logger: slog.New(slog.DiscardHandler),
					Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil },
				})
				ctx, stop := context.WithCancel(b.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = x.Run(ctx) })
				if err := x.Await(ctx, int64(size)); err != nil {
					b.Fatal(err)
				}
				stop()
				running.Wait()
			}
		})
	}
}

// BenchmarkSubscribers looks up who gets an event, as is done for each.
func BenchmarkSubscribers(b *testing.B) {
	s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
	for i := range 1000 {
		s.put(hook(i, domain.EventTypes()...))
	}
	x := index.New(index.Options{
		Store: s, Announcer: silent{}, Logger: slog.New(slog.DiscardHandler),
		Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil },
	})
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = x.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	if err := x.Await(ctx, 1000); err != nil {
		b.Fatal(err)
	}
	first := hook(1).ID
	for b.Loop() {
		_ = x.Subscribers(&domain.Event{Account: "default", Type: domain.ShipmentCreated})
		_, _ = x.Hook(first)
	}
}
