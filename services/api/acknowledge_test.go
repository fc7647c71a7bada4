package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

// An acknowledged problem is quiet until its cause changes, or it begins anew; a muted one until a time. The log
// says who, and others find no webhook.
func TestAcknowledgedProblems(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		path := "/v1/webhooks/" + hook + "/acknowledgement"
		began := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Minute)
		said := began
		fails := func(since time.Time, class domain.Class) {
			t.Helper()
			said = said.Add(time.Second)
			c := domain.Circuit{Failures: 7, FailingSince: since, SaidAt: said, Last: &domain.Answer{At: said, Class: class}}
			batch := domain.RecordBatch{Health: []domain.HealthChange{{Webhook: domain.WebhookID(hook), FailingSince: since, Circuit: &c, At: said}}}
			if _, err := r.store.Record(t.Context(), []domain.RecordBatch{batch}); err != nil {
				t.Fatal(err)
			}
		}
		problem := func() map[string]any {
			t.Helper()
			health, _ := r.do(http.MethodGet, "/v1/webhooks/"+hook+"?include=health", "").want(http.StatusOK).object()["health"].(map[string]any)
			found, _ := health["problem"].(map[string]any)
			alone, _ := r.do(http.MethodGet, "/v1/webhooks/"+hook+"/health", "").want(http.StatusOK).object()["problem"].(map[string]any)
			if fmt.Sprint(found) != fmt.Sprint(alone) {
				t.Errorf("with the webhook %v, alone %v", found, alone)
			}
			return found
		}
		quiet := func(when string, cause domain.Class, want bool) {
			t.Helper()
			if got := problem(); got["cause"] != string(cause) || got["quiet"] != want || got["since"] == nil {
				t.Errorf("%s: %v, want %s, quiet %v", when, got, cause, want)
			}
		}
		if got := problem(); got != nil {
			t.Errorf("a webhook without attempts has %v", got)
		}
		r.do(http.MethodPut, path, "").want(http.StatusConflict)
		r.do(http.MethodDelete, path, "").want(http.StatusNotFound)

		fails(began, domain.Class5xx)
		quiet("failing", domain.Class5xx, false)
		second := header("Authorization", "Bearer "+r.secondAccount("second"))
		r.do(http.MethodPut, path, "", second).want(http.StatusNotFound)
		r.do(http.MethodDelete, path, "", second).want(http.StatusNotFound)
		quiet("after another account's try", domain.Class5xx, false)
		made := r.do(http.MethodPut, path, "").want(http.StatusOK).object()
		quiet("acknowledged", domain.Class5xx, true)
		if got, _ := problem()["acknowledgement"].(map[string]any); fmt.Sprint(got) != fmt.Sprint(made) || got["by"] == "" || got["at"] == nil || got["mutedUntil"] != nil {
			t.Errorf("acknowledgement %v, answered was %v", got, made)
		}
		r.do(http.MethodDelete, path, "", second).want(http.StatusNotFound)
		fails(began, domain.ClassTimeout)
		quiet("of another cause", domain.ClassTimeout, false)
		fails(began, domain.Class5xx)
		quiet("of the same cause again", domain.Class5xx, true)
		fails(time.Now().Add(time.Second), domain.Class5xx)
		quiet("failing anew", domain.Class5xx, false)

		for _, bad := range []string{`{"mutedUntil":"2020-01-01T00:00:00Z"}`, `{"mutedUntil":"2099-01-01T00:00:00Z"}`, `{"mutedUntil":null}`, `{"until":"2020-01-01T00:00:00Z"}`} {
			r.do(http.MethodPut, path, bad).want(http.StatusBadRequest)
		}
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		r.do(http.MethodPut, path, `{"mutedUntil":"`+until+`"}`).want(http.StatusOK)
		fails(time.Now().Add(2*time.Second), domain.ClassDNS)
		quiet("muted", domain.ClassDNS, true)
		r.do(http.MethodDelete, path, "").want(http.StatusNoContent)
		quiet("reopened", domain.ClassDNS, false)

		r.do(http.MethodPatch, "/v1/webhooks/"+hook, `{"active":false}`).want(http.StatusOK)
		quiet("inactive", domain.Class(domain.DisabledManual), false)
		r.do(http.MethodPut, path, "").want(http.StatusOK)
		quiet("known to be inactive", domain.Class(domain.DisabledManual), true)

		for action, count := range map[string]int{"acknowledge-problem": 3, "reopen-problem": 1} {
			entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?success=true&action="+action, "").want(http.StatusOK).items("data")
			if len(entries) != count {
				t.Errorf("%s: %d entries, want %d: %v", action, len(entries), count, entries)
			}
		}
	})
}

// The console acknowledges, mutes and shows again: what is quiet is folded away, and does not come first.
func TestConsoleAcknowledges(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		now := time.Now().UTC().Truncate(time.Millisecond)
		r.circuit(hook, domain.Circuit{OpenSince: now, Failures: 31, FailingSince: now, SaidAt: now, Last: &domain.Answer{At: now, Status: 503, Class: domain.Class5xx, Body: "busy"}})
		page := "/console/problems/" + hook
		b := r.browser().signIn(adminKey)
		b.get("/console/problems").want(t, http.StatusOK, "").has(t, "answers 503", "since ", page+"/acknowledge", "class=\"spark\"")
		b.get("/console").want(t, http.StatusOK, "").has(t, "What needs you first", "answers 503")
		other := r.browser().signIn(r.secondAccount("second"))
		other.post(page+"/acknowledge", "mutedUntil", "").want(t, http.StatusNotFound, "")
		b.post(page+"/acknowledge", "mutedUntil", "").want(t, http.StatusSeeOther, "/console/problems")
		b.get("/console/problems").want(t, http.StatusOK, "").has(t, "The problem is acknowledged.", "Acknowledged or muted: 1", "until it changes", page+"/reopen")
		b.get("/console").want(t, http.StatusOK, "").has(t, "one problem is", "acknowledged or muted")
		other.post(page+"/reopen").want(t, http.StatusNotFound, "")
		b.post(page+"/reopen").want(t, http.StatusSeeOther, "/console/problems")
		b.post(page+"/acknowledge", "mutedUntil", "8h").want(t, http.StatusSeeOther, "/console/problems")
		b.get("/console/problems").want(t, http.StatusOK, "").has(t, "The problem is muted.", "until <")
		b.get("/console").want(t, http.StatusOK, "").has(t, "one problem is")
	})
}
