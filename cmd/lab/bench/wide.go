package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
)

// wideEvery is how often an event goes to many webhooks.
const wideEvery = 2 * time.Second

// wide has ten webhooks get few events while now and then one goes to n others.
func wide(ctx context.Context, r *rig, n int, g *growth) error {
	healthy, err := r.ten(ctx)
	if err != nil {
		return err
	}
	if err := r.warm(ctx, healthy); err != nil {
		return err
	}
	if _, err := r.note(ctx, g, 0, "10 others at 100 events/s", r.steady(healthy)); err != nil {
		return err
	}
	h, err := r.register(ctx, r.api, trouble, n, kindTrouble, client.Webhook{})
	if err != nil {
		return err
	}
	return r.beside(ctx, h, n, healthy, g)
}

// beside publishes the wide events, each with few others after it.
func (r *rig) beside(ctx context.Context, h hooks, n int, healthy phase, g *growth) error {
	rounds := max(1, int(r.duration/wideEvery))
	p := r.steady(healthy)
	perRound := int(p.job.Rate * wideEvery.Seconds())
	p.flock.Events = rounds * perRound
	p.flock.First = r.numbers(p.flock.Events)
	far := load.Flock{Name: "wide", From: trouble, To: trouble + n, First: r.numbers(rounds), Events: rounds, Each: true}
	secrets := maps.Clone(h.secrets)
	maps.Copy(secrets, p.secrets)
	if _, err := r.receiver.Receive(&load.Setup{Flocks: []load.Flock{p.flock, far}, Secrets: secrets}); err != nil {
		return err
	}
	r.say("  an event to %d webhooks every %s", n, wideEvery)
	sampler := meter.Watch(ctx, r.own())
	defer sampler.Stop() //nolint:errcheck // an error is returned below, where it matters
	for i := range rounds {
		one := load.Job{Way: load.WayREST, Type: kindTrouble, Connections: 1, First: far.First + int64(i), Events: 1}
		if _, err := r.publisher.Publish(r.job(one)); err != nil {
			return err
		}
		few := p.job
		few.First, few.Events, few.For = p.flock.First+int64(i*perRound), perRound, 0
		if _, err := r.publisher.Publish(r.job(few)); err != nil {
			return err
		}
	}
	sides := []side{
		{p.flock.Name, "the others meanwhile", int64(p.flock.Events) * busy},
		{far.Name, fmt.Sprintf("an event every %s", wideEvery), int64(rounds) * int64(n)},
	}
	for _, s := range sides {
		if _, err := r.awaitArrivals(ctx, s.flock, s.want); err != nil {
			return err
		}
	}
	_, err := r.sides(g, n, sampler, sides...)
	return err
}
