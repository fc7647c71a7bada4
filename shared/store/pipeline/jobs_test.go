package pipeline_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
)

func jobTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"from the first page to the last answer": testJobPages,
		"the set is that of its beginning":       testJobBounded,
		"a plan matches what the job does":       testJobPlan,
		"a plan knows the webhooks' paces":       testJobPace,
		"cancelled in the middle":                testJobCancel,
		"advanced by two at a time":              testJobTwoLeaders,
		"a webhook deleted in the middle":        testJobWebhookDeleted,
		"counts each run once":                   testJobCounts,
		"put off is no answer":                   testJobPutOff,
		"another account sees nothing":           testJobAccounts,
		"pages of the list":                      testJobList,
		"turns of accounts and of their jobs":    testJobTurns,
		"waits while too much is open":           testJobWindow,
		"over days":                              testJobDays,
		"passes over what it does not select":    testJobPassesOver,
		"filters":                                testJobFilters,
		"filters by the last attempt":            testJobAttempts,
		"ends with the log":                      testJobRetention,
	}
}

func replayJob(w domain.WebhookID, since, until time.Time, which pipeline.Resend) pipeline.NewJob {
	return pipeline.NewJob{Kind: domain.JobReplay, By: "bucket/consumer", Filter: pipeline.JobFilter{
		DeliveryFilter: pipeline.DeliveryFilter{Account: account, Webhook: w, Since: since, Until: until}, Resend: which,
	}}
}

func retryJob(f pipeline.DeliveryFilter, which pipeline.Resend) pipeline.NewJob {
	f.Account = cmp.Or(f.Account, account)
	return pipeline.NewJob{Kind: domain.JobRetry, By: "bucket/consumer", Filter: pipeline.JobFilter{DeliveryFilter: f, Resend: which}}
}

// pageSize is how many deliveries a page of a job asks for.
const pageSize = 500

// failed records so many deliveries of a webhook that failed, one event each.
func (b *bench) failed(t *testing.T, w domain.Webhook, name string, n int) []domain.Outcome {
	t.Helper()
	return b.recorded(t, w, name, n, domain.StatusFailed)
}

// recorded records so many deliveries of a webhook, one event each.
func (b *bench) recorded(t *testing.T, w domain.Webhook, name string, n int, status domain.Status) []domain.Outcome {
	t.Helper()
	events := make([]domain.Event, n)
	for i := range events {
		events[i] = pipelinetest.Event(fmt.Sprintf("evt_%s_%d", name, i))
		events[i].Account = w.Account
	}
	var outcomes []domain.Outcome
	for part := range slices.Chunk(events, 1000) {
		for i, accepted := range b.Submit(t, pipeline.Submission{Account: w.Account, Events: part}).Events {
			part[i].ReceivedAt = accepted.ReceivedAt
			outcomes = append(outcomes, b.Outcome(part[i], w, status))
		}
	}
	b.Recorded(t, outcomes...)
	slices.SortFunc(outcomes, func(a, b domain.Outcome) int { return cmp.Compare(a.Delivery, b.Delivery) })
	return outcomes
}

func (b *bench) createJob(t *testing.T, job pipeline.NewJob) pipeline.CreatedJob {
	t.Helper()
	made, err := b.CreateJob(t.Context(), job)
	if err != nil {
		t.Fatalf("create job: %v", err)
	}
	return made
}

func (b *bench) advance(t *testing.T, id string) bool {
	t.Helper()
	_, more, err := b.AdvanceJob(t.Context(), id)
	if err != nil {
		t.Fatalf("advance job: %v", err)
	}
	return more
}

func (b *bench) job(t *testing.T, id string) domain.Job {
	t.Helper()
	job, err := b.GetJob(t.Context(), account, id)
	if err != nil {
		t.Fatalf("get job: %v", err)
	}
	return job
}

// answer records the first attempts of open requests.
func (b *bench) answer(t *testing.T, status domain.Status, tasks ...domain.Task) recorder.RecordResult {
	t.Helper()
	var outcomes []domain.Outcome
	for _, task := range tasks {
		outcomes = append(outcomes, b.ran(task, status))
	}
	return b.Recorded(t, outcomes...)
}

// ran is the first outcome of a task.
func (b *bench) ran(task domain.Task, status domain.Status) domain.Outcome {
	o := b.Outcome(domain.Event{Account: task.Account, ID: task.EventID, Type: task.EventType, ReceivedAt: task.ReceivedAt}, domain.Webhook{ID: task.Webhook}, status)
	o.Rev, o.Attempts, o.Attempt.Number, o.Request = task.Rev.Next(), task.Attempts+1, task.Attempts+1, task.Request
	return o
}

func testJobPages(t *testing.T, b *bench) {
	w := b.Webhook(t)
	const n = 2*pageSize + 1
	outcomes := b.failed(t, w, "a", n)
	made := b.createJob(t, replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	want := domain.Job{
		ID: made.ID, Account: account, Kind: domain.JobReplay, Status: domain.JobRunning, CreatedBy: "bucket/consumer", CreatedAt: noon, Matched: n,
		Filter: fmt.Appendf(nil, `{"webhookId":%q,"status":"undelivered","since":"2025-06-10T12:00:00Z"}`, w.ID),
	}
	if diff := gocmp.Diff(want, made.Job); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	for page, more := range []bool{true, false} {
		if got := b.job(t, made.ID); got.Sent != (page+1)*pageSize || got.Status != domain.JobRunning {
			t.Errorf("after page %d: %+v", page, got)
		}
		if got := b.advance(t, made.ID); got != more {
			t.Errorf("after page %d: more is %v", page, got)
		}
	}
	if b.advance(t, made.ID) {
		t.Error("there is more after the end")
	}
	tasks := b.openRequestsBy(t, 300)
	if len(tasks) != n || tasks[0].Delivery != outcomes[0].Delivery || tasks[n-1].Delivery != outcomes[n-1].Delivery {
		t.Fatalf("%d tasks", len(tasks))
	}
	b.answer(t, domain.StatusDelivered, tasks[:n-2]...)
	b.answer(t, domain.StatusRetrying, tasks[n-2])
	if got := b.job(t, made.ID); got.Sent != n || got.Delivered != n-2 || got.Failed != 1 || got.Status != domain.JobRunning {
		t.Errorf("before the last answer: %+v", got)
	}
	b.answer(t, domain.StatusFailed, tasks[n-1])
	if got := b.job(t, made.ID); got.Delivered != n-2 || got.Failed != 2 || got.Status != domain.JobDone {
		t.Errorf("at the end: %+v", got)
	}
}

func (b *bench) openRequestsBy(t *testing.T, limit int) []domain.Task {
	t.Helper()
	var all []domain.Task
	for after := ""; ; after = all[len(all)-1].Request {
		page, err := b.OpenRequests(t.Context(), noon, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); len(page) == 0 {
			return all
		}
	}
}

// A page looks through 4,000 deliveries, whether they are selected or not.
func testJobPassesOver(t *testing.T, b *bench) {
	w := b.Webhook(t)
	const others, wanted = 4_100, 10
	b.failed(t, w, "a", pageSize)
	b.Clock.Advance(time.Second)
	b.recorded(t, w, "b", others, domain.StatusRetrying)
	b.Clock.Advance(time.Second)
	b.failed(t, w, "c", wanted)
	made := b.createJob(t, replayJob(w.ID, noon, time.Time{}, pipeline.ResendFailed))
	if made.Matched != pageSize+wanted {
		t.Errorf("%d were matched", made.Matched)
	}
	for page, want := range []struct {
		sent int
		more bool
	}{{0, true}, {wanted, false}} {
		if sent, more, err := b.AdvanceJob(t.Context(), made.ID); err != nil || sent != want.sent || more != want.more {
			t.Errorf("page %d: sent %d, more %v, %v, want %+v", page, sent, more, err, want)
		}
	}
}

func testJobBounded(t *testing.T, b *bench) {
	w := b.Webhook(t)
	outcomes := b.failed(t, w, "a", pageSize+3)
	last := outcomes[len(outcomes)-3:]
	running := b.Outcome(b.Accepted(t, "evt_running"), w, domain.StatusPending)
	running.Rev, running.Attempt = 1, nil
	b.Recorded(t, running)
	made := b.createJob(t, replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	b.Clock.Advance(time.Minute)
	// What fails from now on is none of it, nor what somebody asks for, or is delivered.
	late := b.Outcome(domain.Event{Account: account, ID: "evt_running", ReceivedAt: noon}, w, domain.StatusFailed)
	b.Recorded(t, late)
	b.failed(t, w, "later", 2)
	if _, err := b.RequestRetry(t.Context(), account, last[0].Delivery); err != nil {
		t.Fatal(err)
	}
	b.Recorded(t, b.After(last[1], domain.StatusDelivered))
	b.advance(t, made.ID)
	if got := b.job(t, made.ID); got.Matched != pageSize+3 || got.Sent != pageSize+1 {
		t.Errorf("job %+v", got)
	}
	// A dispatcher's clock is ahead, and what is seen counts.
	o := b.Outcome(b.Accepted(t, "evt_ahead"), w, domain.StatusFailed)
	o.UpdatedAt = o.UpdatedAt.Add(time.Second)
	b.Recorded(t, o)
	made = b.createJob(t, retryJob(pipeline.DeliveryFilter{EventID: "evt_ahead"}, pipeline.ResendFailed))
	if got := b.job(t, made.ID); got.Matched != 1 || got.Sent != 1 {
		t.Errorf("job of what was recorded ahead of time: %+v", got)
	}
}

func testJobPlan(t *testing.T, b *bench) {
	w, other := b.Webhook(t), b.Webhook(t)
	names := map[domain.DeliveryID]string{}
	b.everyStatus(t, w, names, "a-")
	b.Clock.Advance(time.Hour)
	b.everyStatus(t, other, names, "b-")
	for _, job := range []pipeline.NewJob{
		replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered),
		replayJob(w.ID, noon, time.Time{}, pipeline.ResendAll),
		retryJob(pipeline.DeliveryFilter{Since: noon}, pipeline.ResendAll),
		retryJob(pipeline.DeliveryFilter{Webhook: other.ID}, pipeline.Resend(domain.StatusHeld)),
		retryJob(pipeline.DeliveryFilter{Webhook: other.ID}, pipeline.Resend(domain.StatusPending)),
	} {
		plan, err := b.PlanJob(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.PlanJob(t.Context(), job)
		if diff := gocmp.Diff(plan, again); err != nil || diff != "" {
			t.Errorf("a plan changes something: %v\n%s", err, diff)
		}
		made := b.createJob(t, job)
		tasks := b.openRequests(t, noon.Add(2*time.Hour))
		if len(tasks) != plan.Matched || made.Matched != plan.Matched || b.job(t, made.ID).Sent != plan.Matched {
			t.Errorf("%+v: plan %+v, job %+v, %d requests", job, plan, made.Job, len(tasks))
		}
		if plan.Matched > 0 && !plan.Oldest.Equal(tasks[0].ReceivedAt) {
			t.Errorf("oldest is %v, want %v", plan.Oldest, tasks[0].ReceivedAt)
		}
		delivered := 0
		for _, task := range tasks {
			if names[task.Delivery] == "a-delivered" || names[task.Delivery] == "b-delivered" {
				delivered++
			}
			b.Recorded(t, domain.Outcome{Delivery: task.Delivery, Account: account, Request: task.Request, UpdatedAt: noon})
		}
		if plan.Delivered != delivered {
			t.Errorf("%d are delivered, want %d", plan.Delivered, delivered)
		}
	}
	_, err := b.PlanJob(t.Context(), replayJob(domain.WebhookID("0190c0f0-0000-7000-8000-000000000000"), noon, time.Time{}, pipeline.ResendAll))
	storetest.WantNotFound(t, "plan a replay of no webhook", err)
}

func testJobPace(t *testing.T, b *bench) {
	rate := 2.0
	slow := b.Webhook(t, func(w *domain.Webhook) { w.RatePerSecond = &rate })
	wide := b.Webhook(t, func(w *domain.Webhook) { w.MaxInFlight = 10 })
	known := b.Webhook(t, func(w *domain.Webhook) { w.MaxInFlight = 1 })
	b.failed(t, slow, "slow", 10)
	b.failed(t, wide, "wide", 20)
	b.failed(t, known, "known", 30)
	b.Clock.Advance(time.Second)                                                        // it is the newest
	b.Recorded(t, b.Outcome(b.Accepted(t, "evt_known"), known, domain.StatusDelivered)) // in 1.5 ms
	for _, c := range []struct {
		name   string
		filter pipeline.DeliveryFilter
		want   time.Duration
	}{
		{"by its rate", pipeline.DeliveryFilter{Webhook: slow.ID}, 5 * time.Second},
		{"assumed", pipeline.DeliveryFilter{Webhook: wide.ID}, 200 * time.Millisecond},
		{"as it answered", pipeline.DeliveryFilter{Webhook: known.ID}, 45 * time.Millisecond},
		{"the slowest", pipeline.DeliveryFilter{Since: noon}, 5 * time.Second},
		{"of nothing", pipeline.DeliveryFilter{EventID: "evt_none"}, 0},
	} {
		plan, err := b.PlanJob(t.Context(), retryJob(c.filter, pipeline.ResendUndelivered))
		if err != nil || plan.Takes.Round(time.Millisecond) != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, plan.Takes, err, c.want)
		}
	}
	// What a job has asked for goes first, also where nothing else matches.
	takes := func(what string, which pipeline.Resend, want time.Duration) {
		t.Helper()
		plan, err := b.PlanJob(t.Context(), replayJob(slow.ID, noon, time.Time{}, which))
		if err != nil || plan.Takes != want {
			t.Errorf("%s: %v, %v; want %v", what, plan.Takes, err, want)
		}
	}
	b.createJob(t, replayJob(slow.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	takes("of nothing, while a job runs", pipeline.ResendUndelivered, 5*time.Second)
	b.failed(t, slow, "later", 4)
	takes("behind a job", pipeline.ResendUndelivered, 7*time.Second)
	circuit := domain.Circuit{OpenSince: b.Clock.Now(), Failures: 20, FailingSince: b.Clock.Now(), NextProbeAt: b.Clock.Now().Add(time.Minute), SaidAt: b.Clock.Now()}
	if _, err := b.Record(t.Context(), []domain.RecordBatch{{Health: []domain.HealthChange{{Webhook: slow.ID, At: b.Clock.Now(), Circuit: &circuit}}}}); err != nil {
		t.Fatal(err)
	}
	takes("while the circuit is open", pipeline.ResendUndelivered, 67*time.Second)
}

func testJobCancel(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.failed(t, w, "a", pageSize+1)
	made := b.createJob(t, replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	_, err := b.CancelJob(t.Context(), "other", made.ID)
	storetest.WantNotFound(t, "cancel another's job", err)
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	for range 2 { // the second time it is over
		if got, err := b.CancelJob(ctx, account, made.ID); err != nil || got.Status != domain.JobCancelled || got.Sent != pageSize {
			t.Errorf("cancelled: %+v, %v", got, err)
		}
	}
	if got := b.Told(t, 0); got != "cancel-job job:"+made.ID {
		t.Errorf("told %s", got)
	}
	if b.advance(t, made.ID) || len(b.openRequestsBy(t, 300)) != pageSize {
		t.Error("it goes on")
	}
	if left, err := b.CancelledJobs(t.Context(), "", pageSize); err != nil || !slices.Equal(left, []pipeline.CancelledJob{{ID: made.ID, Account: account}}) {
		t.Errorf("cancelled with something left: %v, %v", left, err)
	}
	if left, err := b.CancelledJobs(t.Context(), made.ID, pageSize); err != nil || len(left) != 0 {
		t.Errorf("before the oldest: %v, %v", left, err)
	}
	runs, err := b.CancelledRuns(t.Context(), made.ID, "", pageSize-1)
	if err != nil || len(runs) != pageSize-1 {
		t.Fatalf("%d are left, %v", len(runs), err)
	}
	tasks := b.openRequestsBy(t, 300)
	rest, err := b.CancelledRuns(t.Context(), made.ID, runs[pageSize-2].Delivery, pageSize)
	if err != nil || len(rest) != 1 || rest[0].Delivery != tasks[pageSize-1].Delivery || rest[0].Rev != tasks[pageSize-1].Rev {
		t.Errorf("on the second page: %v, %v", rest, err)
	}
	isCancelled := func(run pipeline.CancelledRun, want bool) {
		t.Helper()
		if got, err := b.RunCancelled(t.Context(), run); err != nil || got != want {
			t.Errorf("%+v is cancelled: %t, %v", run, got, err)
		}
	}
	isCancelled(rest[0], true)
	isCancelled(pipeline.CancelledRun{Delivery: rest[0].Delivery, Rev: rest[0].Rev.NextRun()}, false)
	// What it had sent is still counted.
	b.answer(t, domain.StatusDelivered, b.openRequestsBy(t, 300)...)
	if got := b.job(t, made.ID); got.Delivered != pageSize || got.Sent != pageSize || got.Status != domain.JobCancelled {
		t.Errorf("at the end: %+v", got)
	}
	isCancelled(rest[0], false)
	if left, err := b.CancelledJobs(t.Context(), "", 1); err != nil || len(left) != 0 {
		t.Errorf("at the end %v have something left, %v", left, err)
	}
	done := b.createJob(t, replayJob(w.ID, noon.Add(time.Hour), time.Time{}, pipeline.ResendUndelivered))
	if got, err := b.CancelJob(t.Context(), account, done.ID); err != nil || got.Status != domain.JobDone {
		t.Errorf("a job that is done: %+v, %v", got, err)
	}
}

func testJobTwoLeaders(t *testing.T, b *bench) {
	w := b.Webhook(t)
	const n = 4 * pageSize
	b.failed(t, w, "a", n)
	made := b.createJob(t, replayJob(w.ID, noon, time.Time{}, pipeline.ResendUndelivered))
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() {
			var err error
			for range 8 {
				_, _, failure := b.AdvanceJob(t.Context(), made.ID)
				err = errors.Join(err, failure)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for b.advance(t, made.ID) {
		continue
	}
	if got := b.job(t, made.ID); got.Sent != n || len(b.openRequestsBy(t, 300)) != n {
		t.Errorf("job %+v, %d requests", got, len(b.openRequestsBy(t, 300)))
	}
}

func testJobWebhookDeleted(t *testing.T, b *bench) {
	gone, kept := b.Webhook(t), b.Webhook(t)
	b.failed(t, gone, "gone", pageSize)
	b.Clock.Advance(time.Second)
	b.failed(t, kept, "kept", 2)
	b.failed(t, gone, "more", 2)
	made := b.createJob(t, retryJob(pipeline.DeliveryFilter{Since: noon}, pipeline.ResendUndelivered))
	if err := b.DeleteWebhook(t.Context(), account, gone.ID); err != nil {
		t.Fatal(err)
	}
	b.advance(t, made.ID)
	if got := b.job(t, made.ID); got.Matched != pageSize+4 || got.Sent != pageSize+2 {
		t.Errorf("job %+v", got)
	}
	for _, task := range b.openRequestsBy(t, 300) {
		o := b.ran(task, domain.StatusDelivered)
		if task.Webhook == gone.ID {
			o.Status, o.Reason, o.Attempt = domain.StatusFailed, domain.ReasonWebhookDeleted, nil
		}
		b.Recorded(t, o)
	}
	if got := b.job(t, made.ID); got.Failed != pageSize || got.Delivered != 2 || got.Status != domain.JobDone {
		t.Errorf("at the end: %+v", got)
	}
}

func testJobCounts(t *testing.T, b *bench) {
	w := b.Webhook(t)
	o := b.failed(t, w, "a", 1)[0]
	made := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendUndelivered))
	task := b.openRequests(t, noon)[0]
	// What the run before still says is no answer, nor is one that comes again.
	b.Recorded(t, b.After(o, domain.StatusRetrying))
	if got := b.job(t, made.ID); got.Delivered+got.Failed != 0 {
		t.Errorf("the run before counts: %+v", got)
	}
	first := b.ran(task, domain.StatusRetrying)
	second := b.After(first, domain.StatusDelivered)
	b.Recorded(t, second, first)
	b.Recorded(t, first)
	b.Recorded(t, b.After(second, domain.StatusDelivered))
	if got := b.job(t, made.ID); got.Failed != 1 || got.Delivered != 0 || got.Sent != 1 || got.Status != domain.JobDone {
		t.Errorf("job %+v", got)
	}
}

func testJobPutOff(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.failed(t, w, "a", 1)
	first := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendUndelivered))
	held := b.ran(b.openRequests(t, noon)[0], domain.StatusRetrying)
	held.Attempt, held.InLane, held.Reason = nil, true, domain.ReasonCircuitOpen
	if told := b.Recorded(t, held).Jobs; len(told) > 0 {
		t.Errorf("put off: told %v", told)
	}
	if got := b.job(t, first.ID); got.Failed+got.Delivered != 0 || got.Status != domain.JobRunning {
		t.Errorf("put off: %+v", got)
	}
	// It may be asked for once more. One attempt answers both.
	b.Clock.Advance(time.Second)
	second := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendUndelivered))
	told := b.answer(t, domain.StatusDelivered, b.openRequests(t, noon)...).Jobs
	for _, id := range []string{first.ID, second.ID} {
		if !slices.Contains(told, recorder.JobKey{Account: account, ID: id}) || len(told) != 2 {
			t.Errorf("after the attempt: told %v", told)
		}
		if got := b.job(t, id); got.Delivered != 1 || got.Failed != 0 || got.Status != domain.JobDone {
			t.Errorf("after the attempt: %+v", got)
		}
	}
}

func testJobAccounts(t *testing.T, b *bench) {
	theirs := b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	b.failed(t, theirs, "a", 2)
	for _, f := range []pipeline.DeliveryFilter{{Webhook: theirs.ID}, {EventID: "evt_a_0"}, {Since: noon}} {
		if made := b.createJob(t, retryJob(f, pipeline.ResendAll)); made.Matched != 0 || len(b.openRequests(t, noon)) != 0 {
			t.Errorf("filter %+v: %+v", f, made.Job)
		}
	}
	_, err := b.CreateJob(t.Context(), replayJob(theirs.ID, noon, time.Time{}, pipeline.ResendAll))
	storetest.WantNotFound(t, "replay another's webhook", err)
	made := b.createJob(t, retryJob(pipeline.DeliveryFilter{Account: "other", Since: noon}, pipeline.ResendAll))
	if made.Matched != 2 {
		t.Errorf("their own: %+v", made.Job)
	}
	_, err = b.GetJob(t.Context(), account, made.ID)
	storetest.WantNotFound(t, "another's job", err)
	if jobs, _, err := b.ListJobs(t.Context(), account, 10, ""); err != nil || len(jobs) != 3 {
		t.Errorf("%d jobs are listed, %v", len(jobs), err)
	}
}

func testJobList(t *testing.T, b *bench) {
	var want, got []string
	for range 5 {
		want = append(want, b.createJob(t, retryJob(pipeline.DeliveryFilter{Since: noon}, pipeline.ResendAll)).ID)
	}
	slices.Reverse(want)
	cursor := ""
	for {
		page, next, err := b.ListJobs(t.Context(), account, 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page {
			got = append(got, job.ID)
		}
		if cursor = next; next == "" {
			break
		}
		if _, _, err := b.ListJobs(t.Context(), "other", 2, cursor); !errors.Is(err, store.ErrCursor) {
			t.Errorf("another's cursor: %v", err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

func testJobTurns(t *testing.T, b *bench) {
	mine, theirs := b.Webhook(t), b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	names := map[string]string{}
	ask := func(name string, w domain.Webhook) {
		b.failed(t, w, name, pageSize+1)
		b.Clock.Advance(time.Second)
		names[b.createJob(t, retryJob(pipeline.DeliveryFilter{Account: w.Account, Since: b.Clock.Now().Add(-time.Second)}, pipeline.ResendFailed)).ID] = name
	}
	ask("mine", mine)
	ask("mine too", mine)
	ask("theirs", theirs)
	for _, want := range [][]string{{"mine", "theirs"}, {"mine too"}, nil} {
		turn, err := b.SendingJobs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range turn {
			got = append(got, names[id])
			b.advance(t, id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("turn of %v, want %v", got, want)
		}
	}
}

func testJobWindow(t *testing.T, b *bench) {
	const window = 8 * pageSize
	w := b.Webhook(t)
	b.failed(t, w, "a", window+1)
	made := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendFailed))
	for b.advance(t, made.ID) {
		continue
	}
	if got := b.job(t, made.ID); got.Sent != window || got.Status != domain.JobRunning {
		t.Errorf("with all of it open: %+v", got)
	}
	b.Clock.Advance(time.Second)
	other := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendFailed))
	if got := b.job(t, other.ID); got.Matched != 1 || got.Sent != 1 {
		t.Errorf("another job does not pass it: %+v", got)
	}
	b.answer(t, domain.StatusDelivered, b.openRequestsBy(t, 1000)...)
	b.advance(t, made.ID)
	if got := b.job(t, made.ID); got.Sent != window || got.Delivered != window || got.Status != domain.JobDone {
		t.Errorf("after the answers: %+v", got)
	}
}

func testJobDays(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var want []domain.DeliveryID
	for day := range 3 {
		b.failed(t, b.Webhook(t), fmt.Sprint("other", day), 1)
		want = append(want, b.failed(t, w, strconv.Itoa(day), 1)[0].Delivery)
		b.Clock.Advance(48 * time.Hour)
	}
	made := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendFailed))
	for b.advance(t, made.ID) {
		continue
	}
	var got []domain.DeliveryID
	for _, task := range b.openRequests(t, b.Clock.Now()) {
		got = append(got, task.Delivery)
	}
	if job := b.job(t, made.ID); job.Matched != 3 || job.Sent != 3 || !slices.Equal(got, want) {
		t.Errorf("job %+v, sent %v, want %v", job, got, want)
	}
}

func testJobFilters(t *testing.T, b *bench) {
	w, names := b.Webhook(t), map[domain.DeliveryID]string{}
	b.everyStatus(t, w, names, "a-")
	b.everyStatus(t, b.Webhook(t), names, "b-")
	for _, c := range []struct {
		filter pipeline.DeliveryFilter
		resend pipeline.Resend
		want   []string
	}{
		{pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendUndelivered, []string{"a-failed", "a-retrying"}},
		{pipeline.DeliveryFilter{EventID: "evt_b-failed"}, pipeline.ResendAll, []string{"b-failed"}},
		{pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.Resend(domain.StatusDelivered), []string{"a-delivered"}},
		{pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.Resend(domain.StatusRetrying), []string{"a-retrying"}},
		{pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.Resend(domain.StatusHeld), []string{"a-held"}},
		{pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.Resend(domain.StatusPending), nil},
		{pipeline.DeliveryFilter{Until: noon}, pipeline.ResendAll, nil},
		{pipeline.DeliveryFilter{Since: noon, Until: noon.Add(time.Millisecond)}, pipeline.ResendFailed, []string{"a-failed", "b-failed"}},
	} {
		made := b.createJob(t, retryJob(c.filter, c.resend))
		var got []string
		for _, task := range b.openRequests(t, noon) {
			got = append(got, names[task.Delivery])
			b.Recorded(t, domain.Outcome{Delivery: task.Delivery, Account: account, Request: task.Request, UpdatedAt: noon})
		}
		slices.Sort(got)
		if made.Matched != len(c.want) || !slices.Equal(got, c.want) {
			t.Errorf("%+v, %s: matched %d, sent %v, want %v", c.filter, c.resend, made.Matched, got, c.want)
		}
	}
}

func testJobAttempts(t *testing.T, b *bench) {
	w, names := b.Webhook(t), map[domain.DeliveryID]string{}
	add := func(name string, change func(*domain.Outcome)) {
		o := b.Outcome(b.Accepted(t, "evt_"+name), w, domain.StatusFailed)
		o.Attempt.Class = domain.Class5xx
		change(&o)
		o.Attempt.Class, names[o.Delivery] = cmp.Or(o.Attempt.Class, domain.ClassOf(o.Attempt.Status)), name
		b.Recorded(t, o)
	}
	add("exhausted", func(o *domain.Outcome) { o.Reason = domain.ReasonExhausted })
	add("slow", func(o *domain.Outcome) { o.Attempt.Status, o.Attempt.Class = 0, domain.ClassTimeout })
	add("type", func(o *domain.Outcome) { o.EventType = domain.ShipmentDelivered })
	add("test", func(o *domain.Outcome) { o.Test = true })
	add("ok", func(o *domain.Outcome) {
		o.Status, o.Attempt.Status, o.Attempt.Class = domain.StatusDelivered, 204, domain.ClassOK
	})
	all := pipeline.JobFilter{DeliveryFilter: pipeline.DeliveryFilter{Account: account, Webhook: w.ID}, Resend: pipeline.ResendAll}
	for _, c := range []struct {
		change func(*pipeline.JobFilter)
		want   []string
	}{
		{func(f *pipeline.JobFilter) { f.Class = domain.Class5xx }, []string{"exhausted", "test", "type"}},
		{func(f *pipeline.JobFilter) { f.Class = domain.ClassTimeout }, []string{"slow"}},
		{func(f *pipeline.JobFilter) { f.Class = domain.ClassOK }, []string{"ok"}},
		{func(f *pipeline.JobFilter) { f.Class, f.Resend = domain.ClassOK, pipeline.ResendUndelivered }, nil},
		{func(f *pipeline.JobFilter) { f.StatusCode = 500 }, []string{"exhausted", "test", "type"}},
		{func(f *pipeline.JobFilter) { f.StatusCode = 204 }, []string{"ok"}},
		{func(f *pipeline.JobFilter) { f.Reason = domain.ReasonExhausted }, []string{"exhausted"}},
		{func(f *pipeline.JobFilter) { f.Shipment = "SH-1" }, []string{"exhausted", "ok", "slow", "test", "type"}},
		{func(f *pipeline.JobFilter) { f.Shipment = "SH-2" }, nil},
		{func(f *pipeline.JobFilter) { f.Type = domain.ShipmentDelivered }, []string{"type"}},
		{func(f *pipeline.JobFilter) { f.Test = new(true) }, []string{"test"}},
		{func(f *pipeline.JobFilter) { f.Test = new(false) }, []string{"exhausted", "ok", "slow", "type"}},
	} {
		filter := all
		c.change(&filter)
		made := b.createJob(t, pipeline.NewJob{Kind: domain.JobRetry, Filter: filter})
		var got []string
		for _, task := range b.openRequests(t, noon) {
			got = append(got, names[task.Delivery])
			b.Recorded(t, domain.Outcome{Delivery: task.Delivery, Account: account, Request: task.Request, UpdatedAt: noon})
		}
		slices.Sort(got)
		if made.Matched != len(c.want) || !slices.Equal(got, c.want) {
			t.Errorf("%s: matched %d, sent %v, want %v", made.Filter, made.Matched, got, c.want)
		}
	}
}

func testJobRetention(t *testing.T, b *bench) {
	w := b.Webhook(t)
	b.failed(t, w, "a", 2)
	b.Clock.Advance(24 * time.Hour)
	b.failed(t, w, "b", 1)
	made := b.createJob(t, retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendFailed))
	b.advance(t, made.ID)
	b.Clock.Set(domain.Day(noon).Add(week + 24*time.Hour))
	b.maintain(t)
	if got := b.job(t, made.ID); got.Sent != 3 || got.Failed != 2 {
		t.Errorf("when the first day has gone: %+v", got)
	}
	b.Clock.Advance(24 * time.Hour)
	b.maintain(t)
	_, err := b.GetJob(t.Context(), account, made.ID)
	storetest.WantNotFound(t, "a job as old as the log", err)
}
