package hold

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// noted counts how often something is asked of a stream.
type noted struct {
	*bus.Bus
	asked atomic.Int64
}

func (n *noted) Stream(name string) *bus.Stream {
	n.asked.Add(1)
	return n.Bus.Stream(name)
}

// slow is a deliverer that takes as long for the end of a delivery as the test wants.
type slow struct {
	Deliverer
	asked chan *deliver.Job
	goOn  chan struct{}
}

func (s slow) End(job *deliver.Job, _ domain.Change) {
	s.asked <- job
	<-s.goOn
}

// gone knows no webhook: all of them were deleted.
type gone struct{ Log }

func (gone) Find(_ domain.WebhookID, answer func(*index.Hook, error)) { answer(nil, nil) }

func (gone) Loaded() bool { return true }

func (gone) Revs(context.Context, string, []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error) {
	return nil, nil
}

// A shard that comes back before the work on a hold queue has ended is worked at once, not with the next list.
func TestAShardThatComesBackIsWorkedAtOnce(t *testing.T) {
	t.Parallel()
	streams := &noted{Bus: connect(t, bustest.Start(t))}
	if err := bustest.Hold(t.Context(), streams.Bus, task()); err != nil {
		t.Fatal(err)
	}
	deliverer := slow{asked: make(chan *deliver.Job, 10), goOn: make(chan struct{})}
	m := New(Options{
		Bus: streams, Deliverer: deliverer, Index: gone{}, Log: gone{}, Logger: discard, Metrics: prometheus.NewRegistry(), Retention: time.Hour,
		DrainRoom: admission.NewBudget(admission.LargestTask), ProbeRoom: admission.NewBudget(admission.LargestTask),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		stop()
		close(deliverer.goOn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	m.Own(webhook.Shard(), true)
	<-deliverer.asked
	m.Own(webhook.Shard(), false)
	m.Own(webhook.Shard(), true)
	for alone := 0; alone < 5; { // the hold queues were listed for that
		before := streams.asked.Load()
		m.listQueues(ctx)
		alone++
		if len(m.list) > 0 || streams.asked.Load() != before+2 {
			alone = 0
		}
	}
	deliverer.goOn <- struct{}{}
	select {
	case <-deliverer.asked:
	case <-time.After(listEvery / 2):
		t.Fatal("the hold queue is not worked")
	}
}
