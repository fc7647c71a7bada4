package relay

import (
	"context"
	"fmt"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// alerts publishes the alerts that the dispatchers' record stage has made and that have not been published yet. A
// new alert is announced, so it is published at once, whatever else waits on the bus.
func (l *leader) alerts(ctx context.Context) error {
	for {
		rows, err := l.unpublished(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		sent, failure := l.publish(ctx, len(rows), func(i int, done func(error)) {
			// A repeat comes from this relay, from a round that it could not note. If another publisher has used
			// the message id, the alert is published again like an event that the bus has lost.
			l.bus.PublishEvent(bus.AcceptedEvent{Event: rows[i].Event, Version: rows[i].Version}, 0,
				func(_ bool, err error) { done(err) })
		})
		keys := make([]domain.EventKey, 0, len(sent))
		for _, i := range sent {
			keys = append(keys, rows[i].Event.Key())
		}
		if len(keys) > 0 {
			if err := l.markEvents(ctx, keys); err != nil {
				return err
			}
			l.metrics.alerts.Add(float64(len(keys)))
		}
		if failure != nil {
			return fmt.Errorf("publish alerts: %w", failure)
		}
	}
}

func (l *leader) unpublished(ctx context.Context) ([]pipeline.OutboxEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Unpublished(ctx, pageSize)
}
