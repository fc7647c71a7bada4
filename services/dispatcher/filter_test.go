package dispatcher_test

import (
	"fmt"
	"testing"

	"waybill.dev/shared/domain"
)

// An event that a webhook's filter misses makes no delivery to it, over REST and on the bus. One
// that misses them all is settled like one without subscribers, and is in the log.
func TestFilterKeepsEventsBack(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s, other := newSink(t, nil), newSink(t, nil)
		matching := b.webhook(s.URL, func(w *domain.Webhook) { w.Filter = `{"data.n":{"$gt":0.09,"$lte":1e-1}}` })
		missing := b.webhook(other.URL, func(w *domain.Webhook) { w.Filter = `{"data.n":{"$gt":5}}` })
		b.dispatch()
		b.accept(3)
		b.deliveries(matching.ID, domain.StatusDelivered, 3)
		b.settled()

		b.update(matching.ID, func(w *domain.Webhook) { w.Filter = `{"data.shipmentId":"shp_2"}` })
		b.accept(2) // they wait for the change
		b.settled()
		b.eventually(func() error {
			left, err := b.backlog()
			if err == nil && left != (backlog{}) {
				err = fmt.Errorf("left on the bus: %+v", left)
			}
			return err
		})

		nc := b.client()
		for i, n := range []string{"5.0", "500e-2", "5.00000000000000000001"} {
			body := fmt.Sprintf(`{"id":"bus%d","type":"shipment.delivered","data":{"shipmentId":"shp_1","n":%s}}`, i, n)
			if err := nc.Publish("events.default.shipment.delivered", []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		b.deliveries(missing.ID, domain.StatusDelivered, 1)
		if _, ids := other.seen(); len(ids) != 1 || ids[0] != "bus2" {
			t.Errorf("what misses the filter came: %v", ids)
		}
		b.deliveries(matching.ID, domain.StatusDelivered, 3)
		b.eventually(func() error { // nobody wanted it, and it is in the log
			_, err := b.store.GetEvent(t.Context(), domain.DefaultAccount, "bus0")
			return err
		})
	})
}
