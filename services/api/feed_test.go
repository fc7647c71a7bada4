package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

// feedPage is an answer of a feed.
type feedPage struct {
	Data []struct {
		ID string `json:"id"`
	} `json:"data"`
	Cursor string `json:"cursor"`
	Done   bool   `json:"done"`
}

func (p feedPage) ids() []string {
	var ids []string
	for _, e := range p.Data {
		ids = append(ids, e.ID)
	}
	return ids
}

func (r *rig) feed(webhook, query string, tweaks ...tweak) feedPage {
	r.t.Helper()
	var p feedPage
	r.insist(http.MethodGet, "/v1/webhooks/"+webhook+"/feed?"+query, "", tweaks...).want(http.StatusOK).into(&p)
	return p
}

// A receiver reads what the webhook is registered for, and names how far it has come.
func TestFeed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		push := r.register(`{"url":"https://example.com/","events":["shipment.created"]}`).text("id")
		w := r.register(`{"delivery":"pull","events":["shipment.created"]}`)
		pull := w.text("id")
		if w.object()["url"] != nil || w.text("delivery") != "pull" {
			t.Errorf("registered: %s", w.body)
		}
		first := r.feed(pull, "")
		if len(first.Data) > 0 || !first.Done || first.Cursor == "" {
			t.Errorf("at first: %+v", first)
		}
		r.publish("[" + event("c") + "," + event("a") + "," + event("b") + "]")
		r.publish(strings.Replace(event("x"), "shipment.created", "shipment.delivered", 1))
		for _, id := range []string{pull, push} {
			for _, after := range []string{"", first.Cursor} {
				if id == push && after != "" {
					continue
				}
				page := r.feed(id, "limit=2&after="+after)
				rest := r.feed(id, "after="+page.Cursor)
				if got := append(page.ids(), rest.ids()...); !slices.Equal(got, []string{"c", "a", "b"}) || page.Done || !rest.Done {
					t.Errorf("%v, done %t, then %t", got, page.Done, rest.Done)
				}
			}
		}
		body := r.insist(http.MethodGet, "/v1/webhooks/"+pull+"/feed", "").body
		if want := `{"data":[{"id":"c","type":"shipment.created","timestamp":"2026-01-02T03:04:05+01:00","data":{"shipmentId":"s-c","n":0.1000}},`; !strings.HasPrefix(string(body), want) {
			t.Errorf("not the bytes of a callback: %s", body)
		}

		cursor := r.feed(pull, "").Cursor
		path := "/v1/webhooks/" + pull + "/cursors/"
		r.insist(http.MethodPut, path+"warehouse", `{"cursor":"`+cursor+`"}`).want(http.StatusOK)
		if got := r.insist(http.MethodGet, path+"warehouse", "").want(http.StatusOK).text("cursor"); got != cursor {
			t.Errorf("cursor %s", got)
		}
		if got := r.insist(http.MethodGet, strings.TrimSuffix(path, "/"), "").want(http.StatusOK); !strings.Contains(string(got.body), `"name":"warehouse"`) {
			t.Errorf("cursors: %s", got.body)
		}
		r.insist(http.MethodGet, path+"nobody", "").want(http.StatusNotFound)
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{http.MethodPut, path + "A_B", `{"cursor":"` + cursor + `"}`, http.StatusBadRequest},
			{http.MethodPut, path + "a", `{"cursor":"` + cursor[1:] + `"}`, http.StatusBadRequest},
			{http.MethodPut, "/v1/webhooks/" + push + "/cursors/a", `{"cursor":"` + cursor + `"}`, http.StatusBadRequest},
			{http.MethodGet, "/v1/webhooks/" + push + "/feed?after=" + cursor, "", http.StatusBadRequest},
			{http.MethodGet, "/v1/webhooks/" + pull + "/feed?after=nonsense", "", http.StatusBadRequest},
			{http.MethodGet, "/v1/webhooks/" + pull + "/feed?limit=1001", "", http.StatusBadRequest},
			{http.MethodGet, "/v1/webhooks/" + pull + "/feed?wait=31", "", http.StatusBadRequest},
			{http.MethodPost, "/v1/webhooks/" + pull + "/test", "", http.StatusConflict},
			{http.MethodPost, "/v1/webhooks/" + pull + "/replay", `{"since":"2020-01-01T00:00:00Z"}`, http.StatusConflict},
			{http.MethodPost, "/v1/webhooks/" + pull + "/replay", `{"since":"2020-01-01T00:00:00Z","dryRun":true}`, http.StatusConflict},
			{http.MethodPatch, "/v1/webhooks/" + pull, `{"url":"https://example.com/"}`, http.StatusOK},
			{http.MethodPatch, "/v1/webhooks/" + pull, `{"delivery":"pull","url":null}`, http.StatusOK},
			{http.MethodPatch, "/v1/webhooks/" + pull, `{"url":"https://example.com/"}`, http.StatusOK},
			{http.MethodPatch, "/v1/webhooks/" + pull, `{"url":null}`, http.StatusOK},
			{http.MethodPatch, "/v1/webhooks/" + push, `{"url":null}`, http.StatusBadRequest},
			{http.MethodPatch, "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000", `{"url":null}`, http.StatusNotFound},
			{http.MethodPost, "/v1/webhooks", `{"url":null,"events":["shipment.created"]}`, http.StatusBadRequest},
			{http.MethodPatch, "/v1/webhooks/" + pull, `{"delivery":"push"}`, http.StatusBadRequest},
			{http.MethodPost, "/v1/webhooks", `{"events":["shipment.created"]}`, http.StatusBadRequest},
		} {
			r.insist(c.method, c.path, c.body).want(c.status)
		}

		// What was read is told by the cursors that are beyond it.
		r.publish(event("later"))
		for id, said := range map[string]string{"a": "warehouse", "later": "No cursor"} {
			why := r.insist(http.MethodGet, "/v1/explanations?"+url.Values{"eventId": {id}, "webhookId": {pull}}.Encode(), "").want(http.StatusOK)
			if why.text("verdict") != "pull" || !strings.Contains(string(why.body), said) {
				t.Errorf("%s: %s", id, why.body)
			}
		}
	})
}

// A key that only reads moves no reader's place, and who moves one is in the audit log.
func TestCursorsAreWritten(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		id := r.register(`{"delivery":"pull","events":["shipment.created"]}`).text("id")
		r.publish(event("a"))
		path, body := "/v1/webhooks/"+id+"/cursors/warehouse", `{"cursor":"`+r.feed(id, "").Cursor+`"}`
		bucket := r.bucket("readers")
		_, reader := r.holder(bucket, "reader", domain.ScopeEventsRead, domain.ScopeWebhooksRead)
		_, writer := r.holder(bucket, "writer", domain.ScopeWebhooksWrite)
		stranger := r.secondAccount("globex")
		r.insist(http.MethodPut, path, body, as(reader)).want(http.StatusForbidden)
		r.insist(http.MethodPut, path, body, as(stranger)).want(http.StatusNotFound)
		r.insist(http.MethodGet, path, "", as(reader)).want(http.StatusNotFound)
		r.insist(http.MethodPut, path, body, as(writer)).want(http.StatusOK)
		r.insist(http.MethodGet, path, "", as(reader)).want(http.StatusOK)

		entries := func(query string) []map[string]any {
			return r.insist(http.MethodGet, "/v1/accounts/default/audit-logs?action=set-cursor"+query, "").want(http.StatusOK).items("data")
		}
		eventually(t, "the refusal is in the audit log", func() bool { return len(entries("&success=false")) == 1 })
		made := entries("&success=true")
		if len(made) != 1 || !strings.Contains(fmt.Sprint(made[0]), "name:warehouse") {
			t.Errorf("in the audit log: %v", made)
		}
	})
}

// A request that waits is answered with the first event, without asking the database all the time.
func TestFeedWaits(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		id := r.register(`{"delivery":"pull","events":["shipment.created"]}`).text("id")
		cursor := r.feed(id, "").Cursor
		got := make(chan feedPage, 1)
		go func() { got <- r.feed(id, "wait=30&after="+url.QueryEscape(cursor)) }()
		select {
		case page := <-got:
			t.Fatalf("answered with nothing: %+v", page)
		case <-time.After(300 * time.Millisecond):
		}
		started := time.Now()
		r.publish(event("woken"))
		if page := <-got; !slices.Equal(page.ids(), []string{"woken"}) {
			t.Errorf("got %v", page.ids())
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		if page := r.feed(id, "wait=1&after="+r.feed(id, "").Cursor); len(page.Data) > 0 || !page.Done {
			t.Errorf("when the time is over: %+v", page)
		}
		// Who stops the process does not wait for those who wait.
		go func() { got <- r.feed(id, "wait=30&after="+r.feed(id, "").Cursor) }()
		select {
		case <-got:
			t.Fatal("answered with nothing")
		case <-time.After(300 * time.Millisecond):
		}
		r.service.EndStreams()
		if page := <-got; len(page.Data) > 0 {
			t.Errorf("got %v", page.ids())
		}
	})
}

// What is undelivered ends when a webhook is read by pull.
func TestPushToPull(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		w := r.register(`{"url":"https://example.com/","events":["shipment.created"]}`).text("id")
		r.publish(event("waiting"))
		delivery := r.deliver(w, "waiting", domain.StatusRetrying, domain.ReasonCircuitOpen)
		r.insist(http.MethodPatch, "/v1/webhooks/"+w, `{"delivery":"pull","url":null}`).want(http.StatusOK)
		d := r.insist(http.MethodGet, fmt.Sprintf("/v1/deliveries/%s", delivery), "").want(http.StatusOK)
		if d.text("status") != "failed" || d.text("reason") != "pull" {
			t.Errorf("delivery: %s", d.body)
		}
		if got := r.feed(w, "").ids(); !slices.Equal(got, []string{"waiting"}) {
			t.Errorf("feed: %v", got)
		}
		r.insist(http.MethodPost, fmt.Sprintf("/v1/deliveries/%s/retry", delivery), "").want(http.StatusConflict)
		many := r.insist(http.MethodPost, "/v1/deliveries/retry", fmt.Sprintf(`{"webhookId":%q}`, w)).want(http.StatusAccepted)
		if many.object()["matched"] != 0.0 {
			t.Errorf("a retry of many counts what nobody sends: %s", many.body)
		}
		why := r.insist(http.MethodGet, fmt.Sprintf("/v1/explanations?deliveryId=%s", delivery), "").want(http.StatusOK)
		if why.text("verdict") != "pull" {
			t.Errorf("explained: %s", why.body)
		}
		r.insist(http.MethodPatch, "/v1/webhooks/"+w, `{"delivery":"push","url":"https://example.com/"}`).want(http.StatusOK)
	})
}
