package bustest

import (
	"context"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Schedule makes a task due at a time, and waits until the bus has stored it.
func Schedule(ctx context.Context, b *bus.Bus, task *domain.Task, at time.Time) error {
	return stored(ctx, func(done func(error)) { b.Schedule(task, at, done) })
}

// Hold puts a task into its webhook's hold queue, and waits until the bus has stored the task.
func Hold(ctx context.Context, b *bus.Bus, task *domain.Task) error {
	return stored(ctx, func(done func(error)) { b.Hold(task, done) })
}

func stored(ctx context.Context, start func(done func(error))) error {
	result := make(chan error, 1)
	start(func(err error) { result <- err })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
