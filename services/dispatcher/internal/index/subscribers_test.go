package index_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/filter"
)

func eventOf(data string) *domain.Event {
	return &domain.Event{Account: "default", ID: "evt_1", Type: domain.ShipmentCreated, Payload: []byte(
		`{"id":"evt_1","type":"shipment.created","timestamp":"2026-09-01T12:00:00Z","data":` + data + `}`)}
}

// filters are of all forms: found by one value, by one of several, by none, and a few that
// are the same.
func filters() []string {
	list := []string{"", `{}`, `{"data.weightKg":{"$gt":10}}`, `{"$or":[{"data.carrier":"c1"},{"data.carrier":"c2"}]}`, `{"data.carrier":{"$ne":"c1"}}`,
		`{"data.tags":{"$in":["a","b",1]}}`, `{"data.tags":{"$contains":"a"}}`, `{"data.tags":"a"}`, `{"data.none":null}`, `{"$not":{"data.carrier":"c1"}}`,
		`{"data.weightKg":12.50}`, `{"data.weightKg":{"$in":[1,1.25e1]}}`, `{"timestamp":"2026-09-01T12:00:00Z","data.carrier":"c3"}`, `{"data.tags":["a"]}`}
	for i := range 30 { // ranges of all forms, some of them of other kinds or empty
		list = append(list, fmt.Sprintf(`{"data.weightKg":{"$gte":%d,"$lt":%d}}`, i-2, i%7), fmt.Sprintf(`{"data.weightKg":{"$lte":%d.5}}`, i), fmt.Sprintf(`{"data.carrier":{"$gt":"c%d"}}`, i),
			fmt.Sprintf(`{"$and":[{"data.weightKg":{"$gt":%d}},{"data.weightKg":{"$lte":12.5}},{"data.carrier":{"$ne":"c1"}}]}`, i),
			fmt.Sprintf(`{"timestamp":{"$gt":"2026-09-01T11:%02d:00Z","$lte":"2026-09-01T12:00:%02dZ"}}`, i, i%3), fmt.Sprintf(`{"data.p%d.x":{"$gt":1}}`, i))
	}
	for i := range 10 {
		list = append(list, fmt.Sprintf(`{"type":"shipment.created","data.carrier":"c%d"}`, i), fmt.Sprintf(`{"$and":[{"data.carrier":{"$in":["c%d","c%d"]}},{"data.weightKg":{"$lt":13}}]}`, i, i+1))
	}
	return list
}

// Who gets an event is found by an index, and is the same as when each filter is looked at.
func TestSubscribersByFilter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		for i, text := range filters() {
			w := hook(i, domain.ShipmentCreated)
			w.Filter = text
			s.put(w)
		}
		x := start(t, s)
		synctest.Wait()
		for _, data := range []string{
			`{}`, `{"carrier":"c1","weightKg":12.5}`, `{"carrier":"c3","weightKg":11}`, `{"carrier":"c9","tags":["a"]}`, `{"tags":["b",1.0,"a"]}`, `{"tags":"a","none":null}`,
			`{"carrier":["c1","c2","c3"],"weightKg":1}`, `{"carrier":{"c1":1},"tags":[]}`,
			`{"weightKg":"c1","carrier":12}`, `{"weightKg":1.25e1,"p3":{"x":2},"p4":{"x":1},"p5":{"x":"2"}}`, `{"weightKg":-1}`, `{"weightKg":29.5,"":{}}`,
			// A name that comes again is one member, whose last value counts.
			`{"carrier":"c1","carrier":"c3","weightKg":3,"weightKg":3,"\u0063arrier":"c3"}`,
			`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"carrier":"c1","carrier":"c3","weightKg":3,"weightKg":3}`,
		} {
			event := eventOf(data)
			var got, want []domain.WebhookID
			for _, h := range x.Subscribers(event) {
				got = append(got, h.ID)
			}
			for i, text := range filters() {
				f, faults := filter.Parse([]byte(cmp.Or(text, "{}")))
				if len(faults) > 0 {
					t.Fatal(text, faults)
				}
				if f.Matches(filter.Read(event.Payload)) {
					want = append(want, hook(i).ID)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s goes to\n%v, want\n%v", data, got, want)
			}
		}

		// A change holds for the next event; what can't be read is kept with a fault, and misses
		// nothing.
		changed := hook(1, domain.ShipmentCreated)
		changed.Filter = `{"data.carrier":"other"}`
		s.put(changed)
		broken := hook(2, domain.ShipmentCreated)
		broken.Filter = `{"data.carrier":{"$regex":"x"}}`
		s.put(broken)
		x.Poke()
		synctest.Wait()
		ids := map[domain.WebhookID]*index.Hook{}
		for _, h := range x.Subscribers(eventOf(`{}`)) {
			ids[h.ID] = h
		}
		if ids[changed.ID] != nil {
			t.Error("a changed filter does not hold")
		}
		if h := ids[broken.ID]; h == nil || !h.Inactive() || !strings.Contains(h.Config().Fault, "/data.carrier/$regex") {
			t.Errorf("a webhook whose filter can't be read: %+v", h)
		}
	})
}

// An account's events of a type are costly while its filters on that type are more than one may
// have.
func TestCostly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		x := start(t, s)
		other := eventOf(`{}`)
		other.Account = "other"
		expect := func(when string, want bool) {
			t.Helper()
			x.Poke()
			synctest.Wait()
			if got := x.Costly(eventOf(`{}`)); got != want || x.Costly(other) {
				t.Errorf("%s: costly: %v, of another account: %v", when, got, x.Costly(other))
			}
		}
		expect("without webhooks", false)
		one := hook(1, domain.ShipmentCreated)
		one.Filter = `{"data.a":"` + strings.Repeat("x", filter.MaxSize-len(`{"data.a":""}`)) + `"}`
		s.put(one)
		expect("with the largest filter", false)
		two := hook(2, domain.ShipmentCreated)
		two.Filter = `{}`
		s.put(two)
		expect("with another one", true)
		two.Filter = ""
		two.Version++
		s.put(two)
		expect("with one again", false)
	})
}

// BenchmarkFilters finds who gets an event among 10,000 webhooks: without filters, each with
// another value of one path, each with another range, each with another path, and each with what is looked up by nothing.
func BenchmarkFilters(b *testing.B) {
	const hooks = 10_000
	event := eventOf(`{"shipmentId":"shp_1","carrier":"c77","destination":{"country":"DE","city":"Berlin"},"weightKg":12.5,"tags":["a","b"]}`)
	for _, c := range []struct {
		name   string
		filter func(i int) string
	}{
		{"none", func(int) string { return "" }},
		{"equal", func(i int) string { return fmt.Sprintf(`{"data.carrier":"c%d"}`, i) }},
		{"range", func(i int) string { return fmt.Sprintf(`{"data.weightKg":{"$gt":%d}}`, i+13) }},
		{"bands", func(i int) string { return fmt.Sprintf(`{"data.weightKg":{"$gte":%d,"$lt":%d}}`, i, i+1) }},
		{"paths", func(i int) string { return fmt.Sprintf(`{"data.p%d":1}`, i) }},
		{"thousandPaths", func(i int) string { return fmt.Sprintf(`{"data.p%d":%d}`, i%1000, i) }},
		{"not", func(i int) string { return fmt.Sprintf(`{"data.weightKg":{"$not":{"$gte":%d}}}`, i%13) }},
	} {
		s := &source{webhooks: map[domain.WebhookID]domain.Webhook{}}
		for i := range hooks {
			w := hook(i, domain.ShipmentCreated)
			w.Filter = c.filter(i)
			s.put(w)
		}
		x := index.New(index.Options{
			Store: s, Announcer: silent{}, Logger: slog.New(slog.DiscardHandler),
			Prepare: func(*domain.Webhook) (index.Preparation, error) { return nil, nil },
		})
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = x.Run(ctx) })
		if err := x.Await(ctx, hooks); err != nil {
			b.Fatal(err)
		}
		_ = x.Subscribers(event)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = x.Subscribers(event)
			}
		})
		stop()
		running.Wait()
	}
}
