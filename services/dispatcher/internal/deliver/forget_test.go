package deliver

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

// registry is a database and a bus that an index reads; it has one webhook or none.
type registry struct {
	mu      sync.Mutex
	webhook domain.Webhook
}

func (r *registry) Webhooks(context.Context, int64) ([]domain.Webhook, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return []domain.Webhook{r.webhook}, r.webhook.Version, nil
}

func (*registry) LiveWebhooks(context.Context, []domain.WebhookID) ([]domain.Webhook, error) {
	return nil, nil
}
func (*registry) Healths(context.Context, time.Time) ([]domain.Health, error) { return nil, nil }
func (*registry) Announce(string, []byte)                                     {}
func (*registry) Listen(string, func([]byte)) (func(), error)                 { return func() {}, nil }
func (*registry) ListenAnswering(string, func([]byte, func())) (func(), error) {
	return func() {}, nil
}

func (r *registry) set(change func(*domain.Webhook)) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.webhook)
	r.webhook.Version++
	return r.webhook.Version
}

func TestADeletedWebhookLeavesTheDeliverer(t *testing.T) {
	t.Parallel()
	source := &registry{webhook: domain.Webhook{ID: "0199a1f5-6f3e-7a50-8c38-0e55a2c0ffee", Account: domain.DefaultAccount, Active: true}}
	d := New(Options{Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	hooks := index.New(index.Options{
		Store: source, Announcer: source, Logger: slog.New(slog.DiscardHandler),
		Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil },
	})
	hooks.OnChange(func(h *index.Hook) { d.Forget(h) })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = hooks.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	if err := hooks.Await(ctx, source.set(func(*domain.Webhook) {})); err != nil {
		t.Fatal(err)
	}
	hook, ok := hooks.Hook(source.webhook.ID)
	if !ok {
		t.Fatal("the webhook is not known")
	}
	ep := d.endpoint(hook)
	ep.mu.Lock()
	ep.circuit.trip(time.Now())
	ep.mu.Unlock()
	d.metrics.circuits.Inc()
	f := ep.attempt(&Job{Task: &domain.Task{}})
	if err := hooks.Await(ctx, source.set(func(w *domain.Webhook) { w.Deleted = true })); err != nil {
		t.Fatal(err)
	}
	d.Forget(hook)
	if len(d.allEndpoints()) != 1 {
		t.Fatal("a webhook is forgotten while an attempt to it is under way")
	}
	ep.withdraw(f)
	d.tick(ep, time.Now())
	if n := len(d.allEndpoints()); n != 0 {
		t.Errorf("%d webhooks are kept", n)
	}
	if open := testutil.ToFloat64(d.metrics.circuits); open != 0 {
		t.Errorf("%g circuits count as open", open)
	}
	d.endpoint(hook) // by somebody who still has it
	if n := len(d.allEndpoints()); n != 0 {
		t.Errorf("%d webhooks are kept that were deleted before", n)
	}
}
