package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"waybill.dev/cmd/internal/client"
)

// cancelled: a job that is cancelled begins nothing more within a second, although the dispatchers
// have got all of it, and what it has left is told as such.
func cancelled(w *world) {
	const n = 60
	endpoint, hook := w.register("cancelled", nil)
	w.arrived(endpoint, w.publish(n))
	w.await("all are recorded", patience, func() bool { return w.byStatus(hook.ID)["delivered"] == n })
	w.call(http.MethodPatch, "/v1/webhooks/"+hook.ID, `{"ratePerSecond":10}`, http.StatusOK, nil)

	var job struct {
		ID                               string
		Status                           string
		Matched, Sent, Delivered, Failed int
	}
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	replay := "/v1/webhooks/" + hook.ID + "/replay"
	w.call(http.MethodPost, replay, `{"since":"`+since+`","status":"all"}`, http.StatusAccepted, &job)
	w.await("some have come", patience, func() bool { return endpoint.Posts() >= n+10 })
	var plan struct{ EstimatedSeconds float64 }
	w.call(http.MethodPost, replay, `{"since":"`+since+`","status":"failed","dryRun":true}`, http.StatusOK, &plan)
	if plan.EstimatedSeconds < 1 || plan.EstimatedSeconds > n/10 {
		w.Errorf("while the job runs, another takes %v s", plan.EstimatedSeconds)
	}
	w.call(http.MethodDelete, "/v1/jobs/"+job.ID, "", http.StatusAccepted, nil)
	answered := time.Now()
	w.await("the last of them", patience, func() bool { return time.Since(answered) > time.Second })
	sent := endpoint.Posts() - n
	w.quiet(endpoint, 3*time.Second)
	if sent < 10 || sent >= n-10 {
		w.Errorf("%d of %d were sent", sent, n)
	}
	w.await("what is left is told", patience, func() bool {
		left := 0
		if err := w.api.Deliveries(w.Context(), url.Values{"webhookId": {hook.ID}, "reason": {"jobCancelled"}, "status": {"failed"}}, func(client.Delivery) { left++ }); err != nil {
			w.Fatal(err)
		}
		w.call(http.MethodGet, "/v1/jobs/"+job.ID, "", http.StatusOK, &job)
		return left == n-sent && job.Status == "cancelled" && job.Sent == n && job.Delivered == sent && job.Failed == n-sent
	})

	// It can be asked for again.
	w.call(http.MethodPost, replay, `{"since":"`+since+`","status":"failed"}`, http.StatusAccepted, &job)
	w.await("the rest", patience, func() bool { return w.byStatus(hook.ID)["delivered"] == n })
}

// call calls the API, and reads its answer into out; nil: nowhere.
func (w *world) call(method, path, body string, status int, out any) {
	w.Helper()
	answer, err := w.api.Ask(w.Context(), method, path, []byte(body), nil)
	if err != nil || answer.Status != status {
		w.Fatalf("%s %s: %d %s, %v; want %d", method, path, answer.Status, answer.Body, err, status)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(answer.Body, out); err != nil {
		w.Fatal(fmt.Errorf("%s %s: %w", method, path, err))
	}
}
