package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/shared/domain"
)

// slack is what a loaded machine may add to a wait.
const slack = 3 * time.Second

func schedule(seconds ...float64) func(*client.Webhook) {
	return func(h *client.Webhook) {
		h.RetryScheduleSeconds = append([]float64{}, seconds...)
	}
}

// arrivals notes when each POST came.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
}

func (a *arrivals) note(then func(sink.Post) sink.Answer) func(sink.Post) sink.Answer {
	return func(p sink.Post) sink.Answer {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.times = append(a.times, p.At)
		return then(p)
	}
}

func (a *arrivals) list() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time{}, a.times...)
}

func retries(w *world) {
	endpoint, hook := w.register("flaky", schedule(0.5, 1))
	endpoint.Keep()
	var came arrivals
	endpoint.Behave(came.note(failFirst(2)))
	e := w.event(domain.ShipmentDelivered, "")
	w.post(e)
	w.arrived(endpoint, []string{e.ID})
	d := w.delivery(hook.ID, e.ID, "delivered")
	post, _ := endpoint.Newest(e.ID)
	e.sameAs(w.T, post)
	if post.Attempt != 3 || post.DeliveryID != d.ID {
		w.Errorf("the last POST is attempt %d of %s, want 3 of %s", post.Attempt, post.DeliveryID, d.ID)
	}
	times := came.list()
	if len(times) != 3 {
		w.Fatalf("%d POSTs came, want 3", len(times))
	}
	for i, want := range []time.Duration{500 * time.Millisecond, time.Second} {
		if wait := times[i+1].Sub(times[i]); wait < want*8/10 || wait > want*12/10+slack {
			w.Errorf("wait %d took %s, want %s ± 20 %%", i+1, wait, want)
		}
	}
	type line struct {
		Number, Status int
		Error, Body    string
	}
	var log []line
	for _, a := range d.Attempts {
		log = append(log, line{a.Number, a.Status, a.Error, a.ResponseBody})
	}
	want := []line{{1, 500, "", "failure 1"}, {2, 500, "", "failure 2"}, {3, 200, "", ""}}
	if diff := cmp.Diff(want, log); diff != "" {
		w.Errorf("attempt log (-want +got):\n%s", diff)
	}
	// Nobody at home: the log says why.
	w.sink.Down()
	f := w.event(domain.ShipmentDelivered, "")
	w.post(f)
	retrying := w.delivery(hook.ID, f.ID, "retrying")
	if retrying.NextAttemptAt.IsZero() || len(retrying.Attempts) == 0 || retrying.Attempts[0].Error == "" {
		w.Errorf("a delivery to a closed port shows %+v", retrying)
	}
	if err := w.sink.Up(); err != nil {
		w.Fatal(err)
	}
}

func retryAfter(w *world) {
	for name, header := range map[string]func() string{
		"seconds": func() string { return "3" },
		"date":    func() string { return time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		status := map[string]int{"seconds": http.StatusTooManyRequests, "date": http.StatusServiceUnavailable}[name]
		endpoint, hook := w.register(name, schedule(0.1, 0.1))
		var came arrivals
		endpoint.Behave(came.note(func(p sink.Post) sink.Answer {
			if p.OfID == 1 {
				return sink.Answer{Status: status, Header: http.Header{"Retry-After": {header()}}}
			}
			return sink.Answer{}
		}))
		e := w.event(domain.ShipmentCreated, "")
		w.post(e)
		w.arrived(endpoint, []string{e.ID})
		w.delivery(hook.ID, e.ID, "delivered")
		times := came.list()
		if wait := times[1].Sub(times[0]); wait < 2900*time.Millisecond || wait > 5*time.Second+slack {
			w.Errorf("after Retry-After as %s the next attempt came after %s", name, wait)
		}
	}
}

func gone(w *world) {
	endpoint, hook := w.register("gone", schedule(0.2))
	endpoint.Behave(answerWith(http.StatusGone))
	first := w.publish(1)
	w.delivery(hook.ID, first[0], "held")
	w.await("the webhook is inactive", patience, func() bool {
		h, err := w.api.Webhook(w.Context(), hook.ID)
		return err == nil && h.DisabledReason != nil && *h.DisabledReason == "gone"
	})
	rest := w.publish(20)
	for _, id := range rest {
		w.delivery(hook.ID, id, "held")
	}
	posts := endpoint.Posts()
	if posts != 1 {
		w.Errorf("%d POSTs came to a webhook that is gone, want 1", posts)
	}
	endpoint.Behave(nil)
	if err := w.api.SetActive(w.Context(), hook.ID, true); err != nil {
		w.Fatal(err)
	}
	all := slices.Concat(first, rest)
	w.arrived(endpoint, all)
	if diff := cmp.Diff(all, endpoint.Order()); diff != "" {
		w.Errorf("order (-want +got):\n%s", diff)
	}
	h, err := w.api.Webhook(w.Context(), hook.ID)
	if err != nil || h.DisabledReason != nil || h.Active == nil || !*h.Active {
		w.Errorf("the webhook is active again and shows %+v, %v", h, err)
	}
}

func inactive(w *world) {
	endpoint, hook := w.register("paused", nil)
	if err := w.api.SetActive(w.Context(), hook.ID, false); err != nil {
		w.Fatal(err)
	}
	ids := w.publish(150)
	w.delivery(hook.ID, ids[len(ids)-1], "held")
	if n := endpoint.Posts(); n != 0 {
		w.Errorf("%d POSTs came to an inactive webhook", n)
	}
	// A retry that is asked for waits as well.
	if err := w.api.SetActive(w.Context(), hook.ID, true); err != nil {
		w.Fatal(err)
	}
	w.arrived(endpoint, ids)
	if diff := cmp.Diff(ids[:100], endpoint.Order()[:100]); diff != "" {
		w.Errorf("order of the first 100 (-want +got):\n%s", diff)
	}
	if n := endpoint.Posts(); n != len(ids) {
		w.Errorf("%d POSTs came, want %d", n, len(ids))
	}
	fresh := w.publish(1)
	w.arrived(endpoint, fresh)
}

func deleting(w *world) {
	// The second attempt must not come before the webhook is deleted, nor after the look at the end.
	endpoint, hook := w.register("doomed", schedule(10))
	endpoint.Behave(answerWith(http.StatusInternalServerError))
	other, _ := w.register("other", nil)
	ids := w.publish(5)
	for _, id := range ids {
		w.delivery(hook.ID, id, "retrying")
	}
	if err := w.api.Delete(w.Context(), hook.ID); err != nil {
		w.Fatal(err)
	}
	d := w.delivery(hook.ID, ids[0], "failed")
	if d.Reason == nil || *d.Reason != domain.ReasonWebhookDeleted {
		w.Errorf("reason is %v", d.Reason)
	}
	posts := endpoint.Posts()
	ids = append(ids, w.publish(5)...)
	w.arrived(other, ids)
	w.quiet(endpoint, 12*time.Second)
	if posts != 5 {
		w.Errorf("%d POSTs came, want 5", posts)
	}
	if d = w.delivery(hook.ID, ids[0], "failed"); len(d.Attempts) != 1 {
		w.Errorf("the log of a deleted webhook shows %d attempts, want 1", len(d.Attempts))
	}
}

func rotation(w *world) {
	endpoint, hook := w.register("rotating", nil)
	endpoint.Keep()
	signatures := func(id string) []string {
		post, _ := endpoint.Newest(id)
		return strings.Fields(post.Header.Get("webhook-signature"))
	}
	made, err := w.api.Rotate(w.Context(), hook.ID, 4*time.Second)
	secret := made.Reveal()
	if err != nil || secret == hook.Secret {
		w.Fatalf("rotate: %v", err)
	}
	if err := endpoint.Trust(secret, hook.Secret); err != nil {
		w.Fatal(err)
	}
	ids := w.publish(1)
	w.arrived(endpoint, ids)
	both := signatures(ids[0])
	if len(both) != 2 {
		w.Fatalf("%d signatures during the overlap, want 2", len(both))
	}
	post, _ := endpoint.Newest(ids[0])
	post.Header.Set("webhook-signature", both[0])
	if !verifies(w, secret, post) {
		w.Error("the first signature is not the new secret's")
	}
	post.Header.Set("webhook-signature", both[1])
	if !verifies(w, hook.Secret, post) {
		w.Error("the second signature is not the old secret's")
	}
	// One publication after the other until the overlap is over.
	if err := endpoint.Trust(secret); err != nil {
		w.Fatal(err)
	}
	w.await("the old secret signs no more", patience, func() bool {
		ids := w.publish(1)
		w.arrived(endpoint, ids)
		return len(signatures(ids[0])) == 1
	})
}

func onRequest(w *world) {
	endpoint, hook := w.register("asked", schedule(0.1))
	endpoint.Keep()
	ctx := w.Context()
	ids := w.publish(3)
	w.arrived(endpoint, ids)
	d := w.delivery(hook.ID, ids[0], "delivered")

	if err := w.api.Retry(ctx, d.ID); err != nil {
		w.Fatalf("retry: %v", err)
	}
	w.await("the retry", patience, func() bool { return endpoint.Receipt(ids[0]).Posts == 2 })
	var err error
	w.await("the retry's record", patience, func() bool {
		d, _, err = w.api.DeliveryOf(ctx, hook.ID, ids[0])
		return err == nil && d.Status == "delivered" && len(d.Attempts) == 2
	})
	if post, _ := endpoint.Newest(ids[0]); post.Attempt != 2 || d.Attempts[1].Number != 2 {
		w.Errorf("the retry is attempt %d, in the log %d; want 2", post.Attempt, d.Attempts[1].Number)
	}
	var matched int
	matched, err = w.api.Replay(ctx, hook.ID, time.Now().Add(-time.Hour), "all")
	if err != nil || matched != 3 {
		w.Errorf("replay matches %d, %v; want 3", matched, err)
	}
	w.await("the replay", patience, func() bool {
		return endpoint.Receipt(ids[0]).Posts == 3 && endpoint.Receipt(ids[1]).Posts == 2 && endpoint.Receipt(ids[2]).Posts == 2
	})

	// Failed ones are replayed when nothing else is said.
	endpoint.Behave(answerWith(http.StatusInternalServerError))
	failed := w.publish(1)
	w.delivery(hook.ID, failed[0], "failed")
	endpoint.Behave(nil)
	if matched, err = w.api.Replay(ctx, hook.ID, time.Now().Add(-time.Hour), ""); err != nil || matched != 1 {
		w.Errorf("replay of what failed matches %d, %v; want 1", matched, err)
	}
	w.arrived(endpoint, failed)
	if d = w.delivery(hook.ID, failed[0], "delivered"); len(d.Attempts) != 3 {
		w.Errorf("%d attempts, want 3", len(d.Attempts))
	}

	// A test is sent to an inactive webhook too.
	if err := w.api.SetActive(ctx, hook.ID, false); err != nil {
		w.Fatal(err)
	}
	id, err := w.api.Test(ctx, hook.ID)
	if err != nil {
		w.Fatalf("test: %v", err)
	}
	if d, err = w.api.Delivery(ctx, id); err != nil || !d.Test {
		w.Errorf("the test is listed as %+v, %v", d, err)
	}
	w.await("the test", patience, func() bool { d, err = w.api.Delivery(ctx, id); return err == nil && d.Status == "delivered" })
	post, ok := endpoint.Newest(d.EventID)
	if !ok || !strings.Contains(string(post.Body), `"test":true`) {
		w.Errorf("the test arrived as %s", post.Body)
	}
}

func circuit(w *world) {
	endpoint, hook := w.register("broken", schedule(60, 600))
	endpoint.Behave(answerWith(http.StatusInternalServerError))
	var ids []string
	w.await("the circuit is open", 2*patience, func() bool {
		ids = append(ids, w.publish(1)...)
		// An earlier one: the newest is not in the log yet.
		d, _, err := w.api.DeliveryOf(w.Context(), hook.ID, ids[max(0, len(ids)-10)])
		return err == nil && d.Reason != nil && *d.Reason == domain.ReasonCircuitOpen
	})
	if n := endpoint.Posts(); n < 20 {
		w.Errorf("the circuit opened after %d failures, want 20 at least", n)
	}
	posts := endpoint.Posts()
	held := w.publish(30)
	for _, id := range held {
		if d := w.delivery(hook.ID, id, "retrying"); len(d.Attempts) > 1 {
			w.Errorf("a delivery under an open circuit has %d attempts", len(d.Attempts))
		}
	}
	w.await("a probe", patience, func() bool { return endpoint.Posts() > posts })
	if n := endpoint.Posts() - posts; n > 3 {
		w.Errorf("%d POSTs came through an open circuit", n)
	}
	endpoint.Behave(nil)
	// One that was published when a probe was due was the probe, and is due in a minute.
	waited := slices.DeleteFunc(slices.Clone(held), func(id string) bool {
		r := endpoint.Receipt(id)
		return r.Posts > 0 && r.Accepted == 0
	})
	if n := len(held) - len(waited); n > 3 {
		w.Errorf("%d of those under an open circuit were sent, want 3 probes at most", n)
	}
	w.arrived(endpoint, waited)
	for _, id := range waited {
		w.delivery(hook.ID, id, "delivered")
	}
	after := w.publish(1)
	w.arrived(endpoint, after)
}

func exhausted(w *world) {
	endpoint, hook := w.register("dead", schedule(0.1, 0.1))
	endpoint.Behave(func(p sink.Post) sink.Answer {
		return sink.Answer{Status: []int{302, 404, 500}[p.OfID-1], Header: http.Header{"Location": {endpoint.URL}}}
	})
	ids := w.publish(1)
	d := w.delivery(hook.ID, ids[0], "failed")
	var statuses []int
	for _, a := range d.Attempts {
		statuses = append(statuses, a.Status)
	}
	if diff := cmp.Diff([]int{302, 404, 500}, statuses); diff != "" {
		w.Errorf("statuses (-want +got):\n%s", diff)
	}
	if d.Reason == nil || *d.Reason != domain.ReasonExhausted {
		w.Errorf("reason is %v", d.Reason)
	}
	w.quiet(endpoint, time.Second)
	once, only := w.register("once", schedule())
	once.Behave(answerWith(http.StatusInternalServerError))
	ids = w.publish(1)
	if d = w.delivery(only.ID, ids[0], "failed"); len(d.Attempts) != 1 {
		w.Errorf("an empty schedule makes %d attempts", len(d.Attempts))
	}
}

func rateLimit(w *world) {
	const perSecond, events = 20, 80
	endpoint, _ := w.register("limited", func(h *client.Webhook) { rate := float64(perSecond); h.RatePerSecond = &rate })
	var came arrivals
	endpoint.Behave(came.note(answerWith(http.StatusOK)))
	ids := w.publish(events)
	w.arrived(endpoint, ids)
	times := came.list()
	for i := range times {
		n := 0
		for _, t := range times[i:] {
			if t.Sub(times[i]) < 2*time.Second {
				n++
			}
		}
		// Two seconds' worth, a second's burst at their start, and what jitter of the
		// network adds.
		if n > 2*perSecond+perSecond/2+2 {
			w.Fatalf("%d POSTs came within 2 s, with a limit of %d/s", n, perSecond)
		}
	}
	if took := times[len(times)-1].Sub(times[0]); took < 3*time.Second || took > 20*time.Second {
		w.Errorf("%d events at %d/s took %s", events, perSecond, took)
	}
}

func inFlight(w *world) {
	const most, events = 4, 60
	endpoint, _ := w.register("slow", func(h *client.Webhook) { h.MaxInFlight = most })
	endpoint.Behave(func(sink.Post) sink.Answer { return sink.Answer{Delay: 150 * time.Millisecond} })
	ids := w.publish(events)
	w.arrived(endpoint, ids)
	if n := endpoint.MostAtOnce(); n > most {
		w.Errorf("%d attempts were in flight at once, want %d at most", n, most)
	}
	if n := endpoint.Posts(); n != events {
		w.Errorf("%d POSTs came, want %d", n, events)
	}
}

func changes(w *world) {
	for i := range 20 {
		endpoint, hook := w.register(fmt.Sprintf("new-%d", i), nil)
		ids := w.publish(1)
		w.arrived(endpoint, ids)
		if err := w.api.Delete(w.Context(), hook.ID); err != nil {
			w.Fatal(err)
		}
		posts := endpoint.Posts()
		later := w.publish(1)
		if i == 19 {
			w.quiet(endpoint, time.Second)
		}
		if n := endpoint.Posts(); n != posts {
			w.Errorf("after its deletion a webhook got %d more POSTs, %v of the event accepted before and %v of the one after",
				n-posts, endpoint.Receipt(ids[0]), endpoint.Receipt(later[0]))
		}
	}
}

// graceful ends every process in turn with SIGTERM while events flow to a receiver that
// takes its time.
func graceful(w *world) {
	endpoint, _ := w.register("steady", func(h *client.Webhook) { h.MaxInFlight = 64 })
	endpoint.Behave(func(sink.Post) sink.Answer { return sink.Answer{Delay: 100 * time.Millisecond} })
	var ids []string
	stopping := w.stack.Processes()
	if w.stack.NATS != nil {
		stopping = stopping[1:] // the bus' own end is the chaos runs' matter
	}
	for _, p := range stopping {
		ids = append(ids, w.publish(100)...)
		ctx, cancel := context.WithTimeout(w.Context(), 40*time.Second)
		code, err := p.Stop(ctx)
		cancel()
		if err != nil || code != 0 {
			w.Fatalf("%s exits with %d, %v", p.Name, code, err)
		}
		if err := p.Start(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
	ids = append(ids, w.publish(20)...)
	w.arrived(endpoint, ids)
	w.quiet(endpoint, 2*time.Second)
	if n := endpoint.Posts(); n != len(ids) {
		w.Errorf("%d POSTs came for %d events: a process that was stopped in good order repeats nothing", n, len(ids))
	}
}

func isolation(w *world) {
	hanging, _ := w.register("hanging", func(h *client.Webhook) { h.TimeoutSeconds = 5; h.RetryScheduleSeconds = []float64{60} })
	hanging.Behave(func(sink.Post) sink.Answer { return sink.Answer{Hang: true} })
	healthy, _ := w.register("healthy", nil)
	ids := w.publish(500)
	w.await("500 events at the healthy receiver", 10*time.Second, func() bool { return healthy.Accepted(ids) == len(ids) })
	// They time out together, and the end of each may not have been noticed here when the
	// next one begins.
	if n := hanging.MostAtOnce(); n > 2*32 {
		w.Errorf("%d attempts hang at once, want 32 at most", n)
	}
	if healthy.Posts() != len(ids) {
		w.Errorf("the healthy receiver got %d POSTs, want %d", healthy.Posts(), len(ids))
	}
}
