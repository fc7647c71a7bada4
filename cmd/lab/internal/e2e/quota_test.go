package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// partners is the bucket of the consumer with a quota.
const partners = bucketsOfDefault + "/partners"

// quota has a consumer use up what its plan allows, while a dispatcher is killed at work: each delivery
// that is in the log as delivered is counted once. The webhook is inactive then, says why, and goes on
// in order as soon as the plan allows more.
func quota(w *world) {
	partner := w.subscribed(40)
	endpoint, hook := w.registerAs(partner, "partner", func(h *client.Webhook) { h.MaxInFlight = 1 })
	endpoint.Behave(func(sink.Post) sink.Answer { return sink.Answer{Delay: 20 * time.Millisecond} })
	watcher, _ := w.register("watcher", forAlerts(nil))
	var told alertsGot
	watcher.Behave(told.note(answerWith(http.StatusOK)))
	w.known(2)
	ids := slices.Concat(w.killedAmidst(), w.publish(40))
	w.await("the quota is used up", patience, func() bool {
		h, err := w.api.Webhook(w.Context(), hook.ID)
		return err == nil && h.DisabledReason != nil && *h.DisabledReason == "quota"
	})
	// What waited in its hold queue already, because it was more than the webhook took, stays pending there.
	var by map[domain.Status]int
	counted := 0
	defer func() {
		if w.Failed() {
			w.Logf("of %d deliveries the log has %v, and %d are counted", len(ids), by, counted)
		}
	}()
	w.await("each delivery is delivered or waits, and each delivered one is counted", patience, func() bool {
		by, counted = w.byStatus(hook.ID), w.metered()
		return by["delivered"]+by["held"]+by["pending"] == len(ids) && counted == by["delivered"] && counted >= 40
	})
	w.await("somebody is told once", patience, func() bool {
		return cmp.Equal(map[domain.EventType]int{domain.WebhookDisabled: 1}, told.about(hook.ID))
	})
	later := w.publish(10)
	held := w.delivery(hook.ID, later[9], "held")
	w.explainedByQuota(held.ID)
	w.ask(partner, http.MethodPatch, "/v1/webhooks/"+hook.ID, `{"active":true}`, http.StatusConflict)
	w.plan("larger", 1000)
	all := slices.Concat(ids, later)
	w.arrived(endpoint, all)
	w.await("all are delivered, and each is counted", patience, func() bool {
		return w.byStatus(hook.ID)["delivered"] == len(all) && w.metered() == len(all)
	})
	order := slices.DeleteFunc(endpoint.Order(), func(id string) bool { return !slices.Contains(later, id) })
	if diff := cmp.Diff(later, order); diff != "" {
		w.Errorf("order of what came while it was inactive (-want +got):\n%s", diff)
	}
}

// subscribed makes a consumer with a plan of so many deliveries a month, and returns a client with its
// key.
func (w *world) subscribed(deliveries int) *stack.Client {
	w.Helper()
	w.ask(w.api, http.MethodPost, bucketsOfDefault, `{"name":"partners"}`, http.StatusCreated)
	made := w.ask(w.api, http.MethodPost, partners+"/consumers?with-api-key=true", `{"name":"acme","scopes":["webhooks:read","webhooks:write"]}`, http.StatusCreated)
	w.ask(w.api, http.MethodPost, partners+"/meters", `{"slug":"deliveries","aggregation":"COUNT","eventType":"webhook_deliveries"}`, http.StatusCreated)
	w.ask(w.api, http.MethodPost, partners+"/features", `{"key":"deliveries","name":"Deliveries","meterSlug":"deliveries"}`, http.StatusCreated)
	w.plan("basic", deliveries)
	return w.api.As(shownSecret.FindString(string(made.Body)))
}

// plan gives the consumer another plan.
func (w *world) plan(key string, deliveries int) {
	w.Helper()
	body := fmt.Sprintf(`{"key":%q,"name":"A plan","currency":"USD","billingCadence":"P1M","phases":[{"key":"only","name":"Only","rateCards":[
		{"type":"flat_fee","key":"deliveries","name":"Deliveries","featureKey":"deliveries","entitlementTemplate":{"type":"metered","issueAfterReset":%d}}]}]}`, key, deliveries)
	var made struct{ ID string }
	if err := json.Unmarshal(w.ask(w.api, http.MethodPost, partners+"/plans", body, http.StatusCreated).Body, &made); err != nil {
		w.Fatal(err)
	}
	w.ask(w.api, http.MethodPost, partners+"/plans/"+made.ID+"/publish", "", http.StatusOK)
	w.ask(w.api, http.MethodPut, partners+"/consumers/acme/subscription", `{"planKey":"`+key+`"}`, http.StatusOK)
}

// metered returns how many deliveries are counted.
func (w *world) metered() int {
	w.Helper()
	var answer struct{ Data []struct{ Value int } }
	if err := json.Unmarshal(w.ask(w.api, http.MethodGet, partners+"/meters/deliveries/query", "", http.StatusOK).Body, &answer); err != nil {
		w.Fatal(err)
	}
	sum := 0
	for _, one := range answer.Data {
		sum += one.Value
	}
	return sum
}

// byStatus returns how many deliveries of a webhook the log has in each status.
func (w *world) byStatus(webhook string) map[domain.Status]int {
	w.Helper()
	by := map[domain.Status]int{}
	if err := w.api.Deliveries(w.Context(), url.Values{"webhookId": {webhook}}, func(d client.Delivery) { by[d.Status]++ }); err != nil {
		w.Fatal(err)
	}
	return by
}

func (w *world) explainedByQuota(delivery string) {
	w.Helper()
	var why struct{ Verdict, Summary string }
	if err := json.Unmarshal(w.ask(w.api, http.MethodGet, explained+"?deliveryId="+delivery, "", http.StatusOK).Body, &why); err != nil || why.Verdict != "quota" {
		w.Errorf("a held delivery is explained by %+v (%v)", why, err)
	}
}
