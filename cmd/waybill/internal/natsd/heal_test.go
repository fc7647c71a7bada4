package natsd_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consume makes the consumer, and takes and acknowledges a message of its stream when there
// is one.
func consume(t *testing.T, url string) (sequence uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "S", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if err := msg.DoubleAck(ctx); err != nil {
		t.Fatal(err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return meta.Sequence.Stream
}

// A power cut leaves zeros where a consumer's state was written and not yet on the disk.
func TestAConsumerOutlivesItsState(t *testing.T) {
	dir := t.TempDir()
	server, stop := start(t, dir)
	stream(t, server.URL())
	stream(t, server.URL())
	if got := consume(t, server.URL()); got != 1 {
		t.Errorf("message %d, want 1", got)
	}
	stop()
	states, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "S", "obs", "c", "o.dat"))
	if err != nil || len(states) != 1 {
		t.Fatalf("states %v, %v", states, err)
	}
	for _, size := range []int{62, 0} {
		if err := os.WriteFile(states[0], make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		server, stop = start(t, dir)
		if got := consume(t, server.URL()); got != 1 {
			t.Errorf("message %d after the state was lost, want 1", got)
		}
		stop()
	}
	server, stop = start(t, dir)
	defer stop()
	if got := consume(t, server.URL()); got != 2 {
		t.Errorf("message %d after a good end, want 2", got)
	}
}
