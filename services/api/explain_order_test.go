package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

// What waits in the order of its shipment names the delivery that it waits for, of its own
// shipment and webhook, and shows its number; the log finds it by the reason.
func TestBehindShipment(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const ordered = `{"url":"http://127.0.0.1:9/canary","events":["shipment.created"],"ordering":"shipment","orderingMaxWaitSeconds":90}`
		hook, other := r.register(ordered).text("id"), r.register(ordered).text("id")
		next := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		record := func(webhook, name, shipment string, sequence int64, set func(*domain.Outcome)) string {
			r.publish(strings.Replace(event(name), "s-"+name, shipment, 1))
			return string(r.outcome(webhook, name, func(o *domain.Outcome) {
				o.Sequence, o.Shipment = sequence, domain.ShipmentKey("default", shipment)
				set(o)
			}))
		}
		retrying := func(o *domain.Outcome) {
			o.Status, o.Attempts, o.NextAttemptAt, o.Attempt = domain.StatusRetrying, 1, next, attempt(1, 503)
		}
		waits := func(o *domain.Outcome) { o.Status, o.Reason = domain.StatusPending, domain.ReasonBehindShipment }
		done := func(o *domain.Outcome) { o.Status, o.Attempts, o.Attempt = domain.StatusDelivered, 1, attempt(1, 204) }

		record(hook, "evt_1", "SH-1", 1, done)
		head := record(hook, "evt_2", "SH-1", 2, retrying)
		second := record(hook, "evt_3", "SH-1", 3, waits)
		third := record(hook, "evt_4", "SH-1", 4, waits)
		record(hook, "evt_5", "SH-2", 1, retrying)  // of another shipment
		record(other, "evt_6", "SH-1", 1, retrying) // of another webhook
		alone := record(hook, "evt_7", "SH-3", 2, waits)

		explain := func(id string) answer {
			return r.do(http.MethodGet, "/v1/explanations?deliveryId="+id, "").want(http.StatusOK)
		}
		for _, id := range []string{second, third} {
			a := explain(id)
			for _, text := range []string{
				`"verdict":"behindShipment"`, `"check":"order","result":"waiting"`, `"waitsFor":"` + head + `"`, `"since":"`,
				"delivery " + head + ", which is retrying after 1 attempts, tried again at " + next.Format("2006-01-02T15:04:05.000Z"), "After 90 s",
			} {
				if !strings.Contains(string(a.body), text) {
					t.Errorf("%s: without %q\n%s", id, text, a.body)
				}
			}
		}
		if a := explain(alone); a.text("verdict") != "behindShipment" || strings.Contains(string(a.body), "waitsFor") {
			t.Errorf("what it waited for is done: %s", a.body)
		}
		if got := fmt.Sprint(r.do(http.MethodGet, "/v1/deliveries/"+third, "").want(200).object()["sequence"]); got != "4" {
			t.Errorf("sequence %s", got)
		}
		list := r.do(http.MethodGet, "/v1/deliveries?reason=behindShipment&webhookId="+hook, "").want(200)
		if n := strings.Count(string(list.body), `"reason":"behindShipment"`); n != 3 || strings.Count(string(list.body), `"sequence":`) != 3 {
			t.Errorf("deliveries that wait: %s", list.body)
		}
		plain := r.register(plainWebhook).text("id")
		r.publish(event("evt_8"))
		d := r.do(http.MethodGet, "/v1/deliveries/"+string(r.outcome(plain, "evt_8", done)), "").want(200)
		if _, shown := d.object()["sequence"]; shown {
			t.Errorf("a delivery without order has a sequence: %s", d.body)
		}
		// Who may not see webhooks is not told how long it waits at most.
		_, reader := r.holder(r.bucket("readers"), "reader", domain.ScopeEventsRead)
		told := r.do(http.MethodGet, "/v1/explanations?deliveryId="+second, "", as(reader)).want(http.StatusOK)
		if strings.Contains(string(told.body), "After 90") || told.text("verdict") != "behindShipment" {
			t.Errorf("a reader is told %s", told.body)
		}
		stranger := r.secondAccount("second")
		r.do(http.MethodGet, "/v1/deliveries/"+second, "", as(stranger)).want(http.StatusNotFound)
	})
}
