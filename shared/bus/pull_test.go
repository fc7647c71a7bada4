package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
)

// TestClusterHandsOutEverythingOnce takes portions that end with the bytes or the number that
// were asked for. A cluster says that a portion is complete before it sends the last messages.
func TestClusterHandsOutEverythingOnce(t *testing.T) {
	cluster := bustest.StartCluster(t)
	b, js := join(t, cluster.URL()), look(t, cluster.URL())
	const messages, size, portion = 4000, 4 << 10, 1 << 20
	queue := bus.HoldConsumer(webhook)
	if _, err := b.Stream(bus.StreamHold).CreateConsumer(t.Context(), queue, bus.HoldSubject(webhook), 1000, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, stage := range []struct {
		name, subject, stream, consumer string
		options                         bus.FetchOptions
	}{
		{"events", "events.default.shipment.created", bus.StreamEvents, bus.ConsumerFanout, bus.FetchOptions{Wait: 10 * time.Second, Heartbeat: 2500 * time.Millisecond, Bytes: portion}},
		{"records", bus.SubjectRecords, bus.StreamRecords, bus.ConsumerRecord, bus.FetchOptions{Wait: 200 * time.Millisecond, Bytes: portion, Pinned: true}},
		{"a hold queue", bus.HoldSubject(webhook), bus.StreamHold, queue, bus.FetchOptions{Wait: 100 * time.Millisecond}},
	} {
		t.Run(stage.name, func(t *testing.T) {
			body := make([]byte, size)
			var stored []jetstream.PubAckFuture
			for range messages {
				ack, err := js.PublishAsync(stage.subject, body)
				if err != nil {
					t.Fatal(err)
				}
				stored = append(stored, ack)
			}
			for _, ack := range stored {
				select {
				case <-ack.Ok():
				case err := <-ack.Err():
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			taken := make(chan *bus.Message, messages)
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			running.Go(func() {
				_ = fetched(b, stage.stream, stage.consumer, stage.options)(ctx, func(m *bus.Message) { taken <- m })
			})
			repeated := 0
			for done := 0; done < messages; {
				select {
				case m := <-taken:
					if m.Repeated {
						repeated++
					} else {
						done++
					}
					m.Ack()
				case <-ctx.Done():
					t.Fatalf("%d of %d messages came for the first time, %d came again", done, messages, repeated)
				}
			}
			if repeated > 0 {
				t.Errorf("%d messages came again", repeated)
			}
		})
	}
}

// A publisher may set any header. None of them passes for the server's own status.
func TestHeadersOfPublishersAreNoStatus(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, _ := stream(t, server, bus.StreamEvents)
	for _, header := range []nats.Header{{"Status": {"503"}}, {"Status": {"100"}}, {"Nats-Pin-Id": {"x"}}, {"Status": {"423"}}, {}} {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.default.shipment.created", Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	taken := make(chan *bus.Message, 5)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = events(b)(ctx, func(m *bus.Message) { taken <- m }) })
	for sequence := range uint64(5) {
		select {
		case m := <-taken:
			if m.Sequence != sequence+1 || m.Repeated {
				t.Errorf("message %d, repeated %t; want %d for the first time", m.Sequence, m.Repeated, sequence+1)
			}
			m.Ack()
		case <-ctx.Done():
			t.Fatalf("message %d did not come", sequence+1)
		}
	}
}

// Who waits for an event takes none: the event is there for the next fetch, for the first time, as it came. A
// wait ends at its time too, and when something else is to be done.
func TestWaitingTakesNothing(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (*bus.Bus, jetstream.JetStream){
		"server": func(t *testing.T) (*bus.Bus, jetstream.JetStream) {
			server := bustest.Start(t)
			return connect(t, server), look(t, server.URL())
		},
		"cluster": func(t *testing.T) (*bus.Bus, jetstream.JetStream) {
			url := bustest.StartCluster(t).URL()
			return join(t, url), look(t, url)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, js := start(t)
			if err := b.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			consumer, err := b.Stream(bus.StreamEvents).Consumer(t.Context(), bus.ConsumerFanout)
			if err != nil {
				t.Fatal(err)
			}
			defer consumer.Close()
			other := make(chan struct{}, 1)
			waits := func(wait time.Duration) <-chan error {
				ended := make(chan error, 1)
				go func() { ended <- consumer.Await(t.Context(), wait, other) }()
				return ended
			}
			ends := func(what string, ended <-chan error) {
				t.Helper()
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				case <-time.After(30 * time.Second):
					t.Fatalf("%s: the wait goes on", what)
				}
			}
			ends("nothing comes", waits(50*time.Millisecond))
			other <- struct{}{}
			ends("something else is to be done", waits(time.Hour))
			for _, body := range []string{"1", "2"} {
				ended := waits(time.Hour)
				if _, err := js.Publish(t.Context(), "events.default.shipment.created", []byte(body)); err != nil {
					t.Fatal(err)
				}
				ends("an event comes", ended)
				var got []string
				for len(got) == 0 && t.Context().Err() == nil {
					err := consumer.Fetch(t.Context(), bus.MaxFetch, bus.FetchOptions{Bytes: 1 << 20}, func(m *bus.Message) {
						got = append(got, string(m.Body()))
						if m.Repeated {
							t.Errorf("event %s was handed out before", m.Body())
						}
						m.Ack()
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				if len(got) != 1 || got[0] != body {
					t.Errorf("got %q, want %q", got, body)
				}
			}
		})
	}
}

// A fetch that waits ends as soon as the connection is there again, which was cut: who serves it then may know nothing of it.
func TestAFetchEndsWhenTheBusIsBack(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b, js := connect(t, server), look(t, server.URL())
	consumer, err := b.Stream(bus.StreamEvents).Consumer(t.Context(), bus.ConsumerFanout)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	const heartbeat = 10 * time.Second
	fetched := make(chan error, 1)
	go func() {
		fetched <- consumer.Fetch(t.Context(), 1, bus.FetchOptions{Wait: time.Minute, Heartbeat: heartbeat}, func(*bus.Message) {})
	}()
	eventually(t, func() error { // the server has the request
		fanout, err := js.Consumer(t.Context(), bus.StreamEvents, bus.ConsumerFanout)
		if err == nil && fanout.CachedInfo().NumWaiting != 1 {
			err = fmt.Errorf("%d requests wait", fanout.CachedInfo().NumWaiting)
		}
		return err
	})
	connections, err := server.NATS().Connz(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range connections.Conns {
		if err := server.NATS().DisconnectClientByID(c.Cid); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-fetched:
		if !errors.Is(err, bus.ErrAway) {
			t.Errorf("the fetch ends with %v, want %v", err, bus.ErrAway)
		}
	case <-time.After(heartbeat):
		t.Error("the fetch waits for heartbeats of a connection that is gone")
	}
}
