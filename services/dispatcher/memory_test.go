package dispatcher_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// serveBus in the environment makes this test binary a bus, in a process of its own: what
// that takes is not what a dispatcher takes.
const serveBus = "WAYBILL_TEST_SERVE_BUS"

// TestServeBus is no test but the bus of another one.
func TestServeBus(t *testing.T) {
	if os.Getenv(serveBus) == "" {
		return
	}
	fmt.Println(bustest.Start(t).URL()) // read by startBus
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startBus(t *testing.T) (url string) {
	t.Helper()
	child := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestServeBus$")
	child.Env = append(os.Environ(), serveBus+"=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = child.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the bus does not start: %v", err)
	}
	return strings.TrimSpace(line)
}

const (
	large = 256 << 10 // bytes of an event's data
	many  = 480       // events: twice as much as fits
)

// largeEvent is the body of an event that is published straight to the bus.
func largeEvent() []byte {
	return []byte(`{"type":"shipment.created","data":{"shipmentId":"shp_1","note":"` + strings.Repeat("x", large-256) + `"}}`)
}

// receiver answers when it may, and keeps nothing of what it gets but who it was.
type receiver struct {
	*httptest.Server
	free chan struct{}
	let  func()
	mu   sync.Mutex
	ids  map[string]bool

	began atomic.Int64 // requests
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{free: make(chan struct{}), ids: make(map[string]bool)}
	r.let = sync.OnceFunc(func() { close(r.free) })
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		r.began.Add(1)
		<-r.free
		r.mu.Lock()
		r.ids[request.Header.Get("Waybill-Delivery-Id")] = true
		r.mu.Unlock()
		_, _ = w.Write([]byte(strings.Repeat("answer ", 1000)))
	}))
	t.Cleanup(r.Close)
	t.Cleanup(r.let)
	return r
}

func (r *receiver) got() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

// TestMemoryIsBoundedByBytes has more wait in each place where a dispatcher takes something
// in flight than it may hold, while nothing goes on; then all of it arrives.
func TestMemoryIsBoundedByBytes(t *testing.T) { // not parallel: it looks at the whole heap
	const (
		budget = dispatcher.LeastMemory
		// Connections, the client's buffers, and what the database's driver makes of a batch.
		beside = 16 << 20
	)
	for _, place := range []struct {
		name  string
		hooks int
		want  int // deliveries
		fill  func(t *testing.T, b *bench, hooks []domain.Webhook)
	}{
		{"events of one webhook", 1, many, func(t *testing.T, b *bench, _ []domain.Webhook) { b.publishLarge(t, many) }},
		{"events of four webhooks", 4, 4 * many, func(t *testing.T, b *bench, _ []domain.Webhook) { b.publishLarge(t, many) }},
		{"what is due", 20, many, func(t *testing.T, b *bench, hooks []domain.Webhook) {
			b.keepLarge(t, hooks, many, func(task *domain.Task) error { return bustest.Schedule(t.Context(), b.bus, task, time.Now()) })
		}},
		{"lanes", 20, many, func(t *testing.T, b *bench, hooks []domain.Webhook) {
			b.keepLarge(t, hooks, many, func(task *domain.Task) error { return bustest.Hold(t.Context(), b.bus, task) })
		}},
		{"records that can't be stored", 1, many, func(t *testing.T, b *bench, _ []domain.Webhook) { b.publishLarge(t, many) }},
	} {
		t.Run(place.name, func(t *testing.T) {
			b := newBenchOn(t, "sqlite:"+templates.SQLite(t), startBus(t))
			r := newReceiver(t)
			var hooks []domain.Webhook
			for range place.hooks {
				hooks = append(hooks, b.webhook(r.URL, func(w *domain.Webhook) {
					w.Timeout, w.MaxInFlight = 30*time.Second, 5000
					// A busy machine may need longer than that until it lets them go.
					w.RetrySchedule = slices.Repeat([]time.Duration{time.Second}, 5)
				}))
			}
			stalled := strings.HasPrefix(place.name, "records")
			if !stalled {
				place.fill(t, b, hooks)
			}
			b.dispatch(func(o *dispatcher.Options) { o.Memory = budget })
			if stalled { // a dispatcher that starts makes the streams as they should be
				r.let()
				b.stall(t, 1)
				place.fill(t, b, hooks)
			}
			var live, peak int64
			began := false
			// From when there is something in flight until it has become as much as it becomes.
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
				nowLive, nowPeak := heap()
				if !began && r.began.Load() > 0 {
					began, end = true, time.Now().Add(6*time.Second)
				}
				live, peak = max(live, nowLive), max(peak, nowPeak)
				<-time.After(100 * time.Millisecond)
			}
			t.Logf("live heap %d MiB, with garbage %d MiB, budget %d MiB", live>>20, peak>>20, int64(budget)>>20)
			if live > budget+beside {
				t.Errorf("%d MiB are in use, want at most %d", live>>20, int64(budget+beside)>>20)
			}
			if !began {
				t.Error("nothing was in flight")
			}
			if stalled {
				b.eventually(func() error {
					if err := b.last.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "events wait") {
						return fmt.Errorf("ready: %w, want that events wait", err)
					}
					return nil
				})
				b.stall(t, -1)
				b.eventually(func() error { return b.last.Ready(t.Context()) })
			}
			r.let()
			b.eventually(func() error {
				if got := r.got(); got != place.want {
					return fmt.Errorf("%d of %d deliveries came", got, place.want)
				}
				return nil
			})
		})
	}
}

// TestWhatIsDueCutsNobodyDown: that a webhook's attempts take long is no reason to have one at a
// time, as long as there is memory. Of that the dispatcher keeps some for what may become due.
func TestWhatIsDueCutsNobodyDown(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const most = 8
		free := make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		slow := newSink(t, func(call) int { <-free; return http.StatusOK })
		due := newSink(t, func(c call) int {
			if c.attempt != "1" {
				<-free
			}
			return http.StatusInternalServerError
		})
		t.Cleanup(release)
		w := b.webhook(slow.URL, func(w *domain.Webhook) {
			w.Timeout, w.MaxInFlight = 30*time.Second, most
		})
		b.webhook(due.URL, func(w *domain.Webhook) {
			w.Timeout, w.RetrySchedule = 30*time.Second, []time.Duration{100 * time.Millisecond, time.Hour}
		})
		b.dispatch(func(o *dispatcher.Options) { o.Memory = dispatcher.LeastMemory })
		b.accept(1)
		b.deliveries(w.ID, domain.StatusPending, 1) // is in the log when it takes long
		b.eventually(func() error {
			if calls, _ := due.seen(); len(calls) < 2 {
				return errors.New("no retry is in flight")
			}
			return nil
		})
		asked := time.Now()
		b.accept(most - 1)
		b.eventually(func() error {
			if calls, _ := slow.seen(); len(calls) < most {
				return fmt.Errorf("%d attempts are under way, want %d", len(calls), most)
			}
			return nil
		})
		if took := time.Since(asked); took > 20*time.Second {
			t.Errorf("the others waited %s for the first one", took)
		}
		release()
		b.deliveries(w.ID, domain.StatusDelivered, most)
	})
}

// heap returns how much of the heap is in use, and with what is garbage by now.
func heap() (live, all int64) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	all = int64(stats.HeapAlloc)
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc), all
}

// publishLarge publishes n large events straight to the bus.
func (b *bench) publishLarge(t *testing.T, n int) {
	t.Helper()
	js := b.jetStream()
	body := largeEvent()
	for range n {
		if _, err := js.Publish(t.Context(), "events.default.shipment.created", body); err != nil {
			t.Fatal(err)
		}
	}
}

// keepLarge keeps n large deliveries of webhooks somewhere on the bus.
func (b *bench) keepLarge(t *testing.T, hooks []domain.Webhook, n int, keep func(*domain.Task) error) {
	t.Helper()
	body := largeEvent()
	for i := range n {
		task := &domain.Task{
			Account: domain.DefaultAccount, Webhook: hooks[i%len(hooks)].ID, EventID: "evt_" + uuid.NewString(), EventType: domain.ShipmentCreated,
			EventSeq: uint64(i + 1), ReceivedAt: time.Now().UTC().Truncate(time.Millisecond), Rev: domain.FirstOutcome, Overflowed: true, Body: body,
		}
		task.Delivery = domain.NewDeliveryID(domain.EventKey{Account: task.Account, ID: task.EventID, ReceivedAt: task.ReceivedAt}, task.Webhook)
		if err := keep(task); err != nil {
			t.Fatal(err)
		}
	}
}

// stall has the stream of records take no more than so many bytes; -1: whatever comes.
func (b *bench) stall(t *testing.T, most int64) {
	t.Helper()
	js := b.jetStream()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, bus.StreamRecords)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxBytes, config.Discard = most, jetstream.DiscardNew
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
}
