package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

// bench is what a scenario works with.
type bench struct {
	options
	site     *stack.Site
	dir      string
	report   *report
	progress io.Writer
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "  "+format+"\n", args...)
}

// receiver is a webhook with the endpoint that it points to.
type receiver struct {
	*sink.Endpoint
	hook client.Webhook
}

// field is a running Waybill with its load and its receivers: steady ones that get every
// event, a flaky one that fails the first two attempts of every other exception, and one that is
// inactive and gets each creation at the end.
type field struct {
	*bench
	stack  *stack.Stack
	api    *stack.Client
	sink   *sink.Sink
	load   *publisher
	steady []receiver
	flaky  receiver
	held   receiver

	inFlightFor time.Duration

	faults []span // when something was broken, until it worked again
	frozen []int  // processes whose clock stands
	// busMayLose: what was acknowledged on NATS alone may be lost; it is counted.
	busMayLose bool
	// busLost is when the bus has lost its files: what it acknowledged just before may be lost, and nothing else.
	// Empty: whatever it acknowledged may be.
	busLost []time.Time
	// takes reports whether a steady receiver takes an event; nil: it takes each.
	takes func(r receiver, id string) bool
}

// flakyFails is how many attempts the flaky receiver fails of every other event. If it
// failed those of all, a backlog would have its circuit opened again and again.
const flakyFails = 2

// span is a time in which something was broken.
type span struct{ from, to time.Time }

// receive registers the receivers.
func (f *field) receive(ctx context.Context) (err error) {
	for i := range f.hooks {
		r, err := f.register(ctx, fmt.Sprintf("steady-%d", i+1), client.Webhook{MaxInFlight: 256, Events: domain.EventTypes()})
		if err != nil {
			return err
		}
		f.steady = append(f.steady, r)
	}
	// Twenty retries: more than any outage here takes.
	f.flaky, err = f.register(ctx, "flaky", client.Webhook{
		MaxInFlight: 256, Events: []domain.EventType{kindFlaky},
		RetryScheduleSeconds: []float64{1, 3, 5, 5, 10, 10, 30, 30, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60},
	})
	if err != nil {
		return err
	}
	f.flaky.Behave(func(p sink.Post) sink.Answer {
		if p.OfID <= flakyFails && (numberOf(p.ID)/oneIn)%2 == 0 {
			return sink.Answer{Status: http.StatusInternalServerError}
		}
		return sink.Answer{}
	})
	if f.held, err = f.register(ctx, "held", client.Webhook{MaxInFlight: 64, Events: []domain.EventType{kindHeld}}); err != nil {
		return err
	}
	if err := f.api.SetActive(ctx, f.held.hook.ID, false); err != nil {
		return fmt.Errorf("make a webhook inactive: %w", err)
	}
	return nil
}

func (f *field) register(ctx context.Context, name string, w client.Webhook) (receiver, error) {
	return f.registerAs(ctx, f.api, name, w)
}

// registerAs registers a webhook of the client's account.
func (f *field) registerAs(ctx context.Context, api *stack.Client, name string, w client.Webhook) (receiver, error) {
	e := f.sink.Endpoint(name)
	w.URL = e.URL
	made, err := api.Register(ctx, w)
	if err != nil {
		return receiver{}, fmt.Errorf("register %s: %w", name, err)
	}
	return receiver{e, made}, e.Trust(made.Secret)
}

func (f *field) receivers() []receiver {
	if !f.has(f.flaky) {
		return f.well()
	}
	return append(f.well(), f.flaky)
}

// well are the receivers that answer every POST well.
func (f *field) well() []receiver {
	if !f.has(f.held) {
		return slices.Clone(f.steady)
	}
	return append(slices.Clone(f.steady), f.held)
}

// has reports whether there is this receiver: a bare field has none.
func (*field) has(r receiver) bool { return r.Endpoint != nil }

// close ends everything; the stack's logs are shown when something was found wrong.
func (f *field) close() {
	f.load.close()
	f.api.Close()
	if err := f.stack.Died(); err != nil {
		f.report.fail("%v", err)
	}
	if err := f.stack.Close(); err != nil {
		f.report.fail("stop at the end: %v", err)
	}
	f.sink.Close()
	if len(f.report.Faults) > 0 {
		fmt.Fprintln(f.progress, f.stack.Logs())
	}
}

// broken notes that something is broken while do runs.
func (f *field) broken(do func() error) error {
	from := time.Now()
	err := do()
	f.faults = append(f.faults, span{from, time.Now()})
	return err
}

// finishTime is how long after the last fault everything may take to arrive: what a
// killed dispatcher had in flight goes out again within 15 s, the rest is work.
const finishTime = 3 * time.Minute

// finish ends the load, makes the held webhook active, waits until everything accepted
// has arrived or nothing more comes, and judges.
func (f *field) finish(ctx context.Context) error {
	ending, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := f.load.end(ending); err != nil {
		return err
	}
	if f.has(f.held) {
		if err := patiently(ctx, func() error { return f.api.SetActive(ctx, f.held.hook.ID, true) }); err != nil {
			return fmt.Errorf("make the inactive webhook active: %w", err)
		}
	}
	rest, bus := f.load.restAccepted(), f.load.busAcked()
	all := slices.Collect(maps.Keys(rest))
	if !f.busMayLose {
		all = slices.AppendSeq(all, maps.Keys(bus))
	}
	started := time.Now()
	if err := f.awaitArrival(ctx, all); err != nil {
		return err
	}
	f.report.figure(figureREST, float64(len(rest)))
	f.report.figure("publications tried more than once", float64(f.load.retried.Load()))
	f.judgeLoss(figureLostREST, rest)
	if len(bus) > 0 {
		f.report.figure(figureBus, float64(len(bus)))
		f.judgeLoss(figureLostBus, bus)
	}
	f.report.figure("seconds until all had arrived", time.Since(started).Seconds())
	f.judgeRepeats()
	return f.judgeLog(ctx)
}

// wants says which of the ids a receiver is to get.
func (f *field) wants(r receiver, id string) bool {
	if f.takes != nil && !f.takes(r, id) {
		return false
	}
	switch r.Endpoint {
	case f.flaky.Endpoint:
		return kindOfID(id) == kindFlaky
	case f.held.Endpoint:
		return kindOfID(id) == kindHeld
	}
	return true
}

// kindOfID returns the type of the event that has this id.
func kindOfID(id string) domain.EventType { return kindOf(numberOf(id)) }

// numberOf returns the number in an event's id, as load.next made it.
func numberOf(id string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, "chaos-"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// awaitArrival waits until all is there, as long as anything still comes.
func (f *field) awaitArrival(ctx context.Context, all []string) error {
	wanted := make(map[*sink.Endpoint][]string)
	for _, r := range f.receivers() {
		wanted[r.Endpoint] = slices.DeleteFunc(slices.Clone(all), func(id string) bool { return !f.wants(r, id) })
	}
	deadline := time.Now().Add(finishTime)
	best, told := -1, time.Now()
	for ticker := time.Tick(time.Second); ; {
		missing := 0
		for e, ids := range wanted {
			missing += len(ids) - e.Accepted(ids)
		}
		if missing == 0 {
			return nil
		}
		if time.Since(told) > 15*time.Second {
			f.say("%d deliveries have not arrived yet", missing)
			told = time.Now()
		}
		if best < 0 || missing < best {
			best, deadline = missing, time.Now().Add(finishTime)
		}
		if time.Now().After(deadline) {
			return nil // judged by the caller
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker:
		}
	}
}

// judgeLoss counts the events that any receiver lacks.
func (f *field) judgeLoss(figure string, accepted map[string]time.Time) {
	lost := make(map[string][]string)
	for _, r := range f.receivers() {
		receipts := r.Receipts()
		for id := range accepted {
			if f.wants(r, id) && receipts[id].Accepted == 0 {
				lost[id] = append(lost[id], strings.TrimPrefix(r.URL, "http://"))
			}
		}
	}
	f.report.figure(figure, float64(len(lost)))
	if figure == figureLostBus && f.busMayLose {
		if len(f.busLost) == 0 {
			return
		}
		maps.DeleteFunc(lost, func(id string, _ []string) bool {
			return slices.ContainsFunc(f.busLost, func(at time.Time) bool {
				return accepted[id].After(at.Add(-recordedWithin)) && accepted[id].Before(at.Add(time.Second))
			})
		})
	}
	for i, id := range slices.Sorted(maps.Keys(lost)) {
		if i == shown {
			f.report.fail("and %d more", len(lost)-shown)
			break
		}
		f.report.fail("%s, accepted at %s, did not arrive at %v", id, accepted[id].Format(clock), lost[id])
	}
}

// How long before a fault what arrived may still have been in flight: answered by the
// receiver, but with its outcome not stored yet. That is on the bus as a rule; where the
// bus itself is lost it is in the database, which may lag behind by some seconds.
const (
	storedWithin   = 2 * time.Second
	recordedWithin = 15 * time.Second
)

// judgeRepeats counts what came twice at the steady receivers. A repeat must be of
// something that was in flight when something broke.
func (f *field) judgeRepeats() {
	repeats, faulty, most := 0, 0, 0
	odd := make(map[string]string) // event → what came when
	for _, r := range f.steady {
		for id, receipt := range r.Receipts() {
			if receipt.Posts < 2 {
				continue
			}
			repeats += receipt.Posts - 1
			most = max(most, receipt.Posts)
			if !slices.ContainsFunc(f.faults, func(s span) bool {
				return receipt.First.After(s.from.Add(-f.inFlightFor)) && receipt.First.Before(s.to.Add(f.inFlightFor))
			}) {
				odd[id] = fmt.Sprintf("%s at %s: %d POSTs from %s to %s; %s", id, strings.TrimPrefix(r.URL, "http://"), receipt.Posts,
					receipt.First.Format(clock), receipt.Last.Format(clock), f.around(receipt.First))
			}
		}
	}
	for _, r := range f.receivers() {
		n, first := r.Faults()
		faulty += n
		f.report.must(n == 0, "%s got %d wrong callbacks: %q", r.URL, n, first)
	}
	f.report.figure(figureRepeats, float64(repeats))
	if rounds := len(f.faults); rounds > 0 {
		f.report.figure("repeated POSTs a round", float64(repeats)/float64(rounds))
	}
	f.report.figure("most POSTs of one event", float64(max(1, most)))
	f.report.figure("repeated events that were not in flight", float64(len(odd)))
	for i, id := range slices.Sorted(maps.Keys(odd)) {
		if i == shown {
			break
		}
		f.report.fail("repeated, and was not in flight: %s", odd[id])
	}
}

const (
	clock = "15:04:05.000"
	shown = 5 // examples of a fault
)

// around names the faults before and after a time.
func (f *field) around(at time.Time) string {
	text := "no fault before"
	for _, s := range f.faults {
		if s.from.After(at) {
			return text + ", the next from " + s.from.Format(clock)
		}
		text = "the last fault from " + s.from.Format(clock) + " to " + s.to.Format(clock)
	}
	return text
}

// posts is how many POSTs these receivers saw.
func (f *field) posts(of ...receiver) int {
	n := 0
	for _, r := range of {
		n += r.Posts()
	}
	return n
}

// extra is how many POSTs came more than once where the first was answered well.
func (f *field) extra() int {
	n := 0
	for _, r := range f.well() {
		n += r.Posts() - r.Ids()
	}
	return n
}
