package dispatcher_test

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
)

// What the record stage has written is told to those who watch the account: events that came
// over the bus, deliveries, and webhooks that were disabled.
func TestNews(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		s := newSink(t, func(call) int { return http.StatusGone })
		w := b.webhook(s.URL)
		b.dispatch()
		b.known(w)
		var mu sync.Mutex
		heard := make(map[news.Kind][]string)
		stop, err := news.Hear(b.bus, domain.DefaultAccount, func(changes news.Changes) {
			mu.Lock()
			defer mu.Unlock()
			for kind, ids := range changes {
				heard[kind] = append(heard[kind], ids...)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := b.bus.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		news.Watch(b.bus, domain.DefaultAccount)
		if err := b.client().PublishMsg(eventMessage(domain.DefaultAccount, "evt_news")); err != nil {
			t.Fatal(err)
		}
		b.eventually(func() error {
			found, _, err := b.store.ListDeliveries(t.Context(), filter(w.ID))
			if err != nil || len(found) == 0 {
				return errors.Join(err, errors.New("there is no delivery"))
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !slices.Contains(heard[news.Event], "evt_news"):
				return errors.New("the event is not told")
			case !slices.Contains(heard[news.Delivery], string(found[0].ID)):
				return errors.New("the delivery is not told")
			case !slices.Contains(heard[news.Webhook], string(w.ID)):
				return errors.New("the webhook is not told")
			}
			return nil
		})
	})
}
