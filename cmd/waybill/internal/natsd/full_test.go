package natsd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// After the server has said that its disk was full, streams are opened anew: what they had is there, and who
// was connected publishes on. `make chaos ARGS='-only disk-full-all-in-one'` does it with a disk that is full.
func TestStreamsAreOpenedAgain(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{Addr: "127.0.0.1:0", Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	conn, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s", []byte("before")); err != nil {
		t.Fatal(err)
	}
	s.log.Errorf("127.0.0.1:4 - cid:7 - Client parser ERROR: proto='%s'", storeFailed+"'$G > S': no space left on device")
	if s.log.full.Load() {
		t.Error("the words of a client close the streams")
	}
	s.log.Errorf("%s", storeFailed+"'$G > S': write 1.blk: no space left on device")
	for s.log.full.Load() {
		select {
		case <-ctx.Done():
			t.Fatal("the streams were not opened again")
		case <-time.After(20 * time.Millisecond):
		}
	}
	for { // it may still be opening
		if _, err = js.Publish(ctx, "s", []byte("after")); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs < 2 {
		t.Errorf("%+v, %v: want both messages", info, err)
	}
}
