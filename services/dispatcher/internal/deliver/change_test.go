package deliver

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/domain"
)

// TestEveryChangeOfADelivery has each thing happen to deliveries of each status that they can
// have then, and compares what is recorded with what a change is said to be.
func TestEveryChangeOfADelivery(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, row := range []struct {
		change  domain.Change
		webhook func(*domain.Webhook)
		bring   func(*rig, *Job)
	}{
		{domain.ChangeDelivered, nil, answered(http.StatusOK)},
		{domain.ChangeFailed, nil, answered(http.StatusInternalServerError)},
		{domain.ChangeGone, nil, answered(http.StatusGone)},
		{domain.ChangeExhausted, nil, func(r *rig, job *Job) {
			job.Task.RunAttempts = 5
			answered(http.StatusInternalServerError)(r, job)
		}},
		{domain.ChangeWrongSecret, nil, func(r *rig, job *Job) {
			job.Task.Forge = domain.ForgeWrongSecret
			answered(http.StatusGone)(r, job)
		}},
		{domain.ChangeOldTime, nil, func(r *rig, job *Job) {
			job.Task.Forge = domain.ForgeOldTime
			answered(http.StatusInternalServerError)(r, job)
		}},
		{domain.ChangeInactive, func(w *domain.Webhook) { w.Active = false }, offered},
		{domain.ChangeUnreadable, func(w *domain.Webhook) { w.Active, w.Fault = false, "secret" }, offered},
		{domain.ChangeCircuit, nil, func(r *rig, job *Job) {
			r.CircuitHeard(r.hooks[0].ID, true)
			offered(r, job)
		}},
		{domain.ChangeOverflow, nil, crowded},
		{domain.ChangePutOff, nil, crowded},
		{domain.ChangeBehind, nil, func(r *rig, job *Job) {
			next := *job.Task
			next.Rev = next.Rev.Next()
			r.RecordWaiting(job, &next, domain.ChangeBehind)
		}},
		{domain.ChangeDeleted, nil, func(r *rig, job *Job) { r.End(job, domain.ChangeDeleted) }},
		{domain.ChangePull, func(w *domain.Webhook) { w.Delivery = domain.DeliveryPull }, offered},
		{domain.ChangePull, func(w *domain.Webhook) { w.PushedSince = time.Now().AddDate(100, 0, 0) }, offered},
		{domain.ChangeCancelled, nil, func(r *rig, job *Job) {
			r.options.Cancelled = func(t *domain.Task) bool { return t.Delivery == job.Task.Delivery }
			offered(r, job)
		}},
		{domain.ChangeCancelled, nil, func(r *rig, job *Job) {
			r.options.AskCancelled = func(t *domain.Task) bool { return t.Delivery == job.Task.Delivery }
			offered(r, job)
		}},
		{domain.ChangeRetention, nil, func(r *rig, job *Job) {
			job.Task.ReceivedAt = time.Now().Add(-101 * time.Hour)
			offered(r, job)
		}},
	} {
		for _, from := range row.change.From() {
			name := fmt.Sprintf("%s, %s: %s", from, row.change.To(), row.change)
			if row.change == domain.ChangePutOff && from == domain.StatusPending {
				name += " again"
			}
			seen[fmt.Sprint(row.change, from)] = true
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				hook := webhook()
				if row.webhook != nil {
					row.webhook(&hook)
				}
				onRig(t, false, []domain.Webhook{hook}, func(t *testing.T, r *rig) {
					job := r.standing(from, row.change)
					before := job.Task.Rev
					row.bring(r, job)
					<-time.After(time.Minute)
					synctest.Wait()
					r.mu.Lock()
					defer r.mu.Unlock()
					at := slices.IndexFunc(r.outcomes, func(o domain.Outcome) bool { return o.Delivery == job.Task.Delivery })
					if at < 0 {
						t.Fatal("nothing was recorded of it")
					}
					got := r.outcomes[at]
					if got.Status != row.change.To() || got.Reason != row.change.Reason() || got.Rev != before.Next() {
						t.Errorf("it is %s, reason %q, at revision %d; want %s, %q, %d",
							got.Status, got.Reason, got.Rev, row.change.To(), row.change.Reason(), before.Next())
					}
				})
			})
		}
	}
	for _, change := range domain.Changes() {
		for _, from := range change.From() {
			if !seen[fmt.Sprint(change, from)] && change != domain.ChangeRequested {
				t.Errorf("no test has a %s delivery meet: %s", from, change)
			}
		}
	}
}

// standing returns a delivery that stands at a status, as whoever has it then brings it.
func (r *rig) standing(status domain.Status, meets domain.Change) *Job {
	job := &Job{Task: r.task(r.hooks[0]), Origin: r}
	if status == domain.StatusRetrying || meets == domain.ChangePutOff {
		job.Lane, job.Task.Attempts, job.Task.RunStartedAt, job.Task.Rev = Due, 1, time.Now(), domain.FirstOutcome
	}
	if status == domain.StatusHeld {
		job.Lane, job.Task.HeldAt, job.Task.Rev = Drained, time.Now(), domain.FirstOutcome
	}
	return job
}

func offered(r *rig, job *Job) { r.Offer(r.hooks[0], job) }

// answered offers a delivery to a receiver that answers with a status.
func answered(status int) func(*rig, *Job) {
	return func(r *rig, job *Job) {
		r.answers(func(*Request) Response { return Response{Status: status} })
		offered(r, job)
	}
}

// crowded offers a delivery to a webhook to which attempts hang.
func crowded(r *rig, job *Job) {
	r.answers(after(10*time.Second, http.StatusOK))
	r.offer(r.hooks[0], domain.DefaultMaxInFlight)
	<-time.After(3 * time.Second)
	offered(r, job)
}
