package load

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stallTimeout is how long the bus may take to acknowledge anything while the publisher
// waits for it.
const stallTimeout = 30 * time.Second

// bus publishes on JetStream, as a producer with many events does: without waiting for
// each acknowledgement before the next message.
func (w *work) bus(ctx context.Context) error {
	conn, err := nats.Connect(w.NATSURL)
	if err != nil {
		return fmt.Errorf("connect to the bus: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn,
		jetstream.WithPublishAsyncMaxPending(w.Pending),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			w.refused.Add(1)
			w.faults.add("%v", err)
		}))
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	subject := "events.default." + string(w.Type)
	w.source = newSource(w.Job) // the clock starts when it is connected
	var sent int64
	for {
		offset, count, due := w.source.take(ctx, 1)
		if count == 0 {
			break
		}
		n := w.First + offset
		msg := &nats.Msg{Subject: subject, Data: w.template.append(nil, n, due)}
		if _, err := js.PublishMsgAsync(msg, jetstream.WithMsgID(eventID(n)), jetstream.WithStallWait(stallTimeout)); err != nil {
			return fmt.Errorf("publish on the bus: %w", err)
		}
		sent++
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stallTimeout):
		return fmt.Errorf("%d messages are not acknowledged after %s", js.PublishAsyncPending(), stallTimeout)
	}
	w.accepted.Store(sent - w.refused.Load())
	return nil
}
