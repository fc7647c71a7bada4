package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/shared/domain"
)

// adoptAgain is how long it takes until the circuits are read again when they could not be.
const adoptAgain = time.Second

// circuits looks, whenever this dispatcher has become the owner of webhooks, at what the owner
// before said of their circuits: what it took with it, such as an open circuit, is told anew.
type circuits struct {
	store     circuitStore
	deliverer *deliver.Deliverer
	log       *slog.Logger
	changed   chan struct{}
}

// circuitStore has what dispatchers said.
type circuitStore interface {
	FailingCircuits(ctx context.Context) (map[domain.WebhookID]domain.Circuit, error)
}

// own hears that a shard has become this dispatcher's, or another one's.
func (c *circuits) own(_ int, owned bool) {
	if !owned {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run works until ctx is done.
func (c *circuits) Run(ctx context.Context) error {
	for failing := false; ; {
		if !failing {
			select {
			case <-ctx.Done():
				return nil
			case <-c.changed:
			}
		}
		said, err := c.store.FailingCircuits(ctx)
		if err == nil {
			failing = false
			c.deliverer.Adopt(said)
			continue
		}
		if !failing {
			c.log.Warn("the circuits can't be read; what the API says of them may be old", "error", err)
			failing = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(adoptAgain):
		}
	}
}
