package fanout_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/fanout"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// oneEach has one webhook for each account.
type oneEach struct{}

func (oneEach) Subscribers(event *domain.Event) []*index.Hook {
	return []*index.Hook{{ID: "0199a1f5-6f3e-7a50-8c38-0e55a2c0ffee", Account: event.Account}}
}
func (oneEach) Costly(*domain.Event) bool          { return false }
func (oneEach) Version() int64                     { return 1 }
func (oneEach) Await(context.Context, int64) error { return nil }

// sent takes deliveries.
type sent struct {
	mu  sync.Mutex
	ids map[string]int
	all chan struct{}
	n   int
}

func (s *sent) Room(context.Context) error { return nil }

func (s *sent) Offer(_ *index.Hook, job *deliver.Job) {
	s.mu.Lock()
	s.ids[job.Task.Account+"/"+job.Task.EventID]++
	if len(s.ids) == s.n {
		close(s.all)
	}
	s.mu.Unlock()
	job.Origin.Stored()
}

type ignore struct{}

func (ignore) Emit(item record.Item) {
	if item.Done != nil {
		item.Done()
	}
}

// slowLog knows of no delivery, and takes its time.
type slowLog struct {
	mu      sync.Mutex
	queries int
	asked   int
	now     int
	most    int
}

func (l *slowLog) Revs(_ context.Context, _ string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error) {
	l.mu.Lock()
	l.queries++
	l.asked += len(ids)
	l.now++
	l.most = max(l.most, l.now)
	l.mu.Unlock()
	<-time.After(5 * time.Millisecond)
	l.mu.Lock()
	l.now--
	l.mu.Unlock()
	return nil, nil
}

// After the bus was away each event may have been handed out before, and the log is asked
// about all of them.
func TestManyEventsAreLookedUpTogether(t *testing.T) {
	t.Parallel()
	b := connect(t)
	const events = 2000
	accounts := []string{"default", "other"}
	published := make(chan error, events)
	for i := range events {
		account := accounts[i%len(accounts)]
		e := domain.Event{Account: account, ID: domain.AttemptID(), Type: domain.ShipmentCreated, Payload: []byte(`{}`), ReceivedAt: time.Now()}
		b.PublishEvent(bus.AcceptedEvent{Event: e, Version: 1}, 0, func(_ bool, err error) { published <- err })
		if i%100 == 99 { // few at a time, as a busy machine stores them late
			for range 100 {
				if err := <-published; err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	log := &slowLog{}
	out := &sent{ids: map[string]int{}, all: make(chan struct{}), n: events}
	f := fanout.New(fanout.Options{
		Bus: b, Deliverer: out, Emitter: ignore{}, Log: log, Index: oneEach{}, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	f.Suspect(1 << 20)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	select {
	case <-out.all:
	case <-time.After(time.Minute):
		t.Fatal("not all events went out")
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.asked != events || log.queries > events/10 || log.most > 2 {
		t.Errorf("%d deliveries were looked up in %d queries, %d at once; want %d in a tenth as many, 2 at once", log.asked, log.queries, log.most, events)
	}
}
