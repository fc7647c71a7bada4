package natsd_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"waybill.dev/cmd/waybill/internal/natsd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, dir string) (server *natsd.Server, stop func()) {
	t.Helper()
	server, err := natsd.Start(t.Context(), natsd.Options{Addr: "127.0.0.1:0", Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	return server, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// stream makes or finds a stream and returns how many messages it has after one more.
func stream(t *testing.T, url string, options ...nats.Option) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s", []byte("x")); err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

func TestStreamsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	server, stop := start(t, dir)
	if n := stream(t, server.URL()); n != 1 {
		t.Errorf("by its address: %d messages", n)
	}
	if n := stream(t, "", nats.InProcessServer(server.InProcess())); n != 2 {
		t.Errorf("in process: %d messages", n)
	}
	stop()
	server, stop = start(t, dir)
	defer stop()
	if n := stream(t, server.URL()); n != 3 {
		t.Errorf("after a restart: %d messages", n)
	}
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = natsd.Start(t.Context(), natsd.Options{Addr: taken.Addr().String(), Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error: %v", err)
	}
}
