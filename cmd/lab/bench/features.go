package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// countCase is a state of Waybill in which the cost of an event is counted.
type countCase struct {
	name    string
	prepare func(context.Context) error
	bus     bool // events come over NATS
	syncs   bool // syncs of the log are counted, too: that takes half a minute
}

// off ends the name of a case whose feature was switched off again. Then an event costs as much as without the feature.
const off = " off"

const countWithout = "REST"

// cases are all that is counted, one after the other in the same stack. Statistics are always on.
func (c *counter) cases() []countCase {
	nothing := func(context.Context) error { return nil }
	list := []countCase{
		{name: countWithout, prepare: nothing, syncs: c.stack.Postgres != nil},
		{name: "NATS", prepare: nothing, bus: true},
	}
	for _, f := range []struct {
		name    string
		on, off func(context.Context) error
	}{
		{"filter", c.change(`{"filter":{"data.status":"in_transit"}}`), c.change(`{"filter":null}`)},
		{"feed", c.another(client.Webhook{Delivery: "pull", Events: []domain.EventType{domain.ShipmentInTransit}}), c.deleteOther},
		{"alerts", c.another(client.Webhook{Events: domain.AlertTypes()}), c.deleteOther},
		{"metering", c.metered, c.plain},
		// Order is the last case, because the events of its account are numbered from then on.
		{"order", c.change(`{"ordering":"shipment"}`), c.change(`{"ordering":"none"}`)},
	} {
		list = append(list, countCase{name: f.name, prepare: f.on}, countCase{name: f.name + off, prepare: f.off})
	}
	return list
}

// expect has the receiver expect events at one endpoint.
func (c *counter) expect(hook client.Webhook, endpoint int) error {
	c.hook, c.arrivals = hook.ID, 0
	events := (len(c.cases()) + 1) * (aloneRounds*aloneEvents + manyEvents)
	c.next = c.numbers(events)
	flock := load.Flock{Name: countFlock, From: endpoint, To: endpoint + 1, Events: events, Each: true, First: c.next}
	_, err := c.receiver.Receive(&load.Setup{Flocks: []load.Flock{flock}, Secrets: map[int]string{endpoint: hook.Secret}})
	return err
}

// plain registers the webhook that gets all events with the bootstrap key.
func (c *counter) plain(ctx context.Context) error { return c.takeOver(ctx, c.api, 0) }

// takeOver registers a webhook for all events, and deletes the webhook that got them before.
func (c *counter) takeOver(ctx context.Context, as *stack.Client, endpoint int) error {
	if c.hook != "" {
		if err := c.api.Delete(ctx, c.hook); err != nil {
			return err
		}
	}
	hook, err := as.Register(ctx, client.Webhook{URL: fmt.Sprintf("http://%s/%d", c.address, endpoint), Events: []domain.EventType{domain.ShipmentInTransit}})
	if err != nil {
		return err
	}
	if c.want, err = c.recorded(ctx); err != nil {
		return err
	}
	return c.expect(hook, endpoint)
}

// change changes the webhook.
func (c *counter) change(body string) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.ask(ctx, http.MethodPatch, "/v1/webhooks/"+c.hook, body, nil)
	}
}

// another registers one more webhook, to which nothing is sent.
func (c *counter) another(hook client.Webhook) func(context.Context) error {
	return func(ctx context.Context) error {
		if hook.Delivery == "" {
			hook.URL = fmt.Sprintf("http://%s/1", c.address)
		}
		made, err := c.api.Register(ctx, hook)
		c.other = made.ID
		return err
	}
}

func (c *counter) deleteOther(ctx context.Context) error { return c.api.Delete(ctx, c.other) }

// countedQuota is a number of deliveries that is never reached.
const countedQuota = 1_000_000

// metered makes a consumer with a quota. From then on the webhook of that consumer gets all events.
func (c *counter) metered(ctx context.Context) error {
	const bucket = "/v1/accounts/default/key-buckets/partners"
	var made struct {
		APIKeys []struct{ Key string }
	}
	var plan struct{ ID string }
	for _, call := range []struct {
		method, path, body string
		into               any
	}{
		{http.MethodPost, "/v1/accounts/default/key-buckets", `{"name":"partners"}`, nil},
		{http.MethodPost, bucket + "/consumers?with-api-key=true", `{"name":"acme","scopes":["webhooks:read","webhooks:write"]}`, &made},
		{http.MethodPost, bucket + "/meters", `{"slug":"deliveries","aggregation":"COUNT","eventType":"webhook_deliveries"}`, nil},
		{http.MethodPost, bucket + "/features", `{"key":"deliveries","name":"Deliveries","meterSlug":"deliveries"}`, nil},
		{http.MethodPost, bucket + "/plans", fmt.Sprintf(`{"key":"basic","name":"A plan","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[
			{"type":"flat_fee","key":"deliveries","name":"Deliveries","featureKey":"deliveries","entitlementTemplate":{"type":"metered","issueAfterReset":%d}}]}]}`, countedQuota), &plan},
	} {
		if err := c.ask(ctx, call.method, call.path, call.body, call.into); err != nil {
			return err
		}
	}
	if err := c.ask(ctx, http.MethodPost, bucket+"/plans/"+plan.ID+"/publish", "", nil); err != nil {
		return err
	}
	if err := c.ask(ctx, http.MethodPut, bucket+"/consumers/acme/subscription", `{"planKey":"basic"}`, nil); err != nil {
		return err
	}
	if len(made.APIKeys) == 0 {
		return errors.New("the consumer has no key")
	}
	return c.takeOver(ctx, c.api.As(made.APIKeys[0].Key), 2)
}

// ask calls the API, and decodes the answer unless into is nil.
func (c *counter) ask(ctx context.Context, method, path, body string, into any) error {
	answer, err := c.api.Do(ctx, method, path, []byte(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
