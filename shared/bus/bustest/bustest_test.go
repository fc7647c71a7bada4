package bustest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Streams outlive a restart and are other streams after the files were removed.
func TestRestartKeepsStreamsAndWipeLosesThem(t *testing.T) {
	server := bustest.Start(t)
	b, err := bus.Connect(bus.Options{
		URL: server.URL(), Name: "test", Logger: slog.New(slog.DiscardHandler),
		MACKeys: [][]byte{make([]byte, 32)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	created := func() map[string]time.Time {
		t.Helper()
		if err := b.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		if err := b.Ensure(ctx); err != nil {
			t.Fatal(err)
		}
		times := make(map[string]time.Time)
		for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamRecords} {
			state, err := b.Stream(name).State(ctx)
			if err != nil {
				t.Fatal(err)
			}
			times[name] = state.Created
		}
		return times
	}
	before, url := created(), server.URL()
	reconnected, stop := b.Reconnects()
	defer stop()
	wait := func() {
		t.Helper()
		select {
		case <-reconnected:
		case <-ctx.Done():
			t.Fatal("the bus did not reconnect")
		}
	}
	server.Restart()
	wait()
	if server.URL() != url {
		t.Errorf("restarted on %s, was on %s", server.URL(), url)
	}
	for name, at := range created() {
		if !at.Equal(before[name]) {
			t.Errorf("stream %s was remade by a restart", name)
		}
	}
	server.Wipe()
	wait()
	for name, at := range created() {
		if at.Equal(before[name]) {
			t.Errorf("stream %s is the old one although its files were removed", name)
		}
	}
}
