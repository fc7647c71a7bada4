package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// failed publishes so many events behind the api's back, and records that their deliveries to
// the webhook failed.
func (r *rig) failed(webhook, name string, n int) []domain.DeliveryID {
	r.t.Helper()
	var ids []domain.DeliveryID
	for start := 0; start < n; start += 1000 {
		var events []domain.Event
		for i := start; i < min(start+1000, n); i++ {
			id := fmt.Sprintf("evt_%s_%d", name, i)
			events = append(events, domain.Event{
				Account: domain.DefaultAccount, ID: id, Type: domain.ShipmentCreated, Timestamp: "2026-01-02T03:04:05Z", Payload: []byte(event(id)),
			})
		}
		receipts, err := r.store.Accept(r.t.Context(), []pipeline.Submission{{Account: domain.DefaultAccount, Events: events}})
		if err != nil {
			r.t.Fatal(err)
		}
		var batch domain.RecordBatch
		now := time.Now().UTC().Truncate(time.Millisecond)
		for i, accepted := range receipts[0].Events {
			events[i].ReceivedAt = accepted.ReceivedAt
			id := domain.NewDeliveryID(events[i].Key(), domain.WebhookID(webhook))
			ids = append(ids, id)
			batch.Settled = append(batch.Settled, events[i].Key())
			batch.Outcomes = append(batch.Outcomes, domain.Outcome{
				Delivery: id, Account: domain.DefaultAccount, Webhook: domain.WebhookID(webhook), EventID: events[i].ID, EventType: events[i].Type,
				Status: domain.StatusFailed, Rev: 2, Attempts: 1, RunAttempts: 1, RunStartedAt: now, Reason: domain.ReasonExhausted, UpdatedAt: now,
				Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: time.Millisecond, Status: 500},
			})
		}
		if _, err := r.store.Record(r.t.Context(), []domain.RecordBatch{batch}); err != nil {
			r.t.Fatal(err)
		}
	}
	return ids
}

// dispatch is a dispatcher whose receivers take all: it answers what was relayed until ctx ends,
// and returns how often each delivery was sent.
func (r *rig) dispatch(ctx context.Context) map[domain.DeliveryID]int {
	times := map[domain.DeliveryID]int{}
	for ctx.Err() == nil {
		unsent, err := r.store.OpenRequests(ctx, time.Time{}, "", 1000)
		if err != nil {
			continue
		}
		open, err := r.store.OpenRequests(ctx, time.Now().Add(time.Hour), "", 1000)
		if err != nil {
			continue
		}
		waits := make(map[string]bool, len(unsent)) // for the relay
		for _, task := range unsent {
			waits[task.Request] = true
		}
		var batch domain.RecordBatch
		for _, task := range open {
			if waits[task.Request] {
				continue
			}
			times[task.Delivery]++
			now := time.Now().UTC().Truncate(time.Millisecond)
			batch.Outcomes = append(batch.Outcomes, domain.Outcome{
				Delivery: task.Delivery, Account: task.Account, Webhook: task.Webhook, EventID: task.EventID, EventType: task.EventType,
				Status: domain.StatusDelivered, Rev: task.Rev.Next(), Attempts: task.Attempts + 1, RunAttempts: 1, RunStartedAt: now, UpdatedAt: now, Request: task.Request,
				Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: task.Attempts + 1, StartedAt: now, Duration: time.Millisecond, Status: 200},
			})
		}
		if len(batch.Outcomes) == 0 {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		_, _ = r.store.Record(ctx, []domain.RecordBatch{batch})
	}
	return times
}

// dueCount returns how many deliveries are due on the bus; it reads none of them.
func (r *rig) dueCount() int {
	r.t.Helper()
	conn, err := nats.Connect(r.nats.URL(), nats.Timeout(2*time.Second))
	if err != nil {
		return 0
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := js.Stream(r.t.Context(), bus.StreamRetries)
	if err != nil {
		return 0
	}
	info, err := s.Info(r.t.Context(), jetstream.WithSubjectFilter("d.>"))
	if err != nil {
		return 0
	}
	n := 0
	for _, of := range info.State.Subjects {
		n += int(of)
	}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (r *rig) job(id string) map[string]any {
	r.t.Helper()
	return r.insist(http.MethodGet, "/v1/jobs/"+id, "").want(200).object()
}

// What a dry run says is what is sent, page after page, and the job tells how far it is.
func TestJobs(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const n = 1201
		hook := r.register(plainWebhook).text("id")
		ids := r.failed(hook, "a", n)
		body := fmt.Sprintf(`{"webhookId":%q,"status":"failed"}`, hook)
		dry := r.do(http.MethodPost, "/v1/deliveries/retry", strings.Replace(body, "{", `{"dryRun":true,`, 1)).want(200).object()
		oldest, _ := ids[0].ReceivedAt()
		if dry["matched"] != float64(n) || dry["alreadyDelivered"] != 0. || dry["oldest"] != oldest.Format("2006-01-02T15:04:05.000Z") || dry["estimatedSeconds"] != 4. {
			t.Errorf("dry run: %v", dry)
		}
		replayed := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/replay", `{"since":"2020-01-01T00:00:00Z","dryRun":true}`).want(200).object()
		if replayed["matched"] != float64(n) {
			t.Errorf("dry run of a replay: %v", replayed)
		}
		if len(r.due()) != 0 || len(r.do(http.MethodGet, "/v1/jobs", "").want(200).items("data")) != 0 {
			t.Error("a dry run does something")
		}
		made := r.do(http.MethodPost, "/v1/deliveries/retry", body).want(202).object()
		id := made["id"].(string)
		if made["matched"] != float64(n) {
			t.Errorf("made: %v", made)
		}
		eventually(t, "all are sent", func() bool { return r.job(id)["sent"] == float64(n) })
		job := r.job(id)
		if job["kind"] != "retry" || job["status"] != "running" || job["delivered"] != 0. || job["createdBy"] == "" ||
			fmt.Sprint(job["filter"]) != fmt.Sprint(map[string]any{"webhookId": hook, "status": "failed"}) {
			t.Errorf("job: %v", job)
		}
		eventually(t, "all are due", func() bool { return r.dueCount() == n })
		ctx, cancel := context.WithCancel(t.Context())
		var dispatcher sync.WaitGroup
		dispatcher.Go(func() { r.dispatch(ctx) })
		eventually(t, "the job is done", func() bool { return r.job(id)["status"] == "done" })
		cancel()
		dispatcher.Wait()
		if job := r.job(id); job["delivered"] != float64(n) || job["failed"] != 0. {
			t.Errorf("done: %v", job)
		}
		if listed := r.do(http.MethodGet, "/v1/jobs?limit=1", "").want(200).items("data"); len(listed) != 1 || listed[0]["id"] != id {
			t.Errorf("listed: %v", listed)
		}
		r.do(http.MethodDelete, "/v1/jobs/"+id, "").want(202).field("status", "done")
	})
}

// A job outlives the process that works it off, and sends nothing twice.
func TestJobOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const n = 4600 // more than may be open
		hook := r.register(plainWebhook).text("id")
		ids := r.failed(hook, "a", n)
		id := r.do(http.MethodPost, "/v1/deliveries/retry", fmt.Sprintf(`{"webhookId":%q}`, hook)).want(202).text("id")
		r.stop()
		before, err := r.store.GetJob(t.Context(), domain.DefaultAccount, id)
		if err != nil || before.Sent == 0 || before.Sent == n {
			t.Fatalf("not in the middle: %+v, %v", before, err)
		}
		r.start()
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan map[domain.DeliveryID]int, 1)
		go func() { sent <- r.dispatch(ctx) }()
		deadline := time.Now().Add(3 * time.Minute)
		for r.job(id)["status"] != "done" && time.Now().Before(deadline) {
			pause(t.Context(), 50*time.Millisecond)
		}
		cancel()
		times := <-sent
		if job := r.job(id); job["status"] != "done" || job["sent"] != float64(n) || job["delivered"] != float64(n) {
			t.Errorf("job %v", job)
		}
		for _, delivery := range ids {
			if times[delivery] != 1 {
				t.Fatalf("%s was sent %d times", delivery, times[delivery])
			}
		}
	})
}

// Cancelling stops what was not sent, reading keys may only look, and what is wrong with a filter
// is named.
func TestJobsAreGuarded(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		hook := r.register(plainWebhook).text("id")
		r.failed(hook, "a", 4600) // more than may be open
		bucket := r.bucket("bucket")
		_, reader := r.holder(bucket, "reader", domain.ScopeEventsRead)
		_, writer := r.holder(bucket, "writer", domain.ScopeEventsWrite)
		stranger := r.secondAccount("stranger")
		retry, replay := "/v1/deliveries/retry", "/v1/webhooks/"+hook+"/replay"
		for _, dry := range []string{"true", "false"} {
			r.do(http.MethodPost, retry, `{"status":"failed","dryRun":`+dry+`}`, as(reader)).want(403)
			r.do(http.MethodPost, replay, `{"since":"2020-01-01T00:00:00Z","dryRun":`+dry+`}`, as(reader)).want(403)
		}
		r.do(http.MethodPost, retry, `{"webhookId":"`+hook+`","dryRun":true}`, as(stranger)).want(200).field("matched", 0.)
		r.do(http.MethodPost, replay, `{"since":"2020-01-01T00:00:00Z","dryRun":true}`, as(stranger)).want(404)

		id := r.do(http.MethodPost, retry, `{"status":"failed"}`, as(writer)).want(202).text("id")
		r.do(http.MethodGet, "/v1/jobs/"+id, "", as(writer)).want(403)
		r.do(http.MethodGet, "/v1/jobs/"+id, "", as(reader)).want(200).field("createdBy", "bucket/writer")
		r.do(http.MethodDelete, "/v1/jobs/"+id, "", as(reader)).want(403)
		r.do(http.MethodDelete, "/v1/jobs/"+id, "", as(stranger)).want(404)
		eventually(t, "it waits for answers", func() bool { return r.job(id)["sent"] == 4000. })
		r.do(http.MethodDelete, "/v1/jobs/"+id, "", as(writer)).want(202).field("status", "cancelled")
		r.do(http.MethodDelete, "/v1/jobs/"+id, "", as(writer)).want(202).field("sent", 4000.)
		r.do(http.MethodGet, "/v1/jobs?cursor=x", "").want(400)
		r.do(http.MethodGet, "/v1/jobs/x", "").want(404).field("detail", "There is no such job.")

		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(200)
		for action, want := range map[string]int{`"retry-deliveries"`: 2, `"replay-webhook"`: 1, `"cancel-job"`: 2} {
			if got := strings.Count(string(log.body), action); got != want {
				t.Errorf("%s is %d times in the audit log, want %d", action, got, want)
			}
		}
	})
}

// While a large replay runs, another account publishes as before.
func TestJobLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const n = 6000 // more than may be asked for at once
		hook := r.register(plainWebhook).text("id")
		r.failed(hook, "a", n)
		stranger := r.secondAccount("stranger")
		published := 0
		publish := func(goesOn func() bool) (median, most time.Duration) {
			var took []time.Duration
			for len(took) == 0 || goesOn() {
				for range 50 {
					published++
					started := time.Now()
					r.insist(http.MethodPost, "/v1/events", event(fmt.Sprintf("evt_%d", published)), as(stranger)).want(202)
					took = append(took, time.Since(started))
				}
			}
			slices.Sort(took)
			return took[len(took)/2], took[len(took)*99/100]
		}
		before, mostBefore := publish(func() bool { return published < 200 })
		ctx, cancel := context.WithCancel(t.Context())
		var dispatcher sync.WaitGroup
		dispatcher.Go(func() { r.dispatch(ctx) })
		id := r.do(http.MethodPost, "/v1/webhooks/"+hook+"/replay", `{"since":"2020-01-01T00:00:00Z"}`).want(202).text("id")
		started := time.Now()
		during, most := publish(func() bool { return r.job(id)["status"] == "running" && time.Since(started) < 3*time.Minute })
		cancel()
		dispatcher.Wait()
		if job := r.job(id); job["status"] != "done" || job["delivered"] != float64(n) {
			t.Errorf("after %v: %v", time.Since(started), job)
		}
		t.Logf("%d in %v; half of %d requests took %v, and %v before; 99 of 100 %v, and %v before", n, time.Since(started), published, during, before, most, mostBefore)
		if during > 10*before+100*time.Millisecond {
			t.Errorf("at the median a request takes %v, and took %v before", during, before)
		}
	})
}
