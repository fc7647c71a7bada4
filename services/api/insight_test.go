package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

type statistics struct {
	Step string           `json:"step"`
	Data []map[string]any `json:"data"`
}

func (r *rig) statistics(query string, tweaks ...tweak) statistics {
	r.t.Helper()
	var s statistics
	r.do(http.MethodGet, "/v1/statistics"+query, "", tweaks...).want(http.StatusOK).into(&s)
	for _, row := range s.Data {
		delete(row, "start")
		delete(row, "latencyMs")
	}
	return s
}

func TestStatistics(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		a, b := r.register(plainWebhook).text("id"), r.register(plainWebhook).text("id")
		for i := range 3 {
			r.publish(event(fmt.Sprint("e", i)))
		}
		r.publish(event("e0")) // a repeat
		r.deliver(a, "e0", domain.StatusRetrying, "")
		r.deliver(a, "e1", domain.StatusRetrying, "")
		r.outcome(b, "e2", func(o *domain.Outcome) {
			o.Status, o.Attempts, o.RunAttempts, o.Attempt = domain.StatusDelivered, 1, 1, attempt(1, 200)
		})
		second := r.secondAccount("second")

		row := func(of string, id any, events, attempts, succeeded float64) map[string]any {
			m := map[string]any{"deliveries": attempts, "attempts": attempts, "succeeded": succeeded, "failed": attempts - succeeded}
			if of != "" {
				m[of] = id
			}
			if events > 0 {
				m["events"] = events
			}
			return m
		}
		webhooks := []map[string]any{row("webhookId", a, 0, 2, 0), row("webhookId", b, 0, 1, 1)}
		if a > b {
			slices.Reverse(webhooks)
		}
		for query, want := range map[string][]map[string]any{
			"?step=day":                   {row("", nil, 3, 3, 1)},
			"?step=day&by=type":           {row("type", "shipment.created", 3, 3, 1)},
			"?step=day&by=class":          {row("class", "http_5xx", 0, 2, 0), row("class", "ok", 0, 1, 1)},
			"?step=day&by=webhook":        webhooks,
			"?step=day&webhookId=" + a:    {row("", nil, 0, 2, 0)},
			"?until=2026-01-01T00:00:00Z": {},
			"?step=minute&webhookId=" + "0190c0f0-0000-7000-8000-000000000000": {},
		} {
			if diff := cmp.Diff(want, r.statistics(query).Data); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
		r.do(http.MethodPost, "/v1/webhooks/"+a+"/test", "").want(http.StatusAccepted)
		if got := r.statistics("?step=day&by=type").Data[0]["events"]; got != 4.0 {
			t.Errorf("with a test, %v events, want 4", got)
		}
		if s := r.statistics(""); s.Step != "hour" || len(s.Data) == 0 {
			t.Errorf("without parameters: %+v", s)
		}
		whole := r.do(http.MethodGet, "/v1/statistics?step=day&webhookId="+a, "").want(http.StatusOK).items("data")[0]
		if latency, _ := whole["latencyMs"].(map[string]any); latency["p50"].(float64) < 115 || latency["p99"].(float64) > 125 {
			t.Errorf("latency %v of attempts of 120 ms", latency)
		}
		if got := r.statistics("?step=day&by=webhook", header("Authorization", "Bearer "+second)).Data; len(got) > 0 {
			t.Errorf("another account sees %v", got)
		}
		if got := r.statistics("?step=day&webhookId="+a, header("Authorization", "Bearer "+second)).Data; len(got) > 0 {
			t.Errorf("another account sees of a webhook %v", got)
		}
	})
}

func TestStatisticsRefuse(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		for query, parameter := range map[string]string{
			"?step=second":     "step",
			"?by=account":      "by",
			"?webhookId=mine":  "webhookId",
			"?since=yesterday": "since",
			"?since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z":             "until",
			"?step=minute&since=2026-01-01T00:00:00Z&until=2026-01-07T22:40:01Z": "step",
			"?limit=1": "limit",
		} {
			faults := r.do(http.MethodGet, "/v1/statistics"+query, "").want(http.StatusBadRequest).items("errors")
			if len(faults) != 1 || faults[0]["parameter"] != parameter {
				t.Errorf("%s: %v, want a fault of %s", query, faults, parameter)
			}
		}
		r.statistics("?step=minute&since=2026-01-01T00:00:00Z&until=2026-01-07T22:40:00Z") // 10,000 minutes
	})
}

func TestWebhookHealth(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		path := "/v1/webhooks/" + hook + "/health"
		health := func() map[string]any {
			t.Helper()
			return r.do(http.MethodGet, path, "").want(http.StatusOK).object()
		}
		noWindow := map[string]any{"attempts": 0., "succeeded": 0., "failed": 0., "successRate": nil, "latencyMs": nil, "classes": map[string]any{}}
		want := map[string]any{
			"webhookId": hook, "state": "idle", "circuit": map[string]any{"open": false, "failuresInARow": 0.},
			"windows": map[string]any{"1h": noWindow, "24h": noWindow, "7d": noWindow},
			"waiting": 0., "held": 0., "scheduled": 0., "answers": []any{},
		}
		if diff := cmp.Diff(want, health()); diff != "" {
			t.Errorf("a new webhook (-want +got):\n%s", diff)
		}

		for i := range 5 {
			r.publish(event(fmt.Sprint("e", i)))
		}
		undelivered := []domain.DeliveryID{
			r.deliver(hook, "e0", domain.StatusRetrying, ""),
			r.deliver(hook, "e1", domain.StatusHeld, domain.ReasonInactive),
			r.outcome(hook, "e2", func(o *domain.Outcome) { o.Status, o.Rev = domain.StatusPending, 1 }),
		}
		r.outcome(hook, "e3", func(o *domain.Outcome) {
			o.Status, o.Attempts, o.RunAttempts, o.Attempt = domain.StatusDelivered, 1, 1, attempt(1, 200)
		})
		r.do(http.MethodPost, "/v1/webhooks/"+hook+"/test", "").want(http.StatusAccepted)
		got := health()
		oldest, _ := got["oldestUndelivered"].(map[string]any)
		if oldest["deliveryId"] != string(slices.Min(undelivered)) || oldest["acceptedAt"] == nil {
			t.Errorf("oldest %v of %v", oldest, undelivered)
		}
		if got["state"] != "healthy" || got["waiting"] != 2. || got["held"] != 1. || got["scheduled"] != 1. {
			t.Errorf("with one delivery of each kind, and a test: %v", got)
		}
		for _, name := range []string{"1h", "24h", "7d"} {
			window, _ := got["windows"].(map[string]any)[name].(map[string]any)
			classes, _ := window["classes"].(map[string]any)
			if window["attempts"] != 3. || window["failed"] != 2. || classes["http_5xx"] != 2. || classes["ok"] != 1. {
				t.Errorf("window %s: %v", name, window)
			}
		}
		answers, _ := got["answers"].([]any)
		if len(answers) != 2 || got["lastSuccessAt"] == nil || got["lastFailureAt"] == nil {
			t.Errorf("answers %v, last times %v and %v", answers, got["lastSuccessAt"], got["lastFailureAt"])
		}

		now := time.Now().UTC().Truncate(time.Millisecond)
		say := func(c domain.Circuit) {
			t.Helper()
			c.SaidAt = time.Now()
			batch := domain.RecordBatch{Health: []domain.HealthChange{{Webhook: domain.WebhookID(hook), FailingSince: now, Circuit: &c, At: c.SaidAt}}}
			if _, err := r.store.Record(t.Context(), []domain.RecordBatch{batch}); err != nil {
				t.Fatal(err)
			}
		}
		failed := &domain.Answer{At: now.Add(time.Second), Status: 503, Class: domain.Class5xx, Body: "busy"}
		for _, step := range []struct {
			said  domain.Circuit
			state string
		}{
			{domain.Circuit{Failures: 4, FailingSince: now, Last: failed}, "healthy"},
			{domain.Circuit{Failures: 5, FailingSince: now}, "failing"},
			{domain.Circuit{Failures: 20, FailingSince: now, OpenSince: now, NextProbeAt: now.Add(time.Minute)}, "circuitOpen"},
		} {
			say(step.said)
			if got = health(); got["state"] != step.state || got["circuit"].(map[string]any)["failuresInARow"] != float64(step.said.Failures) {
				t.Errorf("after %d failures: %v, %v", step.said.Failures, got["state"], got["circuit"])
			}
		}
		if c := got["circuit"].(map[string]any); c["open"] != true || c["since"] == nil || c["nextProbeAt"] == nil {
			t.Errorf("an open circuit: %v", c)
		}
		inactive, err := time.Parse(time.RFC3339, fmt.Sprint(got["inactiveFrom"]))
		if err != nil || !inactive.Equal(now.Add(120*time.Hour)) {
			t.Errorf("inactive from %v, %v, want 120 h after %v", got["inactiveFrom"], err, now)
		}
		newest, _ := got["answers"].([]any)[0].(map[string]any)
		if len(got["answers"].([]any)) != 3 || newest["statusCode"] != 503. || newest["class"] != "http_5xx" || newest["body"] != "busy" {
			t.Errorf("answers: %v", got["answers"])
		}
		r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"delivery":"pull"}`).want(http.StatusOK)
		if got = health(); got["inactiveFrom"] != nil {
			t.Errorf("nothing is sent to it: inactive from %v", got["inactiveFrom"])
		}
		r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"delivery":"push","active":false}`).want(http.StatusOK)
		if got = health(); got["state"] != "inactive" || got["inactiveFrom"] != nil {
			t.Errorf("an inactive webhook: %v, %v", got["state"], got["inactiveFrom"])
		}
		second := r.secondAccount("second")
		r.do(http.MethodGet, path, "", header("Authorization", "Bearer "+second)).want(http.StatusNotFound)
	})
}

// The health in lists and of one webhook is the same, by which a webhook that fails too often is degraded
// though its last attempt succeeded. What is troubled can be listed alone. Others see none of it.
func TestHealthInLists(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		good, bad, open, idle := r.register(plainWebhook).text("id"), r.register(plainWebhook).text("id"), r.register(plainWebhook).text("id"), r.register(plainWebhook).text("id")
		off := r.register(`{"url":"http://127.0.0.1:9/","events":["shipment.created"],"active":false}`).text("id")
		now := time.Now().UTC().Truncate(time.Millisecond)
		failed := &domain.Answer{At: now, Status: 503, Class: domain.Class5xx, Body: "busy"}
		r.circuit(bad, domain.Circuit{SaidAt: now, Last: failed})
		r.circuit(open, domain.Circuit{OpenSince: now, Failures: 31, FailingSince: now, SaidAt: now, Last: failed})
		for i := range 20 {
			name := fmt.Sprint("e", i)
			r.publish(event(name))
			for _, id := range []string{good, bad} {
				r.outcome(id, name, func(o *domain.Outcome) {
					o.Status, o.Attempts, o.RunAttempts, o.Attempt = domain.StatusDelivered, 1, 1, attempt(1, 200)
					if id == bad && i < 2 {
						o.Status, o.NextAttemptAt, o.Attempt = domain.StatusRetrying, now.Add(time.Hour), attempt(1, 503)
					}
				})
			}
		}
		type listed struct {
			ID     string         `json:"id"`
			Health map[string]any `json:"health"`
		}
		list := func(query string, tweaks ...tweak) map[string]map[string]any {
			t.Helper()
			var all []listed
			r.do(http.MethodGet, "/v1/webhooks"+query, "", tweaks...).want(http.StatusOK).into(&all)
			found := map[string]map[string]any{}
			for _, w := range all {
				found[w.ID] = w.Health
			}
			return found
		}
		want := map[string]string{good: "healthy", bad: "degraded", open: "circuitOpen", idle: "idle", off: "inactive"}
		found := list("?include=health")
		for id, state := range want {
			one := r.do(http.MethodGet, "/v1/webhooks/"+id+"/health", "").want(http.StatusOK).object()
			var w listed
			r.do(http.MethodGet, "/v1/webhooks/"+id+"?include=health", "").want(http.StatusOK).into(&w)
			alone := strings.Replace(state, "degraded", "healthy", 1)
			if found[id]["state"] != state || one["state"] != alone || w.Health["state"] != state {
				t.Errorf("want %s: in the list %v, alone %v, with the webhook %v", state, found[id]["state"], one["state"], w.Health["state"])
			}
			if one["degraded"] != w.Health["degraded"] || (one["degraded"] == true) != (state == "degraded") {
				t.Errorf("%s: degraded is %v alone, %v with the webhook", state, one["degraded"], w.Health["degraded"])
			}
			windows, _ := one["windows"].(map[string]any)
			hour, _ := found[id]["windows"].(map[string]any)
			if diff := cmp.Diff(windows["1h"], hour["1h"]); diff != "" || len(hour) != 1 {
				t.Errorf("%s: windows %v (-alone +in the list):\n%s", state, hour, diff)
			}
			for _, member := range []string{"waiting", "held", "scheduled", "oldestUndelivered", "circuit", "lastSuccessAt", "lastFailureAt", "problem", "degraded"} {
				if !cmp.Equal(one[member], found[id][member]) {
					t.Errorf("%s: %s is %v in the list and %v alone", state, member, found[id][member], one[member])
				}
			}
		}
		if n := found[bad]["scheduled"]; n != 2. {
			t.Errorf("%v are scheduled, want 2", n)
		}
		answers, _ := found[open]["answers"].([]any)
		if len(answers) != 1 || answers[0].(map[string]any)["body"] != "busy" {
			t.Errorf("answers %v", answers)
		}
		if got := list("?include=health&troubled=true"); len(got) != 3 || got[bad] == nil || got[open] == nil || got[off] == nil {
			t.Errorf("troubled are %v", got)
		}
		page := r.do(http.MethodGet, "/v1/webhooks?include=health&limit=2", "").want(http.StatusOK)
		if link := page.header.Get("Link"); page.header.Get("X-Total-Count") != "5" || !strings.Contains(link, "offset=2&include=health") {
			t.Errorf("a page leads to %s", link)
		}
		if plain := list(""); len(plain) != 5 || plain[bad] != nil {
			t.Errorf("without being asked for, health is there: %v", plain)
		}
		for _, query := range []string{"?include=secret", "?troubled=true", "?include=health&troubled=false"} {
			r.do(http.MethodGet, "/v1/webhooks"+query, "").want(http.StatusBadRequest)
		}
		second := r.secondAccount("second")
		if got := list("?include=health", as(second)); len(got) > 0 {
			t.Errorf("another account sees %v", got)
		}
		r.do(http.MethodGet, "/v1/webhooks/"+bad+"?include=health", "", as(second)).want(http.StatusNotFound)
	})
}
