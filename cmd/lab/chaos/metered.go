package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// partners is the bucket of the consumer whose deliveries are counted.
const partners = "/v1/accounts/default/key-buckets/partners"

// metered kills dispatchers below webhooks of a consumer whose plan counts deliveries. Each delivery that is
// in the log as delivered must be counted once, however often it was sent and recorded.
func metered(ctx context.Context, b *bench) error {
	f, err := b.bare(ctx, split, stack.Options{})
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.receiveAsConsumer(ctx); err != nil {
		return err
	}
	f.load.start(ctx, b.rate, b.busRate)
	if err := f.killInTurns(ctx, dispatcherInTurn); err != nil {
		return err
	}
	if err := f.finish(ctx); err != nil {
		return err
	}
	return f.judgeMeter(ctx)
}

// receiveAsConsumer registers the receivers with the key of a consumer that has a plan.
func (f *field) receiveAsConsumer(ctx context.Context) error {
	var consumer struct{ APIKeys []struct{ Key string } }
	var plan struct{ ID string }
	for _, step := range []struct {
		method, path, body string
		into               any
	}{
		{http.MethodPost, "/v1/accounts/default/key-buckets", `{"name":"partners"}`, nil},
		{http.MethodPost, partners + "/consumers?with-api-key=true", `{"name":"acme","scopes":["webhooks:read","webhooks:write"]}`, &consumer},
		{http.MethodPost, partners + "/meters", `{"slug":"deliveries","aggregation":"COUNT","eventType":"webhook_deliveries"}`, nil},
		{http.MethodPost, partners + "/features", `{"key":"deliveries","name":"Deliveries","meterSlug":"deliveries"}`, nil},
		{http.MethodPost, partners + "/plans", `{"key":"large","name":"Large","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[
			{"type":"flat_fee","key":"deliveries","name":"Deliveries","featureKey":"deliveries","entitlementTemplate":{"type":"metered","issueAfterReset":1000000000}}]}]}`, &plan},
	} {
		if err := f.ask(ctx, step.method, step.path, step.body, step.into); err != nil {
			return err
		}
	}
	if err := f.ask(ctx, http.MethodPost, partners+"/plans/"+plan.ID+"/publish", "", nil); err != nil {
		return err
	}
	if err := f.ask(ctx, http.MethodPut, partners+"/consumers/acme/subscription", `{"planKey":"large"}`, nil); err != nil {
		return err
	}
	if len(consumer.APIKeys) != 1 {
		return fmt.Errorf("the consumer got %d keys", len(consumer.APIKeys))
	}
	operator := f.api
	f.api = operator.As(consumer.APIKeys[0].Key)
	defer func() { f.api = operator }()
	for i := range f.hooks {
		r, err := f.register(ctx, fmt.Sprintf("metered-%d", i+1), client.Webhook{MaxInFlight: 256, Events: domain.EventTypes()})
		if err != nil {
			return err
		}
		f.steady = append(f.steady, r)
	}
	return nil
}

// ask calls an operation that must work, and reads its answer, unless into is nil.
func (f *field) ask(ctx context.Context, method, path, body string, into any) error {
	answer, err := f.api.Do(ctx, method, path, []byte(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// judgeMeter compares what is counted with what the log has as delivered.
func (f *field) judgeMeter(ctx context.Context) error {
	delivered := 0
	if err := f.api.Deliveries(ctx, url.Values{"status": {"delivered"}}, func(client.Delivery) { delivered++ }); err != nil {
		return err
	}
	var answer struct{ Data []struct{ Value int } }
	if err := f.ask(ctx, http.MethodGet, partners+"/meters/deliveries/query", "", &answer); err != nil {
		return err
	}
	counted := 0
	for _, one := range answer.Data {
		counted += one.Value
	}
	f.report.figure("deliveries in the log", float64(delivered))
	f.report.figure("deliveries counted", float64(counted))
	f.report.must(counted == delivered && counted > 0, "%d deliveries are counted, and the log has %d", counted, delivered)
	return nil
}
