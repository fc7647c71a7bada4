package deliver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/domain"
)

// said returns what was told of circuits since it was last asked for.
func (r *rig) said() []domain.Circuit {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.circuits
	r.circuits = nil
	return list
}

// TestCircuitsAreTold follows what an owner says of a circuit: once a second while something
// fails, its opening and probes, its closing, and nothing while all is well.
func TestCircuitsAreTold(t *testing.T) {
	t.Parallel()
	onRig(t, true, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
		hook := r.hooks[0]
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		r.offer(hook, 50)
		pass(3 * time.Second)
		if said := r.said(); len(said) > 0 {
			t.Fatalf("of a healthy receiver is told: %+v", said)
		}
		r.answers(func(*Request) Response {
			return Response{Status: http.StatusServiceUnavailable, Class: domain.Class5xx, Body: "busy"}
		})
		began := time.Now()
		r.offer(hook, 7)
		pass(2 * time.Second)
		said := r.said()
		if len(said) != 1 || said[0].Failures != 7 || !said[0].OpenSince.IsZero() || said[0].FailingSince.Before(began.UTC()) {
			t.Fatalf("after seven failures: %+v", said)
		}
		if last := said[0].Last; last == nil || last.Status != 503 || last.Class != domain.Class5xx || last.Body != "busy" {
			t.Errorf("the last answer: %+v", last)
		}
		for range 10 {
			r.offer(hook, 2)
			pass(time.Second)
		}
		said = r.said()
		if last := said[len(said)-1]; len(said) > 12 || last.Failures < circuitFailures || last.OpenSince.IsZero() || !last.NextProbeAt.After(last.OpenSince) {
			t.Fatalf("after 27 failures in 12 seconds: %d times, lastly %+v", len(said), last)
		}
		pass(10 * time.Second)
		before := said[len(said)-1]
		r.offer(hook, 1) // a probe
		pass(2 * time.Second)
		if said = r.said(); len(said) != 1 || said[0].Failures != before.Failures+1 || !said[0].NextProbeAt.After(before.NextProbeAt) || !said[0].OpenSince.Equal(before.OpenSince) {
			t.Fatalf("after a failed probe: %+v, before it %+v", said, before)
		}
		r.answers(func(*Request) Response { return Response{Status: http.StatusOK, Class: domain.ClassOK} })
		pass(time.Minute)
		r.offer(hook, 1)
		pass(2 * time.Second)
		if said = r.said(); len(said) != 1 || said[0].Failures != 0 || !said[0].OpenSince.IsZero() || !said[0].FailingSince.IsZero() || said[0].Last != nil {
			t.Fatalf("after a good probe: %+v", said)
		}
	})
}

// TestTurnsAreTold has a webhook fail and recover within the second after which it is told, and
// fail because of alerts, which don't count.
func TestTurnsAreTold(t *testing.T) {
	t.Parallel()
	hook := webhook()
	hook.Events = domain.WebhookTypes()
	onRig(t, true, []domain.Webhook{hook}, func(t *testing.T, r *rig) {
		answer := func(status int, kind domain.EventType, n int) {
			r.answers(func(*Request) Response { return Response{Status: status, Class: domain.ClassOf(status)} })
			for range n {
				task := r.task(r.hooks[0])
				task.EventType = kind
				r.Offer(r.hooks[0], &Job{Task: task, Origin: r})
			}
			<-time.After(50 * time.Millisecond) // of a webhook that fails, one begins every 4 ms
			synctest.Wait()
		}
		told := func() (alarming []bool) {
			<-time.After(2 * time.Second)
			synctest.Wait()
			for _, c := range r.said() {
				alarming = append(alarming, c.Alarming)
			}
			return alarming
		}
		for range 3 {
			answer(503, domain.ShipmentCreated, 6)
			answer(200, domain.ShipmentCreated, 1)
		}
		if got := told(); len(got) != 2 || !got[0] || got[1] {
			t.Errorf("after failures and successes within a second: %v", got)
		}
		answer(503, domain.WebhookFailing, 10)
		answer(503, domain.ShipmentCreated, 4)
		if got := told(); len(got) != 1 || got[0] {
			t.Errorf("after ten failures of alerts and four of events: %v", got)
		}
		answer(503, domain.ShipmentCreated, 1)
		if got := told(); len(got) != 1 || !got[0] {
			t.Errorf("after five failures of events: %v", got)
		}
	})
}

// TestOthersTellNothing has the same failures seen by a dispatcher that does not own the webhook.
func TestOthersTellNothing(t *testing.T) {
	t.Parallel()
	onRig(t, false, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
		r.answers(func(*Request) Response { return Response{Status: http.StatusServiceUnavailable} })
		r.offer(r.hooks[0], 7)
		<-time.After(3 * time.Second)
		synctest.Wait()
		if said := r.said(); len(said) > 0 {
			t.Errorf("one that does not own the webhook tells %+v", said)
		}
	})
}

// TestCircuitsAreAdopted has a new owner find what the one before said.
func TestCircuitsAreAdopted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before   domain.Circuit
		succeeds bool
		want     []int // failures, as told
	}{
		"failures go on":            {domain.Circuit{Failures: 7, FailingSince: time.Unix(1, 0)}, false, nil},
		"an open circuit is closed": {domain.Circuit{Failures: 25, FailingSince: time.Unix(1, 0), OpenSince: time.Unix(2, 0)}, false, []int{25}},
		"a success counts more":     {domain.Circuit{Failures: 7, FailingSince: time.Unix(1, 0)}, true, []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onRig(t, true, []domain.Webhook{webhook()}, func(t *testing.T, r *rig) {
				test.before.SaidAt = time.Now()
				<-time.After(time.Second)
				if test.succeeds {
					r.offer(r.hooks[0], 1)
					synctest.Wait()
				}
				r.Adopt(map[domain.WebhookID]domain.Circuit{r.hooks[0].ID: test.before, "unknown": {Failures: 3}})
				<-time.After(2 * time.Second)
				synctest.Wait()
				said := r.said()
				if len(said) != len(test.want) || len(said) == 1 && (said[0].Failures != test.want[0] || !said[0].OpenSince.IsZero()) {
					t.Errorf("told %+v, want failures %v", said, test.want)
				}
				r.answers(func(*Request) Response { return Response{Status: http.StatusServiceUnavailable} })
				r.offer(r.hooks[0], 1)
				<-time.After(2 * time.Second)
				synctest.Wait()
				failures := test.before.Failures + 1
				if test.succeeds {
					failures = 1
				}
				if said = r.said(); len(said) != 1 || said[0].Failures != failures {
					t.Errorf("after one more: %+v, want %d", said, failures)
				}
			})
		})
	}
}
