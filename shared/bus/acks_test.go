package bus_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// Each publication ends exactly once, with an error that tells that the bus is away: those that
// wait for their acknowledgement when the server goes, and those that come without it.
func TestPublicationsEndOnceWhenTheServerGoes(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	b := connect(t, server)
	if duplicate, err := tryPublish(b, bus.AcceptedEvent{Event: event()}, 0); err != nil || duplicate {
		t.Fatalf("duplicate %t, %v", duplicate, err)
	}
	if duplicate, err := tryPublish(b, bus.AcceptedEvent{Event: event()}, 0); err != nil || !duplicate {
		t.Fatalf("duplicate %t, %v for a message id that was used", duplicate, err)
	}
	// A subscriber that never answers stands for a stream that hangs: the server knows somebody
	// who takes the message, so it says nothing.
	other, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	js, err := other.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(bus.StreamRecords); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Subscribe(bus.SubjectRecords, func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	const n = 100
	ends := make(chan error, 2*n)
	for range n {
		b.PublishRecords([]byte("records"), func(err error) { ends <- err })
	}
	if err := b.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(ends) > 0 {
		t.Fatalf("%d ended: %v", len(ends), <-ends)
	}
	server.Stop()
	for range n {
		if err := <-ends; !errors.Is(err, domain.ErrUnavailable) || !errors.Is(err, nats.ErrDisconnected) {
			t.Fatalf("ended with %v", err)
		}
	}
	b.PublishRecords([]byte("records"), func(err error) { ends <- err })
	if err := <-ends; !errors.Is(err, domain.ErrUnavailable) {
		t.Fatalf("without a server: %v", err)
	}
	server.Start()
	b.Close()
	if len(ends) > 0 {
		t.Fatalf("%d ended twice: %v", len(ends), <-ends)
	}
}
