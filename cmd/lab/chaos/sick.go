package main

import (
	"context"

	"waybill.dev/shared/domain"
)

// besideSick measures how long events take to eight healthy receivers, first alone, then
// beside eight sick ones that get every event, too: four hang, and four answer 500. Their
// webhooks have the installation's timeout and schedule.
func besideSick(start form) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		b.hooks = 8
		f, err := b.healthy(ctx, start)
		if err != nil {
			return err
		}
		defer f.close()
		f.load.kindOf = func(int64) domain.EventType { return domain.ShipmentInTransit }
		alone, err := f.alone(ctx)
		if err != nil {
			return err
		}
		sick, err := f.beside(ctx, sickArg, hostileTime)
		if err != nil {
			return err
		}
		if err := f.load.end(ctx); err != nil {
			return err
		}
		f.judgeHealthy(ctx)
		alone.note(f.report, "alone")
		sick.note(f.report, "beside sick ones")
		ratio := sick.arrival.percentile(99) / alone.arrival.percentile(99)
		f.report.figure("p99 beside sick ones / alone", ratio)
		f.report.must(ratio <= 2, "healthy p99 is %.1f times that without sick receivers, want 2 at most", ratio)
		return nil
	}
}
