package retry

import (
	"context"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// consume takes the due deliveries of a shard until ctx is done. The server serves only one of all the
// processes that consume a shard.
func (d *DueDeliveries) consume(ctx context.Context, shard int) {
	name := bus.DueConsumer(shard)
	admission.KeepConsuming(ctx, d.log, name, func(works func()) error {
		consumer, err := d.bus.Stream(bus.StreamRetries).Consumer(ctx, name)
		for err == nil {
			err = d.pull(ctx, consumer, works)
		}
		return err
	})
}

const (
	// dueAhead is how many due deliveries of a shard wait in this process at most until they are handled.
	dueAhead = 256
	// dueHeartbeat is how often the server confirms a pull request: a request that was lost in a
	// cluster is made again after two missing heartbeats. Each shard has a request, and their
	// heartbeats are most of what wakes an idle process.
	dueHeartbeat = 5 * time.Second
	dueExpiry    = 30 * time.Second
)

// pull takes due deliveries by a continuous pull until ctx is done or there is no room for more.
// The deliveries that the client has then are given back.
func (d *DueDeliveries) pull(ctx context.Context, consumer *bus.Consumer, works func()) error {
	options := bus.PullOptions{Messages: dueAhead, Expiry: dueExpiry, Heartbeat: dueHeartbeat}
	if d.room != nil {
		// The client asks for more when half of the messages are handled, so it may have twice as many bytes.
		options.Bytes = max(admission.LargestTask, d.room.Limit()/(4*domain.Shards))
		granted, err := d.room.Reserve(ctx, 2*options.Bytes, 2*options.Bytes)
		if err != nil {
			return err // asked to stop
		}
		defer d.room.Give(granted)
	}
	due, err := consumer.Pull(options)
	if err != nil {
		return err
	}
	defer due.Close()
	for d.room == nil || !d.room.Full() {
		m, err := due.Next(ctx)
		if err != nil {
			return err
		}
		works()
		d.handle(ctx, m)
	}
	return nil
}
