package main

import (
	"context"
	"fmt"
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
	rounds := max(1, b.rounds/4)
	for round := range rounds {
		if err := wait(ctx, 4*time.Second, 10*time.Second); err != nil {
			return err
		}
		err := d.broken(func() error {
			if err := d.stack.NATS[0].Kill(); err != nil {
				return err
			}
			if err := d.stack.LoseBus(); err != nil {
				return err
			}
			return d.stack.NATS[0].Start(ctx)
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	d.report.figure(figureRounds, float64(rounds))
	if err := d.arrive(ctx); err != nil {
		return err
	}
	d.report.figure(figureOvertaken, float64(d.overtaken()))
	open, _, example, err := d.compareLog(ctx)
	d.report.must(open == 0, "the log has %d deliveries of another status, such as %s", open, example)
	return err
}
