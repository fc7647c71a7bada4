package deliver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// rig is a deliverer whose receivers, bus and database are the test.
type rig struct {
	*Deliverer
	registry *prometheus.Registry
	hooks    []*index.Hook

	mu      sync.Mutex
	answer  func(*Request) Response
	keeping error // what the bus says to what is to be kept
	held    []*domain.Task
	stored  int
	back    int
	news    []bool // of circuits: open?

	outcomes []domain.Outcome // that were recorded
	circuits []domain.Circuit // likewise
}

// onRig runs a test with a deliverer and webhooks in a bubble.
func onRig(t *testing.T, owns bool, webhooks []domain.Webhook, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{registry: prometheus.NewRegistry(), answer: func(*Request) Response { return Response{Status: http.StatusOK} }}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		known := index.New(index.Options{
			Store: &fixed{webhooks: webhooks}, Announcer: silent{}, Logger: slog.New(slog.DiscardHandler),
			Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil }, //nolint:nilnil // nothing is prepared
		})
		running.Go(func() { _ = known.Run(ctx) })
		if err := known.Await(ctx, 1); err != nil {
			t.Fatal(err)
		}
		for _, w := range webhooks {
			hook, ok := known.Hook(w.ID)
			if !ok {
				t.Fatalf("the index does not know %s", w.ID)
			}
			r.hooks = append(r.hooks, hook)
		}
		r.Deliverer = New(Options{
			Poster: r, Keeper: r, Emitter: r, Hooks: known, Owners: owner(owns), Notices: r,
			Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(r.registry),
			Schedule: []time.Duration{time.Hour}, Retention: 100 * time.Hour, DisableAfter: 100 * time.Hour,
		})
		r.process.Overload.Threads = func() (ran, waited time.Duration, ok bool) { return 0, 0, false } // many looks: time is not real here
		running.Go(func() { _ = r.Run(ctx) })
		defer func() {
			r.Close()
			stop()
			<-time.After(time.Second) // the pacer's end
			running.Wait()
		}()
		test(t, r)
	})
}

// webhook is one to offer deliveries to.
func webhook(change ...func(*domain.Webhook)) domain.Webhook {
	w := domain.Webhook{
		ID: domain.WebhookID(uuid.NewString()), Account: domain.DefaultAccount, URL: "https://receiver.test/", Events: domain.EventTypes(), Active: true,
		Version: 1, Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight,
	}
	for _, c := range change {
		c(&w)
	}
	return w
}

// task is a delivery of a webhook.
func (r *rig) task(hook *index.Hook) *domain.Task {
	return &domain.Task{
		Delivery: domain.NewDeliveryID(domain.EventKey{Account: hook.Account, ID: uuid.NewString(), ReceivedAt: time.Now()}, hook.ID),
		Account:  hook.Account, Webhook: hook.ID, EventID: "evt_1", EventType: domain.ShipmentCreated, ReceivedAt: time.Now(),
	}
}

// offer brings n deliveries.
func (r *rig) offer(hook *index.Hook, n int) {
	for range n {
		r.Offer(hook, &Job{Task: r.task(hook), Origin: r})
	}
}

func (r *rig) answers(answer func(*Request) Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// ends tells how many deliveries were stored and how many given back.
func (r *rig) ends() (stored, back int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored, r.back
}

// Post implements Poster.
func (r *rig) Post(_ context.Context, request *Request) Response {
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	return answer(request)
}

// Schedule implements Keeper.
func (r *rig) Schedule(_ *domain.Task, _ time.Time, done func(error)) { go done(r.kept(nil)) }

// Hold implements Keeper.
func (r *rig) Hold(task *domain.Task, done func(error)) { go done(r.kept(task)) }

func (r *rig) kept(task *domain.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if task != nil && r.keeping == nil {
		r.held = append(r.held, task)
	}
	return r.keeping
}

// Emit implements Emitter.
func (r *rig) Emit(item record.Item) {
	if item.Outcome != nil {
		r.mu.Lock()
		r.outcomes = append(r.outcomes, *item.Outcome)
		r.mu.Unlock()
	}
	if item.Health != nil && item.Health.Circuit != nil {
		r.mu.Lock()
		r.circuits = append(r.circuits, *item.Health.Circuit)
		r.mu.Unlock()
	}
	if item.Done != nil {
		go item.Done()
	}
}

// DeliveryHeld implements Notices.
func (r *rig) DeliveryHeld(domain.WebhookID, string) {}

// CircuitChanged implements Notices.
func (r *rig) CircuitChanged(_ domain.WebhookID, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news = append(r.news, open)
}

// Emitting implements Origin.
func (r *rig) Emitting() *domain.Event { return nil }

// SettlingEvent implements deliver.Origin: the event is settled already.
func (r *rig) SettlingEvent() record.SettlingEvent { return nil }

// Stored implements Origin.
func (r *rig) Stored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored++
}

// Abandoned implements Origin.
func (r *rig) Abandoned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back++
}

// fixed is a database of webhooks that never change.
type fixed struct{ webhooks []domain.Webhook }

// Webhooks implements index.Store.
func (f *fixed) Webhooks(_ context.Context, since int64) ([]domain.Webhook, int64, error) {
	if since >= 1 {
		return nil, 1, nil
	}
	return f.webhooks, 1, nil
}

// LiveWebhooks implements index.Store.
func (f *fixed) LiveWebhooks(context.Context, []domain.WebhookID) ([]domain.Webhook, error) {
	return f.webhooks, nil
}

// Healths implements index.Store.
func (*fixed) Healths(context.Context, time.Time) ([]domain.Health, error) { return nil, nil }

// silent carries no announcement.
type silent struct{}

// Announce implements index.Announcer.
func (silent) Announce(string, []byte) {}

// Listen implements index.Announcer.
func (silent) Listen(string, func([]byte)) (func(), error) { return func() {}, nil }

// ListenAnswering implements index.Announcer.
func (silent) ListenAnswering(string, func([]byte, func())) (func(), error) {
	return func() {}, nil
}

// owner owns all webhooks, or none; it is one of two.
type owner bool

// Owns implements Owners.
func (o owner) Owns(domain.WebhookID) bool { return bool(o) }

// OwnsAccount implements Owners.
func (o owner) OwnsAccount(string) bool { return bool(o) }

// Live implements Owners.
func (owner) Live() int { return 2 }

var errBus = errors.New("the bus takes nothing")
