package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/shared/domain"
)

// alertsGot collects the alerts that an endpoint got, each once.
type alertsGot struct {
	mu  sync.Mutex
	ids []string
	got []alertSeen
}

type alertSeen struct {
	Type domain.EventType
	Data struct {
		WebhookID, Host, Class, Link, EventID, DeliveryID, Since, SampleAnswer string
		StatusCode, FailuresInARow                                             int
	}
}

func (a *alertsGot) note(behave func(sink.Post) sink.Answer) func(sink.Post) sink.Answer {
	return func(p sink.Post) sink.Answer {
		a.mu.Lock()
		defer a.mu.Unlock()
		var seen alertSeen
		if err := json.Unmarshal(p.Body, &seen); err == nil && !slices.Contains(a.ids, p.ID) {
			a.ids, a.got = append(a.ids, p.ID), append(a.got, seen)
		}
		return behave(p)
	}
}

// about returns the alerts about a webhook, by how often they came.
func (a *alertsGot) about(webhook string) map[domain.EventType]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	types := map[domain.EventType]int{}
	for _, seen := range a.got {
		if seen.Data.WebhookID == webhook {
			types[seen.Type]++
		}
	}
	return types
}

func forAlerts(more func(*client.Webhook)) func(*client.Webhook) {
	return func(h *client.Webhook) {
		h.Events = domain.AlertTypes()
		if more != nil {
			more(h)
		}
	}
}

// alerts has a receiver fail and recover, while those that are told of it fail as well.
func alerts(w *world) {
	failing, hook := w.register("failing", func(h *client.Webhook) {
		schedule(0.1, 0.1, 0.1)(h)
		h.Events = append(h.Events, domain.WebhookFailing, domain.DeliveryExhausted)
	})
	quiet, _ := w.register("told", forAlerts(nil))
	// This one fails five times for each alert, and would be told of for ever if that counted.
	shaky, shakyHook := w.register("shaky", forAlerts(schedule(0.1, 0.1, 0.1, 0.1, 0.1)))
	var told, itself alertsGot
	quiet.Behave(told.note(answerWith(http.StatusOK)))
	shaky.Behave(failFirst(5))
	w.known(3)
	failing.Behave(itself.note(func(sink.Post) sink.Answer { return sink.Answer{Status: http.StatusServiceUnavailable, Body: "busy"} }))
	dead := w.publish(4)
	for _, id := range dead {
		w.delivery(hook.ID, id, "failed")
	}
	want := map[domain.EventType]int{domain.WebhookFailing: 1, domain.DeliveryExhausted: len(dead)}
	w.await("the failing webhook is told of", patience, func() bool { return cmp.Equal(want, told.about(hook.ID)) })
	failing.Behave(itself.note(answerWith(http.StatusOK)))
	want[domain.WebhookRecovered] = 1
	w.await("the recovered webhook is told of", patience, func() bool {
		if cmp.Equal(want, told.about(hook.ID)) {
			return true
		}
		w.publish(1)
		return false
	})
	w.await("the shaky webhook has what the other one has", patience, func() bool { return shaky.Accepted(told.ids) == len(dead)+2 })
	if got := told.about(shakyHook.ID); len(got) > 0 {
		w.Errorf("alerts about failures of alerts: %v", got)
	}
	if got := itself.about(hook.ID); len(got) > 0 {
		w.Errorf("alerts about itself: %v", got)
	}
	for _, seen := range told.got {
		if d := seen.Data; d.Link != "/console/webhooks/"+hook.ID || d.Since == "" || d.FailuresInARow == 0 {
			w.Errorf("alert %+v", seen)
		}
	}
	w.alertsAreEvents(hook.ID)
	w.alertsAreRefused()
}

// alertsAreEvents looks at alerts in the lists and asks why the webhook got none about itself.
func (w *world) alertsAreEvents(hook string) {
	w.Helper()
	var list struct{ Data []struct{ ID string } }
	w.read("/v1/events?type=waybill.webhook.failing", &list)
	if len(list.Data) != 1 {
		w.Fatalf("%d events of the type", len(list.Data))
	}
	var why struct{ Verdict string }
	w.read("/v1/explanations?eventId="+list.Data[0].ID+"&webhookId="+hook, &why)
	if why.Verdict != "aboutItself" {
		w.Errorf("why it got no alert about itself: %s", why.Verdict)
	}
	var sent struct{ Data []struct{ Status string } }
	w.await("the alert is in the log as delivered", patience, func() bool {
		w.read("/v1/deliveries?eventType=waybill.webhook.failing&status=delivered&eventId="+list.Data[0].ID, &sent)
		return len(sent.Data) == 2
	})
}

func (w *world) read(path string, into any) {
	w.Helper()
	answer, err := w.api.Ask(w.Context(), http.MethodGet, path, nil, nil)
	if err != nil || answer.Status != http.StatusOK {
		w.Fatalf("%s: %d %s, %v", path, answer.Status, answer.Body, err)
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		w.Fatal(err)
	}
}

// alertsAreRefused publishes alerts.
func (w *world) alertsAreRefused() {
	w.Helper()
	var before struct{ Data []struct{ Subject string } }
	for _, t := range domain.AlertTypes() {
		body := fmt.Appendf(nil, `{"type":%q,"data":{"shipmentId":"x"}}`, t)
		answer, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/events", body, nil)
		if err != nil || answer.Status != http.StatusBadRequest {
			w.Errorf("%s over REST: %d, %v", t, answer.Status, err)
		}
		if err := w.nats.Publish("events.default."+string(t), body); err != nil {
			w.Fatal(err)
		}
	}
	w.await("alerts on the bus are rejected", patience, func() bool {
		w.read("/v1/rejected", &before)
		return len(before.Data) == len(domain.AlertTypes())
	})
}
