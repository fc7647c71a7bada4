package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
)

// The first test of a webhook shows what `waybill check` does: the answer to a test that is signed rightly, and to two
// that the receiver should refuse.
func TestConsoleChecks(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	for _, tc := range []struct {
		answers     map[string]int // by forgery
		has, hasNot []string
	}{
		{
			map[string]int{"": 200, "wrongSecret": 401, "oldTime": 400},
			[]string{"none: the URL is http", "test event: answered 200", "wrong signature: answered 401", "It refuses what is not signed with its secret", "old time: answered 400", "not accepted", "signed with a wrong secret"}, nil,
		},
		{
			map[string]int{"": 200, "wrongSecret": 200, "oldTime": 200},
			[]string{"wrong signature: answered 200", "It does not verify signatures"}, []string{"old time:"},
		},
		{map[string]int{"": 401, "wrongSecret": 401, "oldTime": 401}, []string{"It refuses callbacks that are signed with this secret"}, []string{"old time:"}},
	} {
		id := r.register(`{"url":"http://127.0.0.1:1/hook","events":["shipment.created"]}`).text("id")
		at := "/console/webhooks/" + id + "/test"
		first := b.get(at).want(t, http.StatusOK, "").body
		if i, j := strings.Index(first, `value="checks"`), strings.Index(first, `value="wrongSecret"`); i < 0 || j < i {
			t.Error("the first test does not offer the checks first")
		}
		sent := b.post(at, "type", "shipment.created", "forge", "checks").header.Get("Location")
		to, err := url.Parse(sent)
		if err != nil || len(to.Query()["delivery"]) != 3 {
			t.Fatalf("the checks lead to %s", sent)
		}
		for i, delivery := range to.Query()["delivery"] {
			forge := []string{"", "wrongSecret", "oldTime"}[i]
			r.tested(delivery, domain.Forgery(forge), tc.answers[forge])
		}
		page := b.get(sent).want(t, http.StatusOK, "")
		page.has(t, tc.has...)
		for _, text := range tc.hasNot {
			if strings.Contains(page.body, text) {
				t.Errorf("with the answers %v the page has %q", tc.answers, text)
			}
		}
		// That a receiver refuses what is forged is no problem.
		refused := tc.answers[""] != http.StatusOK
		for _, list := range []string{"/console/problems", "/console"} {
			if strings.Contains(b.get(list).want(t, http.StatusOK, "").body, to.Query()["delivery"][1]) {
				t.Errorf("%s has a forged test that was refused", list)
			}
		}
		if problem := strings.Contains(b.get("/console/problems").body, "webhookId="+id); problem != refused {
			t.Errorf("with the answers %v the webhook is a problem: %v", tc.answers, problem)
		}
	}
}

// tested ends a test as a dispatcher does.
func (r *rig) tested(delivery string, forge domain.Forgery, answer int) {
	r.t.Helper()
	d, _, err := r.store.GetDelivery(r.t.Context(), domain.DefaultAccount, domain.DeliveryID(delivery))
	if err != nil {
		r.t.Fatal(err)
	}
	o := domain.Outcome{
		Delivery: d.ID, Account: d.Account, Webhook: d.Webhook, EventID: d.EventID, EventType: d.EventType, Status: domain.StatusFailed, Rev: 2,
		Attempts: 1, RunAttempts: 1, Reason: string(forge), Test: true, UpdatedAt: time.Now().UTC(),
		Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: time.Now().UTC(), Duration: time.Millisecond, Status: answer, Class: domain.ClassOf(answer)},
	}
	if answer == http.StatusOK {
		o.Status = domain.StatusDelivered
	}
	tasks, err := r.store.OpenRequests(r.t.Context(), time.Now().Add(time.Hour), "", 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range tasks {
		if tasks[i].Delivery != d.ID {
			continue
		}
		if o.Request = tasks[i].Request; tasks[i].Forge != forge {
			r.t.Errorf("the dispatcher is asked for the forgery %q, want %q", tasks[i].Forge, forge)
		}
	}
	if _, err := r.store.Record(r.t.Context(), []domain.RecordBatch{{Outcomes: []domain.Outcome{o}}}); err != nil {
		r.t.Fatal(err)
	}
}

// What failed for good is counted up to a thousand, and tests do not take the place of others on the first page.
func TestConsoleManyFailed(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser().signIn(adminKey)
		many, few := r.register(`{"url":"http://127.0.0.1:1/many","events":["shipment.created"]}`).text("id"), r.register(plainWebhook).text("id")
		r.failed(few, "few", 3)
		r.failed(many, "many", 1001)
		r.failed(few, "later", 2)
		b.get("/console/problems").want(t, http.StatusOK, "").has(t, "1\u202f000+ failed for good", ">5 failed for good")
		for range 5 {
			test := r.do(http.MethodPost, "/v1/webhooks/"+few+"/test", `{"forge":"wrongSecret"}`).want(http.StatusAccepted).text("deliveryId")
			r.tested(test, domain.ForgeWrongSecret, http.StatusUnauthorized)
		}
		if n := strings.Count(b.get("/console").want(t, http.StatusOK, "").body, "schedule exhausted"); n != 5 {
			t.Errorf("%d deliveries that failed, want 5", n)
		}
	})
}

// Where no webhook is registered for alerts, their page shows what would have been told, and whom it concerns in this account.
func TestConsoleAlertsUntold(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser().signIn(adminKey)
		hook := r.register(`{"url":"http://127.0.0.1:1/down","events":["shipment.created"]}`).text("id")
		r.publish(event("evt_given_up"))
		delivery := r.deliver(hook, "evt_given_up", domain.StatusFailed, domain.ReasonExhausted)
		since := time.Now().Add(-time.Hour)
		r.circuit(hook, domain.Circuit{OpenSince: since, Failures: 31, FailingSince: since, SaidAt: time.Now(), Last: &domain.Answer{At: since, Status: 503, Class: domain.Class5xx}})
		// It failed for an hour, and is well since.
		well := r.register(`{"url":"http://127.0.0.1:1/well","events":["shipment.created"]}`).text("id")
		for i := range domain.FailingFrom + 1 {
			name := fmt.Sprintf("evt_spell_%d", i)
			r.publish(event(name))
			r.outcome(well, name, func(o *domain.Outcome) {
				o.Status, o.Attempts, o.RunAttempts, o.Attempt = domain.StatusRetrying, 1, 1, attempt(1, 503)
				o.NextAttemptAt, o.Attempt.StartedAt = time.Now().Add(time.Hour), time.Now().Add(-2*time.Hour)
				if i == domain.FailingFrom {
					o.Status, o.Attempt = domain.StatusDelivered, attempt(1, 200)
				}
			})
		}
		b.get("/console/alerts?type=waybill.webhook.recovered").want(t, http.StatusOK, "").has(t, "recovered</span>", "5 since", "127.0.0.1:1/well")
		told := []string{"What would have been told", "circuit opened", "31 since", "127.0.0.1:1/down", "exhausted", "/console/deliveries/" + string(delivery)}
		b.get("/console/alerts").want(t, http.StatusOK, "").has(t, told...)
		if page := b.get("/console/alerts?type=waybill.delivery.exhausted").want(t, http.StatusOK, ""); strings.Contains(page.body, "circuit opened</span>") {
			t.Error("the type that is asked for is not the only one")
		}
		before, around := since.Add(-time.Minute).UTC(), since.Add(time.Minute).UTC()
		ago := url.Values{"since": {before.Format(time.RFC3339)}, "until": {around.Format(time.RFC3339)}}
		page := b.get("/console/alerts?"+ago.Encode()).want(t, http.StatusOK, "").has(t, "circuit opened</span>")
		if strings.Contains(page.body, "exhausted</span>") {
			t.Error("what came after the time that is asked for is shown")
		}
		r.register(fmt.Sprintf(`{"url":"http://127.0.0.1:1/alerts","events":[%q]}`, domain.WebhookFailing))
		if page := b.get("/console/alerts").want(t, http.StatusOK, ""); strings.Contains(page.body, told[0]) {
			t.Error("somebody is registered, and the page says that nobody was told")
		}
	})
}
