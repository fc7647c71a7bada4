package relay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

func (d *database) UnsettledPlaces(_ context.Context, account string, first, last int64, before time.Time, limit int) ([]pipeline.OutboxEvent, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var page []pipeline.OutboxEvent
	for _, row := range d.outbox {
		late := row.Relayed == 0 || row.Event.ReceivedAt.Before(before)
		if row.Event.Account == account && row.Place >= first && row.Place <= last && late && len(page) < limit {
			page = append(page, row)
		}
	}
	return page, nil
}

func placed(id string, place int64) pipeline.OutboxEvent {
	row := accepted(id, time.Second, 0)
	row.Place = place
	return row
}

// What an order waits for goes out when it is asked for, however young it is, and nothing else.
func TestMissingPlacesGoOutAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.db.outbox = []pipeline.OutboxEvent{placed("a", 1), placed("b", 2), placed("c", 3), placed("d", 4), accepted("e", time.Second, 0)}
		b.bus.backlog.OldestEvent = time.Now().Add(-time.Hour) // nothing is relayed in the ordinary way
		_, stop := b.run(t)
		defer stop()
		ask := func(body string) {
			b.bus.listening([]byte(body))
			synctest.Wait()
		}
		ask("")
		ask("default 2 x")
		ask("other 1 9")
		b.wantSent(t)
		ask("default 2 3")
		b.wantSent(t, "event b round 1 place 2", "event c round 1 place 3")
		ask("default 2 4") // again, while two of them are on their way
		b.wantSent(t, "event d round 1 place 4")
		pass(6 * time.Second)
		ask("default")
		b.wantSent(t, "event a round 1 place 1", "event b round 2 place 2", "event c round 2 place 3", "event d round 2 place 4")
	})
}

// What waits in the order of a shipment goes back there, whatever else it waits for, and its
// owner is told.
func TestLossOfTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		pass(time.Minute)
		ordered := func(id string, sequence int64, status domain.Status, next time.Time) pipeline.RestoreItem {
			return pipeline.RestoreItem{
				Task:   domain.Task{Account: "acme", Delivery: domain.DeliveryID(id), Sequence: sequence, Shipment: 7},
				Status: status, NextAttemptAt: next, Ordered: true,
			}
		}
		b.db.restore = []pipeline.RestoreItem{
			ordered("first", 4, domain.StatusRetrying, time.Now().Add(time.Hour)),
			ordered("second", 5, domain.StatusPending, time.Time{}),
			ordered("third", 6, domain.StatusHeld, time.Time{}),
			{Task: domain.Task{Delivery: "soon"}, Status: domain.StatusRetrying, NextAttemptAt: time.Now().Add(time.Hour)},
		}
		b.bus.remake(bus.StreamOrder)
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t, "announce acme", "order first 4 of 7 in 1h0m0s", "order second 5 of 7", "order third 6 of 7")
		pass(time.Minute)
		b.wantSent(t)
	})
}
