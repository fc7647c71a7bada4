package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

// From a list to the reason of one delivery, and to all of them sent again: what the pages say is
// what the API says, and a form does what it says.
func TestConsoleDeliveries(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser().signIn(adminKey)
		b.get("/console/deliveries").want(t, http.StatusOK, "").has(t, "No deliveries yet", "waybill trigger")
		b.get("/console/problems").want(t, http.StatusOK, "").has(t, "No problems")
		b.get("/console/events").want(t, http.StatusOK, "").has(t, "No events yet")

		hook := r.register(plainWebhook).text("id")
		later := r.register(`{"url":"http://127.0.0.1:9/other","events":["shipment.delivered"]}`).text("id")
		r.do(http.MethodPost, "/v1/events", `{"id":"evt_page","type":"shipment.created","data":{"shipmentId":"shp_page","note":"<script>alert(1)</script>\u202e"}}`).want(http.StatusAccepted)
		id := string(r.deliver(hook, "evt_page", domain.StatusFailed, domain.ReasonExhausted))
		page := "/console/deliveries/" + id

		b.get("/console").want(t, http.StatusOK, "").has(t, "Failed for good", "schedule exhausted")
		b.get("/console/deliveries?status=failed").want(t, http.StatusOK, "").has(t, page, "schedule exhausted")
		b.get("/console/deliveries?status=delivered").want(t, http.StatusOK, "").has(t, "No delivery matches", "Clear the filter")
		b.get("/console/deliveries?since=nonsense").want(t, http.StatusBadRequest, "").has(t, "field-fault", "since")
		b.get("/console/deliveries?q="+id).want(t, http.StatusSeeOther, "/console/find?q="+id)
		b.get("/console/problems").want(t, http.StatusOK, "").has(t, page, "Send all again")

		p := b.get(page).want(t, http.StatusOK, "").has(t, "schedule exhausted", "Attempt 1", "500 Internal Server Error", "out of order", "shp_page", "/console/events/evt_page", "&lt;script&gt;", page+"/retry")
		if strings.Contains(p.body, "<script>alert") {
			t.Error("a payload is a part of the page")
		}
		b.get("/console/events/evt_page").want(t, http.StatusOK, "").has(t, page, "not registered for shipment.created")
		b.get("/console/events/evt_page/webhooks/"+later).want(t, http.StatusOK, "").has(t, "not subscribed", "not registered for shipment.created")
		b.get("/console/events/evt_page/webhooks/"+hook).want(t, http.StatusSeeOther, page)
		b.get("/console/shipments/shp_page").want(t, http.StatusOK, "").has(t, "evt_page", page)
		b.get("/console/shipments/none").want(t, http.StatusOK, "").has(t, "Nothing of this shipment")

		// One again, and back to where the form stood; a place elsewhere is not led to.
		b.post(page+"/retry", "back", "https://evil.example/console/").want(t, http.StatusSeeOther, page)
		b.get(page).want(t, http.StatusOK, "").has(t, "The delivery is sent again.", "pending")
		chosen := b.get("/console/deliveries/send-again/chosen?id="+id).want(t, http.StatusOK, "")
		chosen.has(t, "In flight, passed over")
	})
}

var jobPath = regexp.MustCompile(`^/console/jobs/[0-9a-f-]{36}$`)

// All that match are counted before they are sent, and the job shows how far it is.
func TestConsoleSendAgain(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		var ids []string
		for _, name := range []string{"a1", "a2", "a3"} {
			r.publish(event(name))
			status := domain.StatusFailed
			if name == "a3" {
				status = domain.StatusDelivered
			}
			ids = append(ids, string(r.deliver(hook, name, status, "")))
		}
		b := r.browser().signIn(adminKey)
		b.get("/console/jobs").want(t, http.StatusOK, "").has(t, "No jobs yet")
		b.get("/console/deliveries/send-again?webhookId="+hook).want(t, http.StatusOK, "").has(t, "Send 2 again", "waybill deliveries retry-all --dry-run --status=undelivered --webhook="+hook)
		b.get("/console/deliveries/send-again?status=all&webhookId="+hook).want(t, http.StatusOK, "").has(t, "Send 3 again", "1 were delivered")
		b.get("/console/deliveries/send-again?since=nonsense").want(t, http.StatusBadRequest, "").has(t, "since")
		if page := r.deliveries("?status=pending"); len(page.Data) != 0 {
			t.Fatalf("a preview has sent %d", len(page.Data))
		}
		started := b.post("/console/deliveries/send-again", "webhookId", hook, "status", "failed")
		at := started.header.Get("Location")
		if started.status != http.StatusSeeOther || !jobPath.MatchString(at) {
			t.Fatalf("answered %d to %q: %.500s", started.status, at, started.body)
		}
		b.get(at).want(t, http.StatusOK, "").has(t, "Sending 2 deliveries again.", "Retry of 2 deliveries", "<progress")
		b.get("/console/jobs").want(t, http.StatusOK, "").has(t, at)
		b.get(at+"/cancel").want(t, http.StatusOK, "").has(t, "Cancel this job?")
		b.post(at+"/cancel").want(t, http.StatusSeeOther, at)

		// By hand, some of a page.
		b.get("/console/deliveries/send-again/chosen?id="+ids[2]).want(t, http.StatusOK, "").has(t, "Send 1 again", "1 arrive a second time")
		b.post("/console/deliveries/send-again/chosen", "id", ids[2]).want(t, http.StatusSeeOther, "/console/deliveries")
		b.get("/console/deliveries").want(t, http.StatusOK, "").has(t, "1 sent again.")

		_, reader := r.holder(r.bucket("readers"), "reader", domain.ScopeEventsRead)
		other := r.browser().signIn(reader)
		if list := other.get("/console/deliveries").want(t, http.StatusOK, ""); strings.Contains(list.body, "send-again?") {
			t.Error("the page offers what the key may not do")
		}
		other.get("/console/deliveries/send-again").want(t, http.StatusForbidden, "").has(t, "events:write")
		other.post("/console/deliveries/send-again", "status", "failed").want(t, http.StatusForbidden, "")
	})
}

// What is typed comes back with its faults; what is accepted leads to its page.
func TestConsolePublish(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	b.get("/console/publish?type=shipment.exception").want(t, http.StatusOK, "").has(t, "customs_delay")
	b.post("/console/publish", "type", "shipment.created", "data", "{").want(t, http.StatusBadRequest, "").has(t, "must be JSON")
	b.post("/console/publish", "type", "shipment.created", "data", `{"a":1}`).want(t, http.StatusBadRequest, "").has(t, "field-fault", "&#34;a&#34;:1")
	b.post("/console/publish", "type", "shipment.created", "id", "evt_typed", "data", `{"shipmentId":"x"}`).want(t, http.StatusSeeOther, "/console/events/evt_typed")
	b.post("/console/publish", "type", "shipment.created", "id", "evt_typed", "data", `{"shipmentId":"x"}`).want(t, http.StatusSeeOther, "/console/events/evt_typed")
	b.get("/console/events/evt_typed").want(t, http.StatusOK, "").has(t, "accepted before")
	b.get("/console/publish?from=evt_typed").want(t, http.StatusOK, "").has(t, "&#34;shipmentId&#34;: &#34;x&#34;")
}
