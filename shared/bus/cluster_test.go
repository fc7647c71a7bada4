package bus_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// join connects to the servers of a cluster, to the first that answers.
func join(t *testing.T, urls string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(bus.Options{
		URL: urls, Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{key}, Replicas: 3,
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

func TestClusterKeepsEverythingThreeTimes(t *testing.T) {
	cluster := bustest.StartCluster(t)
	b, js := join(t, cluster.URL()), look(t, cluster.URL())
	_, err := b.Stream(bus.StreamHold).CreateConsumer(t.Context(), bus.HoldConsumer(webhook), bus.HoldSubject(webhook), 10, time.Minute)
	if err != nil {
		t.Fatalf("open a hold queue: %v", err)
	}
	consumers := 0
	for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamRecords, bus.StreamRejected} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatalf("look up %s: %v", name, err)
		}
		info := stream.CachedInfo()
		if copies := len(info.Cluster.Replicas) + 1; copies != 3 {
			t.Errorf("%s is kept %d times, want 3", name, copies)
		}
		// What a replica that lags behind doesn't have yet must not count as gone.
		if direct := info.Config.AllowDirect; direct != (name == bus.StreamRejected) {
			t.Errorf("any replica answers for %s: %t", name, direct)
		}
		list := stream.ListConsumers(t.Context())
		for consumer := range list.Info() {
			consumers++
			if copies := len(consumer.Cluster.Replicas) + 1; copies != 3 {
				t.Errorf("consumer %s is kept %d times, want 3", consumer.Name, copies)
			}
		}
		if err := list.Err(); err != nil {
			t.Fatalf("list consumers: %v", err)
		}
	}
	// Events, records, a shard's due deliveries each, and the hold queue.
	if want := 3 + domain.Shards; consumers != want {
		t.Errorf("%d consumers, want %d", consumers, want)
	}
	if err := b.Stream(bus.StreamHold).DeleteConsumer(t.Context(), bus.HoldConsumer(webhook)); err != nil {
		t.Errorf("close the hold queue: %v", err)
	}
}

// Whichever server of a cluster is asked, and whichever leads: nothing counts as lost.
func TestClusterLosesNothingWithOneServer(t *testing.T) {
	cluster := bustest.StartCluster(t)
	js := look(t, cluster.URL())
	marks := func(b *bus.Bus) (known map[string]bus.StreamState) {
		t.Helper()
		eventually(t, func() (err error) {
			known, err = states(t, b)
			return err
		})
		return known
	}
	first := join(t, cluster.URL())
	publish(t, first, bus.AcceptedEvent{Event: event()}, 0)
	before := marks(first)
	for _, server := range cluster.Servers {
		if diff := cmp.Diff(before, marks(join(t, server.URL()))); diff != "" {
			t.Errorf("%s knows the streams otherwise (-first +this):\n%s", server.Name(), diff)
		}
	}
	for range 2 {
		leader := leaderOf(t, js)
		cluster.Server(leader).Stop()
		if diff := cmp.Diff(before, marks(first)); diff != "" {
			t.Errorf("without %s the streams are others (-before +after):\n%s", leader, diff)
		}
		cluster.Server(leader).Start()
		cluster.AwaitLeader()
		eventually(t, func() error { return current(t, js) })
		if diff := cmp.Diff(before, marks(first)); diff != "" {
			t.Errorf("when %s is back the streams are others (-before +after):\n%s", leader, diff)
		}
	}
}

// states asks how far the streams are.
func states(t *testing.T, b *bus.Bus) (map[string]bus.StreamState, error) {
	t.Helper()
	all := make(map[string]bus.StreamState)
	for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamRecords} {
		state, err := b.Stream(name).State(t.Context())
		if err != nil {
			return nil, err
		}
		all[name] = state
	}
	return all, nil
}

// leaderOf returns the name of the server that leads EVENTS.
func leaderOf(t *testing.T, js jetstream.JetStream) (leader string) {
	t.Helper()
	eventually(t, func() error {
		stream, err := js.Stream(t.Context(), bus.StreamEvents)
		if err != nil {
			return err
		}
		if leader = stream.CachedInfo().Cluster.Leader; leader == "" {
			return errors.New("EVENTS has no leader")
		}
		return nil
	})
	return leader
}

// current returns nil when every replica of EVENTS has all of it.
func current(t *testing.T, js jetstream.JetStream) error {
	t.Helper()
	stream, err := js.Stream(t.Context(), bus.StreamEvents)
	if err != nil {
		return err
	}
	for _, replica := range stream.CachedInfo().Cluster.Replicas {
		if !replica.Current || replica.Offline {
			return fmt.Errorf("%s lags behind", replica.Name)
		}
	}
	return nil
}

// While a stream has no leader any server answers for it, with what it happens to have:
// nothing may be concluded from that.
func TestAnswersWithoutALeaderDontCount(t *testing.T) {
	cluster := bustest.StartCluster(t)
	js := look(t, cluster.URL())
	b := join(t, cluster.URL())
	if _, err := states(t, b); err != nil {
		t.Fatalf("ask for the streams: %v", err)
	}
	leader := leaderOf(t, js)
	left := cluster.Servers[0]
	if left.Name() == leader {
		left = cluster.Servers[1]
	}
	for _, server := range cluster.Servers {
		if server != left {
			server.Stop()
		}
	}
	eventually(t, func() error {
		stream, err := js.Stream(t.Context(), bus.StreamEvents)
		if err != nil {
			return err
		}
		if by := stream.CachedInfo().Cluster.Leader; by != "" {
			return fmt.Errorf("%s still leads", by)
		}
		return nil
	})
	if states, err := states(t, b); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("streams without leaders: %v, %v; want ErrUnavailable", states, err)
	}
}

// A stream without a leader refuses nothing for good: what is published meanwhile is
// stored when there is one.
func TestPublicationWaitsForALeader(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b, js := connect(t, server), look(t, server.URL())
	if err := js.DeleteStream(t.Context(), bus.StreamEvents); err != nil {
		t.Fatalf("delete the stream: %v", err)
	}
	done := make(chan error, 1)
	b.PublishEvent(bus.AcceptedEvent{Event: event()}, 0, func(_ bool, err error) { done <- err })
	select {
	case err := <-done:
		t.Fatalf("the publication was given up: %v", err)
	case <-time.After(2 * time.Second):
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("publish: %v", err)
	}
}
