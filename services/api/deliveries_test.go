package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

type deliveryPage struct {
	Data       []map[string]any `json:"data"`
	NextCursor *string          `json:"nextCursor"`
}

func (r *rig) deliveries(query string) deliveryPage {
	r.t.Helper()
	var page deliveryPage
	r.do(http.MethodGet, "/v1/deliveries"+query, "").want(200).into(&page)
	return page
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		other := r.register(plainWebhook).text("id")
		for i := range 4 {
			r.publish(event(fmt.Sprint("e", i)))
		}
		failed := r.deliver(hook, "e0", domain.StatusFailed, domain.ReasonExhausted)
		r.deliver(hook, "e1", domain.StatusDelivered, "")
		r.deliver(hook, "e2", domain.StatusRetrying, "")
		r.deliver(other, "e0", domain.StatusHeld, domain.ReasonInactive)

		for query, want := range map[string]int{
			"": 4, "?webhookId=" + hook: 3, "?eventId=e0": 2, "?status=held": 1, "?status=pending": 0,
			"?webhookId=" + hook + "&status=failed": 1, "?until=2020-01-01T00:00:00Z": 0,
			"?since=2020-01-01T00:00:00Z": 4, "?eventType=shipment.created": 4, "?eventType=shipment.delivered": 0,
			"?shipmentId=s-e0": 2, "?shipmentId=s-e0&status=held": 1, "?shipmentId=s-": 0, "?reason=scheduleExhausted": 1,
			"?class=http_5xx": 3, "?class=timeout": 0, "?statusCode=500&webhookId=" + hook: 2, "?test=true": 0, "?test=false&status=held": 1,
		} {
			if got := len(r.deliveries(query).Data); got != want {
				t.Errorf("%s: %d deliveries, want %d", query, got, want)
			}
		}
		var seen []string
		for cursor := ""; ; {
			page := r.deliveries("?limit=3" + cursor)
			for _, d := range page.Data {
				seen = append(seen, fmt.Sprint(d["id"]))
			}
			if page.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
		}
		if len(seen) != 4 {
			t.Errorf("page by page: %v", seen)
		}

		one := r.do(http.MethodGet, "/v1/deliveries/"+string(failed), "").want(200)
		times := cmpopts.IgnoreMapEntries(func(name string, _ any) bool { return strings.HasSuffix(name, "At") && name != "nextAttemptAt" })
		want := map[string]any{
			"id": string(failed), "webhookId": hook, "eventId": "e0", "eventType": "shipment.created",
			"status": "failed", "reason": "scheduleExhausted", "attemptCount": 1., "nextAttemptAt": nil, "test": false,
			"class": "http_5xx", "statusCode": 500.,
			"attempts": []any{map[string]any{
				"number": 1., "durationMs": 120., "status": 500., "class": "http_5xx", "responseBody": "out of order", "responseBodyTruncated": true,
				"url": "https://receiver.example/hooks", "remoteAddress": "192.0.2.10:443", "phases": map[string]any{"firstByteMs": 76.25},
				"requestHeaders": fields(
					"Host", "receiver.example", "Content-Length", "9", "Content-Type", "application/json", "User-Agent", "Waybill/test",
					"webhook-id", "e0", "webhook-timestamp", nil, "webhook-signature", "v1,c2ln", "Waybill-Delivery-Id", string(failed),
					"Waybill-Attempt", "1", "X-Own", nil),
				"responseHeaders": fields("Server", "nginx", "Set-Cookie", nil),
			}},
		}
		got := one.object()
		sentAt(t, got)
		if diff := cmp.Diff(want, got, times); diff != "" {
			t.Errorf("delivery (-want +got):\n%s", diff)
		}
		e := r.do(http.MethodGet, "/v1/events/e0", "").want(200).object()
		if list, _ := e["deliveries"].([]any); len(list) != 2 {
			t.Errorf("the event's deliveries: %v", e["deliveries"])
		}
		r.do(http.MethodDelete, "/v1/webhooks/"+hook, "").want(204)
		if got := r.deliveries("?status=failed&webhookId=" + hook).Data; len(got) != 2 {
			t.Errorf("failed after the webhook was deleted: %v", got)
		}
	})
}

// fields returns the view of a header from names and values.
func fields(pairs ...any) []any {
	var list []any
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]any{"name": pairs[i], "value": pairs[i+1]})
	}
	return list
}

// sentAt checks the time in an attempt's header, which is that of its start, and takes it out.
func sentAt(t *testing.T, delivery map[string]any) {
	t.Helper()
	attempts, _ := delivery["attempts"].([]any)
	for _, one := range attempts {
		attempt, _ := one.(map[string]any)
		started, err := time.Parse(time.RFC3339, fmt.Sprint(attempt["startedAt"]))
		headers, _ := attempt["requestHeaders"].([]any)
		for _, header := range headers {
			if field, _ := header.(map[string]any); field["name"] == "webhook-timestamp" {
				if want := strconv.FormatInt(started.Unix(), 10); err != nil || field["value"] != want {
					t.Errorf("sent at %v, want %s", field["value"], want)
				}
				field["value"] = nil
			}
		}
	}
}

// due returns the tasks that became due, as the dispatchers will find them.
func (r *rig) due() map[domain.DeliveryID]*domain.Task {
	r.t.Helper()
	tasks := map[domain.DeliveryID]*domain.Task{}
	for _, m := range r.messages(bus.StreamRetries) {
		if !strings.HasPrefix(m.Subject, "d.") {
			continue
		}
		task, err := bus.ParseTask(m.Header, m.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		tasks[task.Delivery] = task
	}
	return tasks
}

func TestTestEvent(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(`{"url":"http://127.0.0.1:9/","events":["shipment.exception"],"active":false}`).text("id")
		wanted := map[domain.DeliveryID]string{}
		ask := func(body, kind string) {
			id := domain.DeliveryID(r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", body).want(202).text("deliveryId"))
			wanted[id] = kind
			if got := r.do(http.MethodGet, "/v1/deliveries/"+string(id), "").want(200).object(); got["status"] != "pending" || got["test"] != true {
				t.Errorf("at once: %v", got)
			}
		}
		ask("", "shipment.exception")
		for _, kind := range domain.EventTypes() {
			ask(fmt.Sprintf(`{"type":%q}`, kind), string(kind))
		}
		eventually(t, "the tests are due", func() bool { return len(r.due()) == len(wanted) })
		for id, task := range r.due() {
			body := string(task.Body)
			if !task.Test || task.Request == "" || string(task.EventType) != wanted[id] ||
				!strings.Contains(body, `"test":true`) || !strings.Contains(body, `"type":"`+wanted[id]+`"`) {
				t.Errorf("task %+v, body %s", task, body)
			}
			// A sample is an event that anybody may publish.
			r.publish(strings.Replace(body, `"evt_`, `"copy_`, 1))
		}
		if got := r.deliveries("?status=pending").Data; len(got) != len(wanted) {
			t.Errorf("%d are listed as pending, want %d", len(got), len(wanted))
		}
	})
}

// Data of one's own are sent byte for byte, and must be those of an event.
func TestTestWithOwnData(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		test := "/v1/webhooks/" + r.register(plainWebhook).text("id") + "/test"
		const own = `{"shipmentId":"shp_1",  "weightKg":12.50,"mine":[1e2]}`
		id := domain.DeliveryID(r.do(http.MethodPost, test, `{"type":"shipment.created","data":`+own+`}`).want(202).text("deliveryId"))
		eventually(t, "the test is due", func() bool {
			task := r.due()[id]
			return task != nil && strings.Contains(string(task.Body), `"data":`+own)
		})
		for data, says := range map[string]string{
			`{}`: "/data/shipmentId", `{"shipmentId":7}`: "/data/shipmentId", `[]`: "/data", `{"shipmentId":"x","note":"` + strings.Repeat("x", 1<<19) + `"}`: "TOO_LARGE",
		} {
			a := r.do(http.MethodPost, test, `{"data":`+data+`}`)
			if (a.status != http.StatusBadRequest && a.status != http.StatusRequestEntityTooLarge) || !strings.Contains(string(a.body), says) {
				t.Errorf("%.40s is answered with %d %.200s", data, a.status, a.body)
			}
		}
		if got := r.deliveries("?status=pending").Data; len(got) != 1 {
			t.Errorf("%d are listed as pending", len(got))
		}
	})
}

func TestRetryAndReplay(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		ids := map[string]domain.DeliveryID{}
		for name, status := range map[string]domain.Status{
			"f1": domain.StatusFailed, "f2": domain.StatusFailed, "ok": domain.StatusDelivered,
			"re": domain.StatusRetrying, "he": domain.StatusHeld,
		} {
			r.publish(event(name))
			ids[name] = r.deliver(hook, name, status, "")
		}
		retry := func(name string, status int) answer {
			t.Helper()
			return r.do(http.MethodPost, "/v1/deliveries/"+string(ids[name])+"/retry", "").want(status)
		}
		shown := retry("ok", 202).object()
		if shown["status"] != "pending" || shown["id"] != string(ids["ok"]) || shown["attemptCount"] != 1. {
			t.Errorf("retried: %v", shown)
		}
		if a := retry("ok", 409); a.text("code") != "CONFLICT" {
			t.Errorf("code %s", a.text("code"))
		}
		replay := func(body string, matched float64, reason string) {
			t.Helper()
			dry := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/replay", strings.Replace(body, "{", `{"dryRun":true,`, 1)).want(200).object()
			a := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/replay", body).want(202).object()
			if dry["reason"] != a["reason"] {
				t.Errorf("replay of %s: the reason of a dry run is %v, that of the job %v", body, dry["reason"], a["reason"])
			}
			if a["matched"] != matched || a["id"] == "" {
				t.Errorf("replay of %s: %v, want %v matched", body, a, matched)
			}
			if got, _ := a["reason"].(string); (got == "") != (reason == "") || !strings.Contains(got, reason) {
				t.Errorf("replay of %s: reason is %q, want %q", body, got, reason)
			}
		}
		replay(`{"since":"2020-01-01T00:00:00Z","until":"2020-01-02T00:00:00Z","status":"all"}`, 0, "No event that was accepted in this time range has a delivery")
		replay(fmt.Sprintf(`{"since":%q,"status":"failed"}`, since), 2, "")
		replay(fmt.Sprintf(`{"since":%q,"status":"failed"}`, since), 0,
			"3 in flight or already requested again; 1 held until the webhook is active; 1 waiting for their next attempt. With the status undelivered")
		replay(fmt.Sprintf(`{"since":%q}`, since), 1, "") // the one that retries
		replay(fmt.Sprintf(`{"since":%q}`, since), 0, "4 in flight or already requested again; 1 held")
		eventually(t, "four are due", func() bool { return len(r.due()) == 4 })
		due := r.due()
		for _, name := range []string{"f1", "f2", "ok", "re"} {
			task := due[ids[name]]
			if task == nil {
				t.Errorf("%s is not due", name)
				continue
			}
			if task.Attempts != 1 || task.RunAttempts != 0 || task.Rev != domain.FirstOutcome.NextRun() || task.Test {
				t.Errorf("%s: task %+v", name, task)
			}
			if want := strings.ReplaceAll(event(name), " ", ""); string(task.Body) != want {
				t.Errorf("%s: body %s, want %s", name, task.Body, want)
			}
		}
		retry("he", 202)
	})
}

func TestRejected(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	conn, err := nats.Connect(r.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream is there", func() bool { return r.do(http.MethodGet, "/v1/rejected", "").status == http.StatusOK })
	for i, body := range []string{"{", "\xff\xfe", "third"} {
		account := "default"
		if i == 2 {
			account = "stranger"
		}
		m := nats.NewMsg("rejected." + account)
		m.Data = []byte(body)
		m.Header.Set(bus.HeaderReason, fmt.Sprint("reason ", i))
		m.Header.Set(bus.HeaderSubject, "events."+account+".x")
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	ignoreTime := cmpopts.IgnoreMapEntries(func(name string, _ any) bool { return name == "time" })
	first := map[string]any{"subject": "events.default.x", "reason": "reason 0", "body": "{", "bodyEncoding": "text"}
	second := map[string]any{
		"subject": "events.default.x", "reason": "reason 1", "bodyEncoding": "base64",
		"body": base64.StdEncoding.EncodeToString([]byte("\xff\xfe")),
	}
	var page deliveryPage
	r.do(http.MethodGet, "/v1/rejected?limit=1", "").want(200).into(&page)
	if diff := cmp.Diff([]map[string]any{second}, page.Data, ignoreTime); diff != "" {
		t.Errorf("first page (-want +got):\n%s", diff)
	}
	if page.NextCursor == nil {
		t.Fatal("the first page has no cursor")
	}
	r.do(http.MethodGet, "/v1/rejected?cursor="+*page.NextCursor, "").want(200).into(&page)
	if diff := cmp.Diff([]map[string]any{first}, page.Data, ignoreTime); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	if page.NextCursor != nil {
		t.Errorf("the last page has the cursor %q", *page.NextCursor)
	}
	r.nats.Stop()
	a := r.do(http.MethodGet, "/v1/rejected", "").want(503)
	if a.header.Get("Retry-After") == "" {
		t.Errorf("without the bus there is no Retry-After: %v", a.header)
	}
	if detail := a.text("detail"); !strings.Contains(detail, "bus") {
		t.Errorf("without the bus the detail is %q", detail)
	}
}
