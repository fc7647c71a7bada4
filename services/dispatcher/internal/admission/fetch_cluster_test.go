package admission_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// join connects to the servers of a cluster, to the first that answers.
func join(t *testing.T, urls string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{
		URL: urls, Name: "test", Logger: discard, MACKeys: [][]byte{make([]byte, 32)}, Replicas: 3,
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(b.Close)
	eventually(t, b.Ready)
	// Each of some twenty consumers elects a leader: with the processor busy that takes long.
	within(t, 2*time.Minute, func() error { return b.Ensure(t.Context()) })
	return b
}

// look connects as somebody who looks at the streams themselves.
func look(t *testing.T, urls string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(urls, nats.MaxReconnects(-1))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatalf("open JetStream: %v", err)
	}
	return js
}

// What one dispatcher had in flight comes to another as a repeat though the server that
// handed it out is gone; a shard goes on being served.
func TestConsumptionOutlastsTheLossOfAServer(t *testing.T) {
	cluster := bustest.StartCluster(t)
	js := look(t, cluster.URL())
	b := join(t, cluster.URL())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came := make(chan domain.DeliveryID, 10)
	served := make(chan error, 1)
	go func() {
		served <- due(ctx, b, nil, func(job *deliver.Job) {
			job.Origin.Stored()
			came <- job.Task.Delivery
		})
	}()
	schedule := func(n int) {
		t.Helper()
		task := task()
		task.Delivery = domain.NewDeliveryID(domain.EventKey{Account: "default", ID: strconv.Itoa(n)}, webhook)
		eventually(t, func() error { return bustest.Schedule(t.Context(), b, task, time.Now()) })
		select {
		case <-came:
		case <-time.After(time.Minute):
			t.Fatalf("delivery %d did not become due", n)
		}
	}
	schedule(1)

	if err := publish(b, event()); err != nil {
		t.Fatalf("publish: %v", err)
	}
	taking, takeOne := context.WithCancel(t.Context())
	admission.Events(taking, b, discard, admission.NewMessages(nil), func(m *bus.Message) {
		if m.Repeated {
			t.Error("the first time counts as a repeat")
		}
		takeOne()
	})

	fanout, err := js.Consumer(t.Context(), bus.StreamEvents, "fanout")
	if err != nil {
		t.Fatalf("look up the consumer: %v", err)
	}
	cluster.Server(fanout.CachedInfo().Cluster.Leader).Stop()
	other := event()
	other.ID = "evt_2"
	// The connection may be to the server that is gone, and not know that yet.
	eventually(t, func() error { return publish(b, other) })
	repeated := map[uint64]bool{}
	for _, m := range take(t, 2, events(b)) {
		repeated[m.Sequence] = m.Repeated
	}
	if diff := cmp.Diff(map[uint64]bool{1: true, 2: false}, repeated); diff != "" {
		t.Errorf("which events come as repeats (-want +got):\n%s", diff)
	}
	schedule(2)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("consume: %v", err)
	}
}
