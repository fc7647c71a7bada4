package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/shared/domain"
)

const (
	// busy webhooks get each event, as in the scenario rest-10; what is there besides is
	// there, and nothing comes to it.
	busy        = 10
	kindBusy    = domain.ShipmentInTransit
	kindIdle    = domain.ShipmentCreated   // what else is stored, and webhooks that wait for nothing
	kindTrouble = domain.ShipmentException // what fails, or is held
	// perAccount is how many webhooks an account may have.
	perAccount = 10_000
	// storedSize is that of an event that is there only to be stored.
	storedSize = 256
	// fillConnections publish what is only to be stored, or held.
	fillConnections = 8
)

func axes() []axis {
	return []axis{
		{name: "webhooks", what: "10 webhooks get each event, more and more others none", x: "webhooks", points: []int{10, 100, 1_000, 10_000, 100_000}, open: growWebhooks},
		{name: "fanout", what: "each event goes to more and more webhooks", x: "webhooks an event", points: []int{1, 10, 100, 1_000, 10_000}, open: growFanout},
		{name: "retries", what: "10 webhooks get each event, another one's retries wait", x: "pending retries", points: []int{0, 1_000, 10_000, 100_000, 1_000_000}, open: growRetries},
		{name: "events", what: "10 webhooks get each event, many are stored already", x: "events stored", points: []int{10_000, 100_000, 1_000_000, 10_000_000}, open: growEvents},
		{name: "dispatchers", what: "10 webhooks get each event, more and more dispatchers", x: "dispatchers", points: []int{1, 2, 3, 4}, split: true, fresh: true, open: growNothing},
		{name: "accounts", what: "accounts with a webhook each get an event in turn", x: "accounts", points: []int{1, 10, 100, 1_000, 10_000}, open: growAccounts(client.Webhook{}, 0)},
		{name: "unordered", what: "accounts with a webhook each get an event in turn, 100 a second", x: "accounts", points: orderPoints(), open: growAccounts(client.Webhook{}, orderRate)},
		{name: "ordered", what: "the same with order per shipment", x: "accounts", points: orderPoints(), open: growAccounts(client.Webhook{Ordering: string(domain.OrderingShipment)}, orderRate)},
		{name: "wide", what: "what others get while now and then an event goes to many webhooks", x: "webhooks an event", points: []int{perAccount - busy}, whole: wide},
		{name: "backlog", what: "what a webhook's return sends out, held before", x: "held", points: []int{1_000_000}, whole: backlog},
		{name: "scheduled", what: "retries that wait, and a restart with them", x: "scheduled", points: []int{1_000_000}, whole: scheduled},
		{name: "gateway", what: "routes of the gateway, beside net/http's reverse proxy", x: "connections", points: []int{64}, alone: gateway},
	}
}

// orderRate is how many events a second go to accounts with and without order: so few that what is measured is latency.
const orderRate = 100

func orderPoints() []int { return []int{1, 100, 1_000} }

// ten registers the busy webhooks and returns what is measured with them.
func (r *rig) ten(ctx context.Context) (phase, error) {
	h, err := r.register(ctx, r.api, 0, busy, kindBusy, client.Webhook{})
	if err != nil {
		return phase{}, err
	}
	s := scenario{perSecond: 10_000, webhooks: busy}
	return phase{
		job:      load.Job{Way: load.WayREST, Type: kindBusy, Connections: 64, Events: s.events(r.options), For: r.duration},
		flock:    load.Flock{Name: "busy", To: busy, Each: true},
		perEvent: busy, secrets: h.secrets,
	}, nil
}

func growNothing(ctx context.Context, r *rig) (grower, error) {
	p, err := r.ten(ctx)
	return grower{grow: func(context.Context, int, int) error { return nil }, phase: func(int) phase { return p }}, err
}

// growWebhooks adds webhooks that wait for another type. When an account is full they
// belong to another one.
func growWebhooks(ctx context.Context, r *rig) (grower, error) {
	p, err := r.ten(ctx)
	if err != nil {
		return grower{}, err
	}
	api, accounts := r.api, 0
	grow := func(ctx context.Context, from, to int) error {
		for n := max(from, busy); n < to; {
			if n%perAccount == 0 {
				accounts++
				if api, _, err = r.api.NewAccount(ctx, fmt.Sprintf("bench-%d", accounts)); err != nil {
					return err
				}
			}
			more := min(to-n, perAccount-n%perAccount)
			if _, err := r.register(ctx, api, n, more, kindIdle, client.Webhook{}); err != nil {
				return err
			}
			n += more
		}
		return nil
	}
	return grower{grow: grow, phase: func(int) phase { return p }}, nil
}

// growFanout has every webhook get every event; there are the fewer events the more
// webhooks there are.
func growFanout(_ context.Context, r *rig) (grower, error) {
	secrets := make(map[int]string)
	grow := func(ctx context.Context, from, to int) error {
		h, err := r.register(ctx, r.api, from, to-from, kindBusy, client.Webhook{})
		maps.Copy(secrets, h.secrets)
		return err
	}
	deliveries := int(20_000 * r.duration.Seconds())
	return grower{grow: grow, phase: func(n int) phase {
		return phase{
			job:      load.Job{Way: load.WayREST, Type: kindBusy, Connections: 64, Events: max(1, deliveries/n), For: r.duration},
			flock:    load.Flock{Name: "busy", To: n, Each: true},
			perEvent: n, secrets: secrets,
		}
	}}, nil
}

// growRetries has deliveries to another webhook fail, which wait for their retry for a day.
func growRetries(ctx context.Context, r *rig) (grower, error) {
	p, err := r.ten(ctx)
	if err != nil {
		return grower{}, err
	}
	if err := r.troubled(ctx); err != nil {
		return grower{}, err
	}
	return grower{
		grow:  func(ctx context.Context, from, to int) error { return r.schedule(ctx, to-from) },
		phase: func(int) phase { return p },
	}, nil
}

// trouble is the endpoint of the webhook whose deliveries fail or are held.
const trouble = busy

// failing: of so many POSTs to the troubled webhook one succeeds, so that its circuit
// stays closed: that opens after 20 failures in a row.
const failing = 10

// troubled registers the webhook whose deliveries fail.
func (r *rig) troubled(ctx context.Context) error {
	day := 24 * 60 * 60.0
	_, err := r.register(ctx, r.api, trouble, 1, kindTrouble, client.Webhook{
		RetryScheduleSeconds: []float64{day, day}, MaxInFlight: 256,
	})
	return err
}

// schedule has n deliveries to the troubled webhook fail once.
func (r *rig) schedule(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	events := (n*failing + failing - 2) / (failing - 1)
	f := load.Flock{Name: "troubled", From: trouble, To: trouble + 1, First: r.numbers(events), Events: events, OneIn: failing}
	if _, err := r.receiver.Receive(&load.Setup{Flocks: []load.Flock{f}}); err != nil {
		return err
	}
	if err := r.fill(load.Job{Type: kindTrouble, First: f.First, Events: events}); err != nil {
		return err
	}
	t, err := r.awaitTally(ctx, f.Name, func(t load.Tally) bool { return t.Refused+t.Unique >= int64(events) })
	if err != nil {
		return err
	}
	if t.Refused+t.Unique < int64(events) {
		return fmt.Errorf("of %d deliveries %d failed and %d succeeded", events, t.Refused, t.Unique)
	}
	return nil
}

// fill publishes as fast as it can be accepted.
func (r *rig) fill(j load.Job) error {
	j.Way = load.WayBatch
	j.Connections = cmp.Or(j.Connections, fillConnections)
	published, err := r.publisher.Publish(r.job(j))
	if err != nil {
		return err
	}
	if published.Refused > 0 {
		return fmt.Errorf("%d events were refused, the first with %s", published.Refused, published.Fault)
	}
	return nil
}

// growEvents stores events that nobody waits for.
func growEvents(ctx context.Context, r *rig) (grower, error) {
	p, err := r.ten(ctx)
	if err != nil {
		return grower{}, err
	}
	grow := func(_ context.Context, from, to int) error {
		return r.fill(load.Job{Type: kindIdle, Size: storedSize, First: r.numbers(to - from), Events: to - from})
	}
	return grower{grow: grow, phase: func(int) phase { return p }}, nil
}

// growAccounts makes accounts with one webhook each, as w has it, and has each publish in turn, at the rate given (0: as fast as
// they are accepted).
func growAccounts(w client.Webhook, rate float64) func(context.Context, *rig) (grower, error) {
	return func(_ context.Context, r *rig) (grower, error) {
		var keys []string
		secrets := make(map[int]string)
		grow := func(ctx context.Context, from, to int) error {
			made, hooks := make([]string, to-from), make([]hooks, to-from)
			err := each(ctx, to-from, func(ctx context.Context, i int) error {
				api, key, err := r.api.NewAccount(ctx, fmt.Sprintf("bench-%d", from+i))
				if err != nil {
					return err
				}
				made[i] = key
				hooks[i], err = r.register(ctx, api, from+i, 1, kindBusy, w)
				return err
			})
			for _, h := range hooks {
				maps.Copy(secrets, h.secrets)
			}
			keys = append(keys, made...)
			return err
		}
		return grower{grow: grow, phase: func(n int) phase {
			return phase{
				job:      load.Job{Way: load.WayREST, Type: kindBusy, Keys: keys, Rate: rate, Connections: 64, Events: scenario{}.events(r.options), For: r.duration},
				flock:    load.Flock{Name: "busy", To: n},
				perEvent: 1, secrets: secrets,
			}
		}}, nil
	}
}
