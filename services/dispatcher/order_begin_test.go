package dispatcher_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// A dispatcher that takes over the order of many accounts at once asks the bus for a handful of things for each of
// them. What all must know, it asks a few times.
func TestManyAccountsAreTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	const accounts, each, together = 200, 4, 300
	b := newBench(t, "sqlite:"+templates.SQLite(t))
	s := newSink(t, nil)
	for i := range accounts {
		name := fmt.Sprintf("a%d", i)
		b.account(name)
		b.webhook(s.URL, ordered, func(w *domain.Webhook) { w.Account = name })
	}
	nc, err := nats.Connect(b.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publish := func() {
		t.Helper()
		for i := range accounts {
			if err := nc.Publish(bus.EventSubject(fmt.Sprintf("a%d", i), domain.ShipmentCreated), []byte(`{"type":"shipment.created","data":{"shipmentId":"shp_1"}}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	delivered := func(n int) {
		t.Helper()
		b.eventually(func() error {
			if calls, _ := s.seen(); len(calls) != n {
				return fmt.Errorf("%d calls, want %d", len(calls), n)
			}
			return nil
		})
	}
	publish()
	stop := b.dispatch()
	delivered(accounts)
	stop()
	publish()
	var mu sync.Mutex
	asked := 0
	for _, subject := range []string{"$JS.API.STREAM.*.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.CONSUMER.*.*", "$JS.API.CONSUMER.*.*.*", "$JS.API.CONSUMER.CREATE.*.*.>"} {
		_, err := nc.Subscribe(subject, func(*nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			asked++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	b.dispatch()
	delivered(2 * accounts)
	mu.Lock()
	defer mu.Unlock()
	if most := each*accounts + together; asked > most {
		t.Errorf("%d requests for %d accounts, want %d at most", asked, accounts, most)
	}
}

// Order holds from the answer that switched it on, though no dispatcher ran then: what was published on NATS before one began is
// in order, too.
func TestOrderHoldsFromBeforeTheDispatcherBegan(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bench) {
		const each = 30
		s := newSink(t, nil)
		b.webhook(s.URL, ordered)
		nc := b.client()
		for n := range each {
			body := fmt.Sprintf(`{"type":"shipment.created","data":{"shipmentId":"shp_0","n":%d}}`, n+1)
			if err := nc.Publish(bus.EventSubject(domain.DefaultAccount, domain.ShipmentCreated), []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		b.dispatch()
		b.eventually(func() error {
			if calls, _ := s.seen(); len(calls) != each {
				return fmt.Errorf("%d calls, want %d", len(calls), each)
			}
			return nil
		})
		calls, _ := s.seen()
		inOrder(t, calls, 1, each)
	})
}
