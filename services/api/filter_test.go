package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

// A webhook's filter is shown as it was given, replaced and taken away; what is wrong with one is
// told with its place.
func TestFilterOfWebhook(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const wanted = `{"data.shipmentId":{"$in":["a",1e2]}}`
		a := r.register(`{"url":"http://127.0.0.1:9/hook","events":["shipment.created"],"filter":` + wanted + `}`)
		hook := "/v1/webhooks/" + a.text("id")
		for _, answer := range []answer{a, r.do(http.MethodGet, hook, ""), r.do(http.MethodPatch, hook, `{"description":"x"}`)} {
			if !strings.Contains(string(answer.body), `"filter":`+wanted) {
				t.Errorf("%s: %s", answer.call, answer.body)
			}
		}
		for body, want := range map[string]string{
			`{"filter":{"data.a":{"$regex":"x"},"id":1}}`:                                                `"/filter/data.a/$regex"`,
			`{"filter":{"data.x/y":{"$gt":true}}}`:                                                       `"/filter/data.x~1y/$gt"`,
			`{"filter":[]}`:                                                                              `{"pointer":"/filter","detail":"must be an object"}`,
			`{"filter":{"data.a":"` + strings.Repeat("x", 8<<10) + `"}}`:                                 `{"pointer":"/filter","detail":"must have at most 8192 bytes"}`,
			`{"filter":{"$or":[` + strings.Repeat(`{"data.a":1},`, 50) + `{"data.a":1}]}}`:               `"must have at most 50 clauses"`,
			`{"filter":` + strings.Repeat(`{"$not":`, 8) + `{"data.a":1}` + strings.Repeat(`}`, 8) + `}`: `nested deeper than 8 levels`,
		} {
			for _, call := range [][2]string{{http.MethodPatch, hook}, {http.MethodPost, hook + "/filter/test"}} {
				got := r.do(call[0], call[1], body).want(http.StatusBadRequest)
				if !strings.Contains(string(got.body), want) {
					t.Errorf("%s %.80s: %s", call[0], body, got.body)
				}
			}
		}
		r.do(http.MethodPatch, hook, `{"filter":{}}`).want(200).field("filter", map[string]any{})
		r.do(http.MethodPatch, hook, `{"filter":null}`).want(200).field("filter", nil)
	})
}

// trial is an answer to a trial of a filter.
type trial struct {
	Matched int `json:"matched"`
	Missed  int `json:"missed"`
	Samples []struct {
		EventID string  `json:"eventId"`
		Type    string  `json:"type"`
		Clause  string  `json:"clause"`
		Matched bool    `json:"matched"`
		Pointer *string `json:"pointer"`
	} `json:"samples"`
}

func (r *rig) try(hook, body string, tweaks ...tweak) (t trial) {
	r.t.Helper()
	r.do(http.MethodPost, "/v1/webhooks/"+hook+"/filter/test", body, tweaks...).want(http.StatusOK).into(&t)
	return t
}

// A filter is tried on the last events of the webhook's account and types: the stored one, or
// another, and nothing is sent.
func TestTryFilter(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(`{"url":"http://127.0.0.1:9/hook","events":["shipment.created","shipment.exception"]}`).text("id")
		var events []string
		for i := range 130 {
			kind := []domain.EventType{domain.ShipmentCreated, domain.ShipmentException, domain.ShipmentDelivered}[i%3]
			events = append(events, fmt.Sprintf(`{"id":"evt_%d","type":%q,"data":{"shipmentId":"s","n":%d}}`, i, kind, i))
		}
		r.publish("[" + strings.Join(events, ",") + "]")
		stranger := r.secondAccount("second")
		r.do(http.MethodPost, "/v1/events", event("evt_foreign"), as(stranger)).want(http.StatusAccepted)

		if got := r.try(hook, ``); got.Matched != 87 || got.Missed != 0 || len(got.Samples) != 50 {
			t.Errorf("without a filter: %d matched, %d missed, %d samples", got.Matched, got.Missed, len(got.Samples))
		}
		if got := r.try(hook, `{"lastEvents":4}`); got.Matched != 4 {
			t.Errorf("of the last 4: %+v", got)
		}
		got := r.try(hook, `{"filter":{"data.n":{"$gte":1e1,"$lt":120}},"lastEvents":1000}`)
		if got.Matched != 73 || got.Missed != 14 || len(got.Samples) != 64 {
			t.Errorf("another filter: %d matched, %d missed, %d samples", got.Matched, got.Missed, len(got.Samples))
		}
		for _, s := range got.Samples {
			if s.EventID == "" || s.Matched != (s.Clause == "") || s.Matched != (s.Pointer == nil) || s.Type == string(domain.ShipmentDelivered) {
				t.Errorf("sample: %+v", s)
			}
			if s.EventID == "evt_3" && (s.Clause != "data.n $gte 1e1" || *s.Pointer != "/data.n/$gte") {
				t.Errorf("sample: %+v", s)
			}
		}
		r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"filter":{"type":"shipment.exception"}}`).want(200)
		if got := r.try(hook, `{}`); got.Matched != 43 || got.Missed != 44 {
			t.Errorf("the stored filter: %d matched, %d missed", got.Matched, got.Missed)
		}
		if got := r.try(hook, `{"filter":null}`); got.Missed != 0 {
			t.Errorf("no filter instead of the stored one: %d missed", got.Missed)
		}

		path := "/v1/webhooks/" + hook + "/filter/test"
		r.do(http.MethodPost, path, `{}`, as(stranger)).want(http.StatusNotFound)
		for _, body := range []string{`{"lastEvents":0}`, `{"lastEvents":1001}`, `{"last":1}`} {
			r.do(http.MethodPost, path, body).want(http.StatusBadRequest)
		}
		r.do(http.MethodDelete, "/v1/webhooks/"+hook, "").want(http.StatusNoContent)
		r.do(http.MethodPost, path, `{}`).want(http.StatusNotFound)
	})
}

// What a filter keeps back is explained by the clause, to who may see webhooks.
func TestExplainedFilter(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	hook := r.register(`{"url":"http://127.0.0.1:9/hook","events":["shipment.created"],"filter":{"data.n":{"$gt":42424242}}}`).text("id")
	r.publish(event("evt_1"))
	query := "/v1/explanations?eventId=evt_1&webhookId=" + hook
	full := r.do(http.MethodGet, query, "").want(http.StatusOK)
	for _, want := range []string{`"verdict":"filtered"`, `"check":"filter","result":"stopped"`, `"clause":"data.n $gt 42424242","pointer":"/data.n/$gt"`, `"filter":{"data.n":{"$gt":42424242}}`} {
		if !strings.Contains(string(full.body), want) {
			t.Errorf("%s is not in %s", want, full.body)
		}
	}
	if strings.Contains(string(full.body), "may have been another") {
		t.Errorf("the webhook was not changed: %s", full.body)
	}
	_, reader := r.holder(r.bucket("readers"), "reader", domain.ScopeEventsRead)
	if some := r.do(http.MethodGet, query, "", as(reader)).want(http.StatusOK); some.text("verdict") != "filtered" || strings.Contains(string(some.body), "42424242") {
		t.Errorf("who may not see webhooks is told %s", some.body)
	}
	// The filter is the present one, and the explanation says so.
	r.publishedBefore("evt_2")
	r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"filter":{"data.n":5}}`).want(200)
	if e := r.explain("eventId=evt_2&webhookId=" + hook); e.Verdict != "filtered" || !strings.Contains(e.Summary, "its filter may have been another one then") {
		t.Errorf("explanation: %+v", e)
	}
	r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"filter":{"data.n":0.1}}`).want(200)
	if e := r.explain("eventId=evt_2&webhookId=" + hook); e.Verdict == "filtered" {
		t.Errorf("an event that matches: %+v", e)
	}
}

// A replay goes by the present filter, a retry of the same deliveries does not.
func TestReplayGoesByTheFilter(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		for i := range 4 {
			id := fmt.Sprintf("evt_%d", i)
			r.publish(fmt.Sprintf(`{"id":%q,"type":"shipment.created","data":{"shipmentId":"s","n":%d}}`, id, i))
			r.deliver(hook, id, domain.StatusFailed, domain.ReasonExhausted)
		}
		path, since := "/v1/webhooks/"+hook, `"since":"2026-01-01T00:00:00Z"`
		r.do(http.MethodPatch, path, `{"filter":{"data.n":{"$gt":7}}}`).want(200)
		none := r.do(http.MethodPost, path+"/replay", "{"+since+"}").want(http.StatusAccepted).field("matched", 0.)
		if !strings.Contains(none.text("reason"), "4 of them do not match the webhook's filter") {
			t.Errorf("reason: %s", none.body)
		}
		r.do(http.MethodPatch, path, `{"filter":{"data.n":{"$gte":2}}}`).want(200)
		r.do(http.MethodPost, path+"/replay", `{"dryRun":true,`+since+"}").want(http.StatusOK).field("matched", 2.)
		job := r.do(http.MethodPost, path+"/replay", "{"+since+"}").want(http.StatusAccepted).field("matched", 2.)
		if got := r.job(job.text("id")); got["sent"] != 2. {
			t.Errorf("the replay: %v", got)
		}
		// The others are left, and a retry sends them.
		r.do(http.MethodPost, "/v1/deliveries/retry", `{"webhookId":"`+hook+`"}`).want(http.StatusAccepted).field("matched", 2.)
	})
}
