package retry

import (
	"context"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// consume takes the due deliveries of a shard until ctx is done. Among all that consume a shard the server
// serves one.
func (d *Due) consume(ctx context.Context, shard int) {
	name := bus.DueConsumer(shard)
	admission.GoOn(ctx, d.log, name, func(works func()) error {
		consumer, err := d.bus.Stream(bus.StreamRetries).Consumer(ctx, name)
		for err == nil {
			err = d.pull(ctx, consumer, works)
		}
		return err
	})
}

const (
	// dueAhead is how many due deliveries of a shard wait in this process to be handled, at
	// most.
	dueAhead = 256
	// dueHeartbeat is how often the server says that it still knows the request: a request that was lost
	// in a cluster is made again after two of them. Each of the shards has one, and they are most of
	// what an idle process wakes for.
	dueHeartbeat = 5 * time.Second
	dueExpiry    = 30 * time.Second
)

// pull takes due deliveries by a continuous pull until there is no room for more of them;
// what the client has of them then is given back.
func (d *Due) pull(ctx context.Context, consumer *bus.Consumer, works func()) error {
	options := bus.PullOptions{Messages: dueAhead, Expiry: dueExpiry, Heartbeat: dueHeartbeat}
	if d.room != nil {
		// The client asks for more when half of it is handled, so it may have twice as much.
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
