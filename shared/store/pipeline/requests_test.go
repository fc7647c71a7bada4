package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func requestTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"test from request to answer":       testRequestTest,
		"test of an unknown webhook":        testRequestTestUnknown,
		"retry from request to answer":      testRequestRetry,
		"retry while an attempt is due":     testRequestRetryConflict,
		"retry once under concurrency":      testRequestRetryConcurrent,
		"replay matches":                    testReplay,
		"replay leaves open requests alone": testReplayTwice,
		"relays what is not answered":       testOpenRequests,
		"leaves out what the log lost":      testOpenRequestsGone,
	}
}

func (b *bench) openRequests(t *testing.T, before time.Time) []domain.Task {
	t.Helper()
	var all []domain.Task
	after := ""
	for {
		page, err := b.OpenRequests(t.Context(), before, after, 2)
		if err != nil {
			t.Fatalf("open requests: %v", err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Request
	}
}

func testRequestTest(t *testing.T, b *bench) {
	w := b.Webhook(t, func(w *domain.Webhook) { w.Active = false })
	e := pipelinetest.Event("evt_test")
	id, err := b.RequestTest(t.Context(), e, w.ID, domain.ForgeOldTime)
	if err != nil {
		t.Fatal(err)
	}
	e.ReceivedAt = noon
	if id != domain.NewDeliveryID(e.Key(), w.ID) {
		t.Error("not the delivery of the event to the webhook")
	}
	want := domain.Delivery{
		ID: id, Account: account, Webhook: w.ID, EventID: e.ID, EventType: e.Type, Status: domain.StatusPending,
		Test: true, CreatedAt: noon, UpdatedAt: noon,
	}
	d, attempts := b.Delivery(t, id)
	if diff := cmp.Diff(want, d); diff != "" || len(attempts) != 0 {
		t.Errorf("%d attempts, delivery (-want +got):\n%s", len(attempts), diff)
	}
	for _, f := range []pipeline.DeliveryFilter{{}, {Status: domain.StatusPending}, {EventID: e.ID}, {Webhook: w.ID}, {Since: noon}} {
		if got := b.Deliveries(t, f); !slices.Equal(got, []domain.DeliveryID{id}) {
			t.Errorf("filter %+v lists %v", f, got)
		}
	}
	if got := b.Deliveries(t, pipeline.DeliveryFilter{Status: domain.StatusFailed}); len(got) != 0 {
		t.Errorf("listed as failed: %v", got)
	}
	if page, _, err := b.Unsettled(t.Context(), noon.Add(time.Hour), pipeline.OutboxCursor{}, 9); err != nil || len(page) != 0 {
		t.Errorf("the test is in the outbox: %v", err)
	}
	tasks := b.openRequests(t, noon)
	wantTask := domain.Task{
		Delivery: id, Account: account, Webhook: w.ID, EventID: e.ID, EventType: e.Type, ReceivedAt: noon,
		Test: true, Forge: domain.ForgeOldTime, Body: e.Payload,
	}
	if len(tasks) == 1 {
		wantTask.Request = tasks[0].Request
	}
	if diff := cmp.Diff([]domain.Task{wantTask}, tasks); diff != "" {
		t.Fatalf("tasks (-want +got):\n%s", diff)
	}
	o := b.Outcome(e, w, domain.StatusDelivered)
	o.Test, o.Request = true, tasks[0].Request
	b.Recorded(t, o)
	if d, attempts := b.Delivery(t, id); d.Status != domain.StatusDelivered || !d.Test || len(attempts) != 1 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
	if got := b.Deliveries(t, pipeline.DeliveryFilter{}); !slices.Equal(got, []domain.DeliveryID{id}) {
		t.Errorf("listed %v", got)
	}
	if left := b.openRequests(t, noon.Add(time.Hour)); len(left) != 0 {
		t.Errorf("%d requests left", len(left))
	}
}

func testRequestTestUnknown(t *testing.T, b *bench) {
	w := b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	_, err := b.RequestTest(t.Context(), pipelinetest.Event("evt_1"), w.ID, "")
	storetest.WantNotFound(t, "another account's webhook", err)
	gone := b.Webhook(t)
	if err := b.DeleteWebhook(t.Context(), account, gone.ID); err != nil {
		t.Fatal(err)
	}
	_, err = b.RequestTest(t.Context(), pipelinetest.Event("evt_1"), gone.ID, "")
	storetest.WantNotFound(t, "a deleted webhook", err)
	_, err = b.GetEvent(t.Context(), account, "evt_1")
	storetest.WantNotFound(t, "the event of a refused test", err)
	b.Accepted(t, "evt_1")
	if _, err := b.RequestTest(t.Context(), pipelinetest.Event("evt_1"), b.Webhook(t).ID, ""); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("a test under a used id: %v", err)
	}
}

func testRequestRetry(t *testing.T, b *bench) {
	e, w := b.Accepted(t, "evt_1"), b.Webhook(t)
	o := b.Outcome(e, w, domain.StatusFailed)
	o.Reason = domain.ReasonExhausted
	b.Recorded(t, o)
	d, err := b.RequestRetry(t.Context(), account, o.Delivery)
	if err != nil || d.Status != domain.StatusPending || d.Reason != "" || d.Attempts != 1 {
		t.Fatalf("delivery %+v, %v", d, err)
	}
	if _, err := b.RequestRetry(t.Context(), account, o.Delivery); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("a second request: %v", err)
	}
	tasks := b.openRequests(t, noon)
	if len(tasks) != 1 || tasks[0].Rev != o.Rev.NextRun() || tasks[0].Attempts != 1 || tasks[0].RunAttempts != 0 || tasks[0].Test {
		t.Fatalf("tasks %+v", tasks)
	}
	again := b.After(o, domain.StatusDelivered)
	again.Rev, again.RunAttempts, again.Request = tasks[0].Rev+2, 1, tasks[0].Request
	b.Recorded(t, again)
	d, attempts := b.Delivery(t, o.Delivery)
	if d.Status != domain.StatusDelivered || d.Attempts != 2 || len(attempts) != 2 {
		t.Errorf("delivery %+v, %d attempts", d, len(attempts))
	}
	if left := b.openRequests(t, noon.Add(time.Hour)); len(left) != 0 {
		t.Errorf("%d requests left", len(left))
	}
}

func testRequestRetryConflict(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for _, c := range []struct {
		name     string
		status   domain.Status
		next     time.Duration
		inLane   bool
		conflict bool
	}{
		{"an attempt runs", domain.StatusPending, 0, false, true},
		{"an attempt is due", domain.StatusRetrying, 0, false, true},
		{"the next attempt is far", domain.StatusRetrying, time.Second, false, false},
		{"due, in the hold queue", domain.StatusRetrying, -time.Second, true, false},
		{"held", domain.StatusHeld, 0, true, false},
		{"delivered", domain.StatusDelivered, 0, false, false},
	} {
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", b.Next())), w, c.status)
		o.NextAttemptAt, o.InLane = noon.Add(c.next), c.inLane
		b.Recorded(t, o)
		_, err := b.RequestRetry(t.Context(), account, o.Delivery)
		if got := errors.Is(err, domain.ErrConflict); got != c.conflict || !got && err != nil {
			t.Errorf("%s: %v, conflict wanted: %v", c.name, err, c.conflict)
		}
	}
}

func testRequestRetryConcurrent(t *testing.T, b *bench) {
	o := b.Outcome(b.Accepted(t, "evt_1"), b.Webhook(t), domain.StatusFailed)
	b.Recorded(t, o)
	var mu sync.Mutex
	granted := 0
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, err := b.RequestRetry(t.Context(), account, o.Delivery)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				granted++
			case !errors.Is(err, domain.ErrConflict):
				t.Errorf("retry: %v", err)
			}
		})
	}
	wg.Wait()
	if granted != 1 || len(b.openRequests(t, noon)) != 1 {
		t.Errorf("%d granted, %d requests", granted, len(b.openRequests(t, noon)))
	}
}

func testReplay(t *testing.T, b *bench) {
	w, other := b.Webhook(t), b.Webhook(t)
	names := map[domain.DeliveryID]string{}
	for i := range 3 {
		b.everyStatus(t, w, names, fmt.Sprintf("%d-", i))
		b.Clock.Advance(20 * time.Hour)
	}
	b.everyStatus(t, other, names, "other-")
	stranger := replayJob(w.ID, noon, time.Time{}, pipeline.ResendFailed)
	stranger.Filter.Account = "other"
	if _, err := b.CreateJob(t.Context(), stranger); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("another account: %v", err)
	}
	replay := func(since, until time.Time, which pipeline.Resend) []string {
		t.Helper()
		replay, err := b.CreateJob(t.Context(), replayJob(w.ID, since, until, which))
		if err != nil || replay.ID == "" {
			t.Fatalf("replay %q: %v", replay.ID, err)
		}
		if matched := replay.Matched; (matched == 0) != (replay.None != nil) {
			t.Errorf("matched %d, none %v", matched, replay.None)
		}
		var got []string
		var answers []domain.Outcome
		for _, task := range b.openRequests(t, noon) {
			got = append(got, names[task.Delivery])
			answers = append(answers, domain.Outcome{Delivery: task.Delivery, Account: account, Request: task.Request, UpdatedAt: noon})
		}
		if len(got) != replay.Matched {
			t.Errorf("matched %d, requested %v", replay.Matched, got)
		}
		slices.Sort(got)
		b.Recorded(t, answers...) // of no revision: answered, and nothing changed
		return got
	}
	second := noon.Add(20 * time.Hour)
	for _, c := range []struct {
		name         string
		since, until time.Time
		which        pipeline.Resend
		want         []string
	}{
		{"failed since", second, time.Time{}, pipeline.ResendFailed, []string{"1-failed", "2-failed"}},
		{"failed until", noon, second, pipeline.ResendFailed, []string{"0-failed"}},
		{"all between", second, second.Add(time.Millisecond), pipeline.ResendAll, []string{"1-delivered", "1-failed", "1-retrying"}},
		{"nothing", noon.Add(1), second, pipeline.ResendAll, nil},
		{"undelivered since", second, time.Time{}, pipeline.ResendUndelivered, []string{"1-failed", "1-retrying", "2-failed", "2-retrying"}},
		{"long ago", time.Time{}, noon.Add(time.Millisecond), pipeline.ResendFailed, []string{"0-failed"}},
	} {
		if diff := cmp.Diff(c.want, replay(c.since, c.until, c.which)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func testReplayTwice(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for i := range 5 {
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", i)), w, domain.StatusFailed)
		b.Recorded(t, o)
		if i == 0 {
			if _, err := b.RequestRetry(t.Context(), account, o.Delivery); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Recorded(t, b.Outcome(b.Accepted(t, "evt_delivered"), w, domain.StatusDelivered))
	first, err := b.CreateJob(t.Context(), replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	if err != nil || first.Matched != 4 {
		t.Errorf("first replay: %+v, %v", first, err)
	}
	second, err := b.CreateJob(t.Context(), replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	want := map[domain.Status]int{domain.StatusPending: 5, domain.StatusDelivered: 1}
	if diff := cmp.Diff(want, second.None.ByStatus); err != nil || diff != "" || second.Matched != 0 || second.Status != domain.JobDone || first.ID == second.ID {
		t.Errorf("second replay: %v (-want +got):\n%s", err, diff)
	}
	if n := len(b.openRequests(t, noon)); n != 5 {
		t.Errorf("%d open requests", n)
	}
}

func testOpenRequests(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for i := range 5 {
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", i)), w, domain.StatusFailed)
		b.Recorded(t, o)
		if _, err := b.RequestRetry(t.Context(), account, o.Delivery); err != nil {
			t.Fatal(err)
		}
	}
	tasks := b.openRequests(t, noon)
	if len(tasks) != 5 || !slices.IsSortedFunc(tasks, func(a, b domain.Task) int { return strings.Compare(a.Request, b.Request) }) {
		t.Fatalf("%d tasks", len(tasks))
	}
	relayed := []string{tasks[0].Request, tasks[3].Request}
	if err := b.MarkRequestsRelayed(t.Context(), relayed, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n := len(b.openRequests(t, noon.Add(time.Minute))); n != 3 {
		t.Errorf("%d tasks that were not relayed, want 3", n)
	}
	if n := len(b.openRequests(t, noon.Add(time.Minute+time.Millisecond))); n != 5 {
		t.Errorf("%d tasks relayed before, want 5", n)
	}
}

func testOpenRequestsGone(t *testing.T, b *bench) {
	w := b.Webhook(t)
	lost := pipelinetest.Event("evt_lost") // recorded by its outcome alone
	lost.ReceivedAt = noon
	for range 2 {
		w := b.Webhook(t)
		o := b.Outcome(lost, w, domain.StatusFailed)
		b.Recorded(t, o)
		if _, err := b.RequestRetry(t.Context(), account, o.Delivery); err != nil {
			t.Fatal(err)
		}
	}
	kept := b.Outcome(b.Accepted(t, "evt_kept"), w, domain.StatusFailed)
	b.Recorded(t, kept)
	if _, err := b.RequestRetry(t.Context(), account, kept.Delivery); err != nil {
		t.Fatal(err)
	}
	tasks := b.openRequests(t, noon)
	if len(tasks) != 1 || tasks[0].Delivery != kept.Delivery {
		t.Errorf("tasks %+v", tasks)
	}
}
