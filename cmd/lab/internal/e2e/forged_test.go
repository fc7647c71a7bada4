package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

// forged tests a receiver with callbacks that it should refuse.
func forged(w *world) {
	var secret atomic.Pointer[signature.Key] // nil: it accepts whatever comes
	var posts atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		body, err := io.ReadAll(r.Body)
		if key := secret.Load(); err == nil && key != nil {
			if signature.Verify(r.Header, nil, time.Now(), *key) == nil {
				w.Error("the webhook's secret has signed something else than the body")
			}
			err = signature.Verify(r.Header, body, time.Now(), *key)
		}
		if err != nil {
			rw.WriteHeader(http.StatusGone) // which would make the webhook inactive
		}
	}))
	w.Cleanup(receiver.Close)
	hook, err := w.api.Register(w.Context(), client.Webhook{URL: receiver.URL, Events: []domain.EventType{domain.ShipmentCreated}})
	if err != nil {
		w.Fatal(err)
	}
	key, err := signature.ParseSecret(hook.Secret)
	if err != nil {
		w.Fatal(err)
	}
	test := func(body string) (d client.Delivery) {
		answer, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/webhooks/"+hook.ID+"/test", []byte(body), nil)
		var made struct{ DeliveryID string }
		if err != nil || answer.Status != http.StatusAccepted || json.Unmarshal(answer.Body, &made) != nil {
			w.Fatalf("test: %d %s, %v", answer.Status, answer.Body, err)
		}
		w.await("the end of the test "+body, patience, func() bool {
			d, err = w.api.Delivery(w.Context(), made.DeliveryID)
			return err == nil && (d.Status == "delivered" || d.Status == "failed")
		})
		return d
	}
	for _, forge := range []string{"wrongSecret", "oldTime"} {
		for _, want := range []domain.Status{domain.StatusDelivered, domain.StatusFailed} {
			secret.Store(nil)
			if want == domain.StatusFailed {
				secret.Store(&key)
			}
			d := test(`{"forge":"` + forge + `"}`)
			if d.Status != want || d.Reason == nil || *d.Reason != forge || len(d.Attempts) != 1 || !d.Test {
				w.Errorf("%s is %+v, want it %s with one attempt", forge, d, want)
			}
			listed := 0
			query := url.Values{"webhookId": {hook.ID}, "reason": {forge}, "status": {string(want)}}
			if err := w.api.Deliveries(w.Context(), query, func(client.Delivery) { listed++ }); err != nil || listed != 1 {
				w.Errorf("%d are listed as %s, reason %s, %v", listed, want, forge, err)
			}
		}
	}
	if d := test(`{}`); d.Status != "delivered" || d.Reason != nil {
		w.Errorf("the test that is signed rightly is %+v", d)
	}
	if n := posts.Load(); n != 5 {
		w.Errorf("%d callbacks for five tests", n)
	}
	w.await("the statistics", patience, func() bool { return w.statistics(w.api, "webhookId="+hook.ID).Attempts > 0 })
	if got := w.statistics(w.api, "webhookId="+hook.ID); got != (counted{Deliveries: 1, Attempts: 1, Succeeded: 1}) {
		w.Errorf("the statistics count %+v, want the one that is signed rightly", got)
	}
	if matched, err := w.api.Replay(w.Context(), hook.ID, time.Now().Add(-time.Hour), "failed"); err != nil || matched != 0 {
		w.Errorf("a replay matches %d of them, %v", matched, err)
	}
	if h := w.health(hook.ID); h.State != "healthy" || h.Circuit.FailuresInARow != 0 {
		w.Errorf("the health is %+v", h)
	}
}
