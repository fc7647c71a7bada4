package bus_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
)

// inspected connects without making anything.
func inspected(t *testing.T, url string, o bus.Options) *bus.Bus {
	t.Helper()
	o.URL, o.Logger, o.MACKeys = url, slog.New(slog.DiscardHandler), [][]byte{key}
	if o.Name == "" {
		o.Name = "waybill"
	}
	b, err := bus.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInspectChangesNothing(t *testing.T) {
	t.Parallel()
	b := inspected(t, bustest.Start(t).URL(), bus.Options{})
	for range 2 {
		streams, err := b.InspectStreams(t.Context())
		if err != nil || len(streams) != 6 {
			t.Fatalf("%+v, %v", streams, err)
		}
		for _, s := range streams {
			if !s.Missing {
				t.Errorf("%s was made", s.Name)
			}
		}
		consumers, err := b.InspectConsumers(t.Context())
		if err != nil || len(consumers) != 3 || !consumers[0].Missing || !consumers[1].Missing || !consumers[2].Missing {
			t.Errorf("%+v, %v", consumers, err)
		}
	}
	if info, err := b.ServerInfo(t.Context()); err != nil || info.Version != server.VERSION || len(info.Known) == 0 || info.Trip <= 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	s := bustest.Start(t)
	b := connect(t, s)
	publish(t, b, bus.AcceptedEvent{Event: event()}, 0)
	streams, err := b.InspectStreams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		if s.Missing || len(s.Differs) > 0 || s.NoLeader || s.Name == bus.StreamEvents && (s.Messages != 1 || s.Bytes == 0 || s.MaxBytes == 0 || s.Oldest.IsZero()) {
			t.Errorf("%+v", s)
		}
	}
	var consumers []bus.ConsumerLook
	eventually(t, func() error { // the server tells the consumer of a message a moment after it is stored
		if consumers, err = b.InspectConsumers(t.Context()); err != nil {
			return err
		}
		if fanout := consumers[0]; fanout.Missing || fanout.Pending != 1 || fanout.Unacked != 0 || time.Since(fanout.Oldest).Abs() > time.Minute {
			return fmt.Errorf("%+v", fanout)
		}
		return nil
	})
	if due := consumers[2]; due.Missing || due.Pending != 0 || !due.Oldest.IsZero() {
		t.Errorf("%+v", due)
	}
	other := inspected(t, s.URL(), bus.Options{Retention: time.Hour})
	streams, err = other.InspectStreams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		if differs := len(s.Differs) > 0; differs != (s.Name == bus.StreamEvents || s.Name == bus.StreamRejected) {
			t.Errorf("with another retention: %s differs in %v", s.Name, s.Differs)
		}
	}
	if rights, err := b.Rights(t.Context()); err != nil || !rights.Told || !rights.Everything || len(rights.Missing) > 0 {
		t.Errorf("rights without users: %+v, %v", rights, err)
	}
}
