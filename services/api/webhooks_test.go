package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

func TestWebhookLife(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		a := r.register(`{"url":"http://127.0.0.1:9/hook?token=1","events":["shipment.delivered","shipment.created"]}`)
		made := a.object()
		id, secret := a.text("id"), a.text("secret")
		if got := a.header.Get("Location"); got != "/v1/webhooks/"+id {
			t.Errorf("Location is %q", got)
		}
		if _, err := signature.ParseSecret(secret); err != nil {
			t.Errorf("secret: %v", err)
		}
		if got := a.header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control is %q", got)
		}
		want := map[string]any{
			"url": "http://127.0.0.1:9/hook?token=1", "events": []any{"shipment.delivered", "shipment.created"},
			"active": true, "disabledReason": nil, "description": "", "headerNames": []any{},
			"retryScheduleSeconds": []any{5., 300., 1800., 7200., 18000., 36000., 50400., 72000., 86400.},
			"timeoutSeconds":       15., "maxInFlight": 32., "ratePerSecond": nil, "signing": "v1", "ordering": "none", "orderingMaxWaitSeconds": 3600., "authType": nil, "filter": nil, "delivery": "push",
		}
		named := cmpopts.IgnoreMapEntries(func(name string, _ any) bool {
			return name == "id" || name == "secret" || name == "createdAt" || name == "updatedAt"
		})
		if diff := cmp.Diff(want, made, named); diff != "" {
			t.Errorf("registered (-want +got):\n%s", diff)
		}
		for _, name := range []string{"createdAt", "updatedAt"} {
			if at, err := time.Parse(time.RFC3339, a.text(name)); err != nil || time.Since(at) > time.Minute || !strings.HasSuffix(a.text(name), "Z") {
				t.Errorf("%s is %s", name, a.text(name))
			}
		}

		shown := r.do(http.MethodGet, "/v1/webhooks/"+id, "").want(200)
		delete(made, "secret")
		if diff := cmp.Diff(made, shown.object()); diff != "" {
			t.Errorf("shown (-registered +got):\n%s", diff)
		}

		// What was read can be sent back, as a change and as a registration.
		r.do(http.MethodPatch, "/v1/webhooks/"+id, string(shown.body)).want(200)
		twin := r.register(string(a.body))
		if twin.text("id") == id || twin.text("secret") != secret || twin.text("url") != a.text("url") {
			t.Errorf("registered again: %s", twin.body)
		}

		changed := r.do(http.MethodPatch, "/v1/webhooks/"+id, `{
			"description":"ä","headers":{"X-Key":"canary-header"},"retryScheduleSeconds":[],"timeoutSeconds":2.5,
			"maxInFlight":1,"ratePerSecond":0.5,"ordering":"shipment","orderingMaxWaitSeconds":0,"active":false,"events":["shipment.exception"]}`).want(200)
		want = map[string]any{
			"url": "http://127.0.0.1:9/hook?token=1", "events": []any{"shipment.exception"},
			"active": false, "disabledReason": "manual", "description": "ä", "headerNames": []any{"X-Key"},
			"retryScheduleSeconds": []any{}, "timeoutSeconds": 2.5, "maxInFlight": 1., "ratePerSecond": 0.5, "signing": "v1", "ordering": "shipment", "orderingMaxWaitSeconds": 0., "authType": nil, "filter": nil, "delivery": "push",
		}
		if diff := cmp.Diff(want, changed.object(), named); diff != "" {
			t.Errorf("changed (-want +got):\n%s", diff)
		}
		// An absent field stays; the rate alone can be taken away by null.
		changed = r.do(http.MethodPatch, "/v1/webhooks/"+id, `{"ratePerSecond":null,"ordering":null,"orderingMaxWaitSeconds":null,"active":true,"retryScheduleSeconds":[0.05]}`).want(200)
		want["ratePerSecond"], want["active"], want["disabledReason"], want["retryScheduleSeconds"] = nil, true, nil, []any{0.05}
		want["ordering"], want["orderingMaxWaitSeconds"] = "none", 3600.
		if diff := cmp.Diff(want, changed.object(), named); diff != "" {
			t.Errorf("changed again (-want +got):\n%s", diff)
		}

		r.do(http.MethodDelete, "/v1/webhooks/"+id, "").want(204)
		gone := r.do(http.MethodGet, "/v1/webhooks/"+id, "", header("X-Request-Id", "same")).want(404)
		never := r.do(http.MethodGet, "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000", "", header("X-Request-Id", "same")).want(404)
		never.body = []byte(strings.ReplaceAll(string(never.body), "0190c0f0-0000-7000-8000-000000000000", id))
		if diff := cmp.Diff(string(never.body), string(gone.body)); diff != "" {
			t.Errorf("a deleted webhook looks unlike one that never was:\n%s", diff)
		}
		for _, path := range []string{"", "/rotate-secret", "/test"} {
			method := http.MethodPost
			if path == "" {
				method = http.MethodDelete
			}
			r.do(method, "/v1/webhooks/"+id+path, "").want(404)
		}
		r.do(http.MethodPatch, "/v1/webhooks/"+id, `{}`).want(404)
		r.do(http.MethodPost, "/v1/webhooks/"+id+"/replay", `{"since":"2026-01-01T00:00:00Z"}`).want(404)
	})
}

func TestListWebhooks(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.register(plainWebhook).text("id"))
		}
		list := func(query string) ([]string, answer) {
			t.Helper()
			a := r.do(http.MethodGet, "/v1/webhooks"+query, "").want(200)
			var views []map[string]any
			a.into(&views)
			got := []string{}
			for _, v := range views {
				if _, shown := v["secret"]; shown {
					t.Error("a list shows secrets")
				}
				got = append(got, fmt.Sprint(v["id"]))
			}
			return got, a
		}
		all, a := list("")
		if diff := cmp.Diff(ids, all); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
		if a.header.Get("X-Total-Count") != "" || a.header.Get("Link") != "" {
			t.Errorf("paging is told without being asked for: %v", a.header)
		}
		page, a := list("?limit=2&offset=2")
		if diff := cmp.Diff(ids[2:4], page); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
		links := `</v1/webhooks?limit=2&offset=0>; rel="first", </v1/webhooks?limit=2&offset=0>; rel="prev", </v1/webhooks?limit=2&offset=4>; rel="next"`
		if a.header.Get("X-Total-Count") != "5" || a.header.Get("Link") != links {
			t.Errorf("count %q, links %q", a.header.Get("X-Total-Count"), a.header.Get("Link"))
		}
		if page, _ = list("?offset=4"); len(page) != 1 {
			t.Errorf("from 4 on: %v", page)
		}
		if page, _ = list("?offset=9"); len(page) != 0 {
			t.Errorf("from 9 on: %v", page)
		}
	})
}

func TestRotateSecret(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		a := r.register(plainWebhook)
		id, path := a.text("id"), "/v1/webhooks/"+a.text("id")+"/rotate-secret"
		secrets := func() []string {
			t.Helper()
			w, _, err := r.store.GetWebhook(t.Context(), domain.DefaultAccount, domain.WebhookID(id))
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, s := range w.Secrets(time.Now()) {
				texts = append(texts, s.Reveal())
			}
			return texts
		}
		rotate := func(body string, overlap time.Duration) string {
			t.Helper()
			a := r.do(http.MethodPost, path, body).want(200)
			expires, err := time.Parse(time.RFC3339, a.text("previousSecretExpiresAt"))
			if err != nil || time.Until(expires) > overlap || time.Until(expires) < overlap-time.Minute {
				t.Errorf("after %s the previous secret expires at %s", body, a.text("previousSecretExpiresAt"))
			}
			return a.text("secret")
		}
		first := a.text("secret")
		second := rotate("", 24*time.Hour)
		if diff := cmp.Diff([]string{second, first}, secrets()); diff != "" {
			t.Errorf("secrets (-want +got):\n%s", diff)
		}
		third := rotate(`{"overlapSeconds":60}`, time.Minute)
		if diff := cmp.Diff([]string{third, second}, secrets()); diff != "" {
			t.Errorf("secrets after rotating within the overlap (-want +got):\n%s", diff)
		}
		fourth := rotate(`{"overlapSeconds":0}`, 0)
		if diff := cmp.Diff([]string{fourth}, secrets()); diff != "" {
			t.Errorf("secrets without overlap (-want +got):\n%s", diff)
		}
	})
}

// The first answer is given again to the same key and body, its secret included.
func TestRegisterOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		var waiting sync.WaitGroup
		answers := map[string]int{}
		for range 20 {
			waiting.Go(func() {
				a := r.insist(http.MethodPost, "/v1/webhooks", plainWebhook, header("Idempotency-Key", "k1"))
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(a.status, a.header.Get("Location"), string(a.body))]++
			})
		}
		waiting.Wait()
		if len(answers) != 1 {
			t.Errorf("%d different answers: %v", len(answers), answers)
		}
		var views []any
		r.do(http.MethodGet, "/v1/webhooks", "").into(&views)
		if len(views) != 1 {
			t.Errorf("%d webhooks, want 1", len(views))
		}
		a := r.do(http.MethodPost, "/v1/webhooks", plainWebhook+" ", header("Idempotency-Key", "k1")).want(409)
		if a.text("code") != "CONFLICT" {
			t.Errorf("code %s", a.text("code"))
		}
		r.do(http.MethodPost, "/v1/webhooks", plainWebhook, header("Idempotency-Key", "k2")).want(201)
		// The same key on another path is another key.
		r.do(http.MethodPost, "/v1/events", event("once"), header("Idempotency-Key", "k1")).want(202)
	})
}

// No secret of any kind is in a log at any level, nor in a metric.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		a := r.register(`{"url":"http://127.0.0.1:9/hook?token=canary-url","events":["shipment.created"],"headers":{"X-Key":"canary-header"}}`)
		secret, id := a.text("secret"), a.text("id")
		r.do(http.MethodPatch, "/v1/webhooks/"+id, `{"headers":{"X-Key":"canary-header2","Host":"canary-host"}}`).want(400)
		rotated := r.do(http.MethodPost, "/v1/webhooks/"+id+"/rotate-secret", "").want(200).text("secret")
		r.do(http.MethodPost, "/v1/events", event("canary-event")).want(202)
		r.do(http.MethodGet, "/v1/webhooks?key=canary-query", "").want(400)
		r.do(http.MethodPost, "/v1/webhooks/"+id+"/test", "").want(202)
		shown := string(r.do(http.MethodGet, "/v1/webhooks", "").want(200).body)
		families, err := r.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		logs := r.logs.String()
		for name, text := range map[string]string{"logs": logs, "metrics": fmt.Sprint(families)} {
			for _, hidden := range []string{secret, rotated, adminKey, "canary", id} {
				if strings.Contains(text, hidden) {
					t.Errorf("%s are in the %s", hidden, name)
				}
			}
		}
		for _, hidden := range []string{secret, rotated, adminKey, "canary-header"} {
			if strings.Contains(shown, hidden) {
				t.Errorf("%s is in the list", hidden)
			}
		}
		if !strings.Contains(logs, "/v1/webhooks/{id}/test") {
			t.Error("the requests are not in the log at all")
		}
	})
}

// Headers are write-only: a new url must not carry the old values to another server.
func TestHeadersStayWithTheirServer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		registered := r.register(`{"url":"https://Hooks.Example.com/a","events":["shipment.created"],"headers":{"Authorization":"Bearer canary"}}`)
		path := "/v1/webhooks/" + registered.text("id")
		_, writer := r.holder(r.bucket("writers"), "writer", domain.ScopeWebhooksWrite)
		kept := func() []string {
			t.Helper()
			w, _, err := r.store.GetWebhook(t.Context(), domain.DefaultAccount, domain.WebhookID(registered.text("id")))
			if err != nil {
				t.Fatal(err)
			}
			texts := []string{w.URL}
			for _, h := range w.Headers {
				texts = append(texts, h.Name+": "+h.Value.Reveal())
			}
			return texts
		}
		for _, elsewhere := range []string{
			"http://hooks.example.com/a", "https://hooks.example.com:8443/a", "https://hooks.example.org/a", "https://evil.example/a",
			"https://hooks.example.com.evil.example/", "https://hooks.example.com:80/a", "https://evil.example/hooks.example.com",
			"https://evil.example/?https://hooks.example.com/a", "https://hooks.example.com@evil.example/", "https://sub.hooks.example.com/a",
			"https://h\u00f6oks.example.com/a", "http://hooks.example.com:443/a",
		} {
			refused := r.do(http.MethodPatch, path, `{"url":"`+elsewhere+`","active":false}`, as(writer)).want(http.StatusBadRequest)
			if !strings.Contains(elsewhere, "@") && !strings.Contains(string(refused.body), `"pointer":"/headers"`) {
				t.Errorf("%s: %s", elsewhere, refused.body)
			}
			if diff := cmp.Diff([]string{"https://Hooks.Example.com/a", "Authorization: Bearer canary"}, kept()); diff != "" {
				t.Fatalf("after %s (-want +got):\n%s", elsewhere, diff)
			}
		}
		for _, same := range []string{
			"https://hooks.example.com:443/b?c=d", "HTTPS://HOOKS.EXAMPLE.COM/", "https://hooks.example.com./", "https://\uff28ooks.example.com/", "https://Hooks.Example.com/a",
		} {
			r.do(http.MethodPatch, path, `{"url":"`+same+`"}`, as(writer)).want(http.StatusOK)
			if got := kept(); len(got) != 2 || got[1] != "Authorization: Bearer canary" {
				t.Errorf("after %s: %q", same, got)
			}
		}
		r.do(http.MethodPatch, path, `{"url":"https://evil.example/","headers":{"X-Key":"new"}}`, as(writer)).want(http.StatusOK)
		if diff := cmp.Diff([]string{"https://evil.example/", "X-Key: new"}, kept()); diff != "" {
			t.Errorf("given anew (-want +got):\n%s", diff)
		}
		r.do(http.MethodPatch, path, `{"url":"https://hooks.example.com/","headers":{}}`, as(writer)).want(http.StatusOK)
		if diff := cmp.Diff([]string{"https://hooks.example.com/"}, kept()); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		// Without stored headers there is nothing to give anew.
		r.do(http.MethodPatch, path, `{"url":"https://elsewhere.example/"}`, as(writer)).want(http.StatusOK)
	})
}
