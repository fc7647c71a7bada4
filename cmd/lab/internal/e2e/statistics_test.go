package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// counted is what statistics say in all.
type counted struct{ Events, Deliveries, Attempts, Succeeded, Failed int }

// statistics adds up the rows of statistics by minute.
func (w *world) statistics(api *stack.Client, query string) (sum counted) {
	w.Helper()
	answer, err := api.Ask(w.Context(), http.MethodGet, "/v1/statistics?step=minute&"+query, nil, nil)
	if err != nil || answer.Status != http.StatusOK {
		w.Fatalf("statistics: %d %s, %v", answer.Status, answer.Body, err)
	}
	var list struct{ Data []counted }
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		w.Fatal(err)
	}
	for _, row := range list.Data {
		sum.Events += row.Events
		sum.Deliveries += row.Deliveries
		sum.Attempts += row.Attempts
		sum.Succeeded += row.Succeeded
		sum.Failed += row.Failed
	}
	return sum
}

// webhookHealth is what is asked of a webhook's health here.
type webhookHealth struct {
	State   string
	Circuit struct{ FailuresInARow int }
	Windows map[string]counted
}

func (w *world) health(id string) (h webhookHealth) {
	w.Helper()
	answer, err := w.api.Ask(w.Context(), http.MethodGet, "/v1/webhooks/"+id+"/health", nil, nil)
	if err != nil || answer.Status != http.StatusOK {
		w.Fatalf("health: %d %s, %v", answer.Status, answer.Body, err)
	}
	if err := json.Unmarshal(answer.Body, &h); err != nil {
		w.Fatal(err)
	}
	return h
}

// logged counts what the delivery log has of a webhook.
func (w *world) logged(webhook string) (sum counted) {
	w.Helper()
	err := w.api.Deliveries(w.Context(), url.Values{"webhookId": {webhook}}, func(d client.Delivery) {
		whole, err := w.api.Delivery(w.Context(), d.ID)
		if err != nil {
			w.Fatal(err)
		}
		for _, a := range whole.Attempts {
			sum.Attempts++
			if a.Number == 1 {
				sum.Deliveries++
			}
			if a.Status == http.StatusOK {
				sum.Succeeded++
			} else {
				sum.Failed++
			}
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	return sum
}

// statisticsAreExact compares statistics with what receivers counted, and, when a dispatcher
// was killed in the middle of its work, with the delivery log.
func statisticsAreExact(w *world) {
	flaky, flakyHook := w.register("flaky", schedule(0.2, 0.2, 0.2))
	steady, steadyHook := w.register("steady", nil)
	flaky.Behave(failFirst(2))
	w.known(2)
	ids := w.publish(20)
	for _, t := range []domain.EventType{domain.ShipmentDelivered, domain.ShipmentException} {
		e := w.event(t, "")
		w.post(e)
		ids = append(ids, e.ID)
	}
	w.arrived(flaky, ids)
	w.arrived(steady, ids)
	n := len(ids)
	w.await("statistics are what the receivers counted", patience, func() bool {
		return w.statistics(w.api, "webhookId="+flakyHook.ID) == counted{0, n, flaky.Posts(), n, flaky.Posts() - n} &&
			w.statistics(w.api, "webhookId="+steadyHook.ID) == counted{0, n, steady.Posts(), n, 0}
	})
	posts := flaky.Posts() + steady.Posts()
	if got, want := w.statistics(w.api, ""), (counted{n, 2 * n, posts, 2 * n, posts - 2*n}); got != want {
		w.Errorf("statistics say %+v of everything, want %+v", got, want)
	}
	if hour := w.health(flakyHook.ID).Windows["1h"]; hour.Attempts != flaky.Posts() || hour.Succeeded != n {
		w.Errorf("the last hour is %+v, want %d attempts", hour, flaky.Posts())
	}

	ids = append(ids, w.killedAmidst()...)
	w.arrived(flaky, ids)
	w.arrived(steady, ids)
	n = len(ids)
	for hook, endpoint := range map[string]*sink.Endpoint{flakyHook.ID: flaky, steadyHook.ID: steady} {
		var said, logged counted
		w.await("statistics have every delivery, and are what is in the log", patience, func() bool {
			said, logged = w.statistics(w.api, "webhookId="+hook), w.logged(hook)
			return said == logged && said.Succeeded >= n
		})
		if said.Attempts > endpoint.Posts() {
			w.Errorf("statistics say %+v after %d POSTs", said, endpoint.Posts())
		}
	}
	if got := w.statistics(w.api, "").Events; got != n {
		w.Errorf("statistics say %d events were accepted, want %d", got, n)
	}
	w.tellsFailure(flaky, flakyHook.ID)
}

// killedAmidst kills a dispatcher with SIGKILL while it is at work, starts it again, and returns
// the ids of what was published.
func (w *world) killedAmidst() []string {
	w.Helper()
	process := w.stack.Waybill
	if process == nil {
		process = w.stack.Dispatchers[0]
	}
	ids := w.publish(20)
	if err := process.Kill(); err != nil {
		w.Fatal(err)
	}
	if err := process.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	return append(ids, w.publish(5)...)
}

// tellsFailure follows a webhook's state through failures and a success.
func (w *world) tellsFailure(e *sink.Endpoint, hook string) {
	w.Helper()
	e.Behave(func(sink.Post) sink.Answer { return sink.Answer{Status: http.StatusServiceUnavailable, Body: "busy"} })
	w.publish(8)
	w.await("a failing webhook is told", patience, func() bool {
		h := w.health(hook)
		return h.State == "failing" && h.Circuit.FailuresInARow >= 5
	})
	e.Behave(func(sink.Post) sink.Answer { return sink.Answer{} })
	w.await("a healthy webhook is told", patience+10*time.Second, func() bool {
		if w.health(hook).State == "healthy" {
			return true
		}
		w.publish(1)
		return false
	})
}
