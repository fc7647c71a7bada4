package dispatcher_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// places is how many hold queues are drained at once.
const places = 64

// TestSlowRatesKeepNoLaneWaiting: a hold queue whose webhook's rate lets one delivery out in a
// quarter of an hour must not keep its place all the while.
func TestSlowRatesKeepNoLaneWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, nil)
		inactive := func(w *domain.Webhook) { w.Active = false }
		var slow []domain.Webhook
		per := 0.001
		for range places + 4 {
			slow = append(slow, b.webhook(s.URL+"/slow", inactive, func(w *domain.Webhook) { w.RatePerSecond = &per }))
		}
		other := newSink(t, nil)
		swift := b.webhook(other.URL, inactive)
		b.dispatch()
		b.accept(3)
		b.deliveries(swift.ID, domain.StatusHeld, 3)
		activate := func(w *domain.Webhook) { w.Active = true }
		for _, w := range slow {
			b.deliveries(w.ID, domain.StatusHeld, 3)
			b.update(w.ID, activate)
		}
		b.eventually(func() error { // each of them has sent what its rate lets out
			if calls, _ := s.seen(); len(calls) != len(slow) {
				return fmt.Errorf("%d of %d slow webhooks were sent something", len(calls), len(slow))
			}
			return nil
		})
		b.update(swift.ID, activate)
		b.deliveries(swift.ID, domain.StatusDelivered, 3)
		if calls, _ := s.seen(); len(calls) != len(slow) {
			t.Errorf("%d deliveries went to %d webhooks with a rate of one in 1000 s", len(calls), len(slow))
		}
	})
}

// TestLanesTakeTurnsInOrder: with more hold queues than places each is drained in slices: all begin
// before any is done. Over the slices the first go out one at a time and in order.
func TestLanesTakeTurnsInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const events = 25
		var mu sync.Mutex
		under, most := map[string]int{}, 0
		order := map[string][]string{}
		begun := make(chan struct{})
		release := sync.OnceFunc(func() { close(begun) })
		s := newSink(t, nil)
		s.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			under[r.URL.Path]++
			most = max(most, under[r.URL.Path])
			order[r.URL.Path] = append(order[r.URL.Path], r.Header.Get("webhook-id"))
			mu.Unlock()
			<-begun
			<-time.After(60 * time.Millisecond) // some 1.5 s a hold queue, that is more than a slice
			mu.Lock()
			under[r.URL.Path]--
			mu.Unlock()
		})
		t.Cleanup(release)
		var hooks []domain.Webhook
		for i := range places + 8 {
			hooks = append(hooks, b.webhook(fmt.Sprintf("%s/%d", s.URL, i), func(w *domain.Webhook) { w.Active, w.Timeout = false, 30*time.Second }))
		}
		b.dispatch()
		ids := b.accept(events)
		for _, w := range hooks {
			b.deliveries(w.ID, domain.StatusHeld, events)
		}
		for _, w := range hooks {
			b.update(w.ID, func(w *domain.Webhook) { w.Active = true })
		}
		b.eventually(func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(order) < len(hooks) {
				return fmt.Errorf("%d of %d hold queues have begun", len(order), len(hooks))
			}
			return nil
		})
		release()
		for _, w := range hooks {
			b.deliveries(w.ID, domain.StatusDelivered, events)
		}
		mu.Lock()
		defer mu.Unlock()
		if most != 1 {
			t.Errorf("%d of the first deliveries to a webhook were under way at once, want 1", most)
		}
		for path, got := range order {
			if !slices.Equal(got, ids) {
				t.Errorf("%s got %s, want the order of publication %s", path, strings.Join(got, " "), strings.Join(ids, " "))
			}
		}
	})
}

// TestHangingLanesKeepNoOtherWaiting: a place is given back while what was sent hangs.
func TestHangingLanesKeepNoOtherWaiting(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		free := make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		hanging := newSink(t, func(call) int { <-free; return http.StatusOK })
		t.Cleanup(release)
		inactive := func(w *domain.Webhook) { w.Active, w.Timeout = false, 30*time.Second }
		var slow []domain.Webhook
		for range places + 4 {
			slow = append(slow, b.webhook(hanging.URL, inactive))
		}
		other := newSink(t, nil)
		swift := b.webhook(other.URL, inactive)
		b.dispatch(func(o *dispatcher.Options) { o.Retention = 100 * time.Hour })
		b.accept(2)
		b.deliveries(swift.ID, domain.StatusHeld, 2)
		activate := func(w *domain.Webhook) { w.Active = true }
		for _, w := range slow {
			b.deliveries(w.ID, domain.StatusHeld, 2)
			b.update(w.ID, activate)
		}
		b.eventually(func() error {
			if calls, _ := hanging.seen(); len(calls) < places {
				return fmt.Errorf("%d hanging webhooks were sent something", len(calls))
			}
			return nil
		})
		b.update(swift.ID, activate)
		b.deliveries(swift.ID, domain.StatusDelivered, 2)
		release()
		for _, w := range slow {
			for _, d := range b.deliveries(w.ID, domain.StatusDelivered, 2) {
				if d.Attempts != 1 {
					t.Errorf("%s took %d attempts: it no longer hung when another hold queue was drained", d.ID, d.Attempts)
				}
			}
		}
	})
}

// TestLargeLanesKeepNoOtherWaiting: hold queues have not all the memory that hold queues may take, however
// large their deliveries are and however long they take.
func TestLargeLanesKeepNoOtherWaiting(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		queues, deliveries int // 16 MiB: twice of what hold queues may take together
		inactive           bool
	}{
		"one at full rate":       {1, 64, false},
		"many that begin slowly": {20, 60, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bench) { largeQueues(t, b, row.queues, row.deliveries, row.inactive) })
		})
	}
}

func largeQueues(t *testing.T, b *bench, queues, deliveries int, inactive bool) {
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	hanging := newSink(t, func(call) int { <-free; return http.StatusOK })
	t.Cleanup(release)
	var slow []domain.Webhook
	for range queues {
		slow = append(slow, b.webhook(hanging.URL, func(w *domain.Webhook) {
			w.Timeout, w.MaxInFlight, w.Events, w.Active = 30*time.Second, 500, []domain.EventType{domain.ShipmentDelivered}, !inactive
		}))
	}
	other := newSink(t, nil)
	swift := b.webhook(other.URL, func(w *domain.Webhook) { w.Active = false })
	b.keepLarge(t, slow, deliveries, func(task *domain.Task) error {
		task.Overflowed = !inactive // what waits because of an outage goes out one at a time first
		return bustest.Hold(t.Context(), b.bus, task)
	})
	metrics := prometheus.NewRegistry()
	b.dispatch(func(o *dispatcher.Options) { o.Memory, o.Metrics = dispatcher.LeastMemory, metrics })
	b.accept(2)
	b.deliveries(swift.ID, domain.StatusHeld, 2)
	for _, w := range slow {
		b.update(w.ID, func(w *domain.Webhook) { w.Active = true })
	}
	last, since := -1.0, time.Now()
	b.eventually(func() error { // the hold queues have in flight what they may
		calls, _ := hanging.seen()
		if now := gauge(t, metrics, "waybill_dispatch_memory_bytes", "drains"); now != last {
			last, since = now, time.Now()
		}
		if len(calls) < max(2, queues/2) || time.Since(since) < time.Second {
			return fmt.Errorf("%d large deliveries are under way, for %s", len(calls), time.Since(since))
		}
		return nil
	})
	asked := time.Now()
	b.update(swift.ID, func(w *domain.Webhook) { w.Active = true })
	b.deliveries(swift.ID, domain.StatusDelivered, 2)
	if took := time.Since(asked); took > 20*time.Second {
		t.Errorf("another hold queue waited %s for those that hang", took)
	}
	release()
	for _, w := range slow {
		b.deliveries(w.ID, domain.StatusDelivered, deliveries/queues)
	}
}
