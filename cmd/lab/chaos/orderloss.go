package main

import (
	"context"
	"time"
)

// orderBusLost takes all that the bus holds away from webhooks that get events in order. The order may
// break at the loss: what waited comes back from the database, beside what is new. But everything that
// REST accepted arrives, nothing waits for ever behind what was lost, and the log tells how each ended.
func orderBusLost(ctx context.Context, b *bench) error {
	d, err := b.inOrder(ctx, "shipment")
	if err != nil {
		return err
	}
	defer d.close()
	d.inFlightFor = recordedWithin
	d.load.start(ctx, b.rate, 0)
	if err := d.loseBus(ctx, d.stack.NATS[0], 10*time.Second); err != nil {
		return err
	}
	if err := d.arrive(ctx); err != nil {
		return err
	}
	d.report.figure(figureOvertaken, float64(d.overtaken()))
	open, _, example, err := d.compareLog(ctx)
	d.report.must(open == 0, "the log has %d deliveries of another status, such as %s", open, example)
	return err
}
