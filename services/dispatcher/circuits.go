package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
)

// circuits runs when this dispatcher has become the owner of shards. It reads the circuits that the
// owner before recorded for their webhooks, and records those that are different now, such as a
// circuit that was open there and is closed here.
type circuits struct {
	store     circuitStore
	deliverer *deliver.Deliverer
	log       *slog.Logger
	changed   signal.Signal
}

// circuitStore has the circuits that dispatchers recorded.
type circuitStore interface {
	FailingCircuits(ctx context.Context) (map[domain.WebhookID]domain.Circuit, error)
}

// own is called when this dispatcher has become the owner of a shard, or is no longer its owner.
func (c *circuits) own(_ int, owned bool) {
	if owned {
		c.changed.Give()
	}
}

// Run works until ctx is done.
func (c *circuits) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		}
		_ = again.Do(ctx, again.Loop{
			First: time.Second, Longest: time.Second, Log: c.log, Fails: "the circuits can't be read; what the API says of them may be old",
		}, func(func()) error {
			said, err := c.store.FailingCircuits(ctx)
			if err == nil {
				c.deliverer.Adopt(said)
			}
			return err //nolint:wrapcheck // says what was being done
		})
	}
}
