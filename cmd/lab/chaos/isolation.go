package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

const (
	// Of the deliveries one in six goes to a hostile receiver. The rate leaves the machine
	// time to spare: what is asked is whether healthy deliveries wait for others, not
	// how many deliveries two cores can make.
	isolationRate  = 100 // events a second; one in forty goes to each hostile receiver too
	oneIsHostile   = 40
	baselineTime   = 30 * time.Second
	hostileTime    = 60 * time.Second
	hostileTimeout = 5 * time.Second
	warmUp         = 5 * time.Second
	deadlineSlack  = 500 * time.Millisecond
	attemptsLooked = 100 // deliveries a hostile webhook whose attempts are looked at
	// memoryGrowth is what a process may grow by between the middle and the end.
	memoryGrowth = 64 << 20
)

// isolated measures how long events take to ten healthy receivers: first alone, then beside as
// many polite receivers as there are hostile ones, then beside every hostile one. The
// second is what so many more deliveries cost, the third what their hostility adds.
func isolated(start form) func(context.Context, *bench) error {
	kindOf := func(n int64) domain.EventType {
		if n%oneIsHostile == 0 {
			return domain.ShipmentException
		}
		return domain.ShipmentInTransit
	}
	return besides(start, 10, kindOf, set{"polite", politeArg, baselineTime}, set{"hostile", hostileArg, hostileTime})
}

// besideSick measures how long events take to eight healthy receivers, first alone, then
// beside eight sick ones that get every event, too: four hang, and four answer 500. Their
// webhooks have the installation's timeout and schedule.
func besideSick(start form) func(context.Context, *bench) error {
	kindOf := func(int64) domain.EventType { return domain.ShipmentInTransit }
	return besides(start, 8, kindOf, set{"sick", sickArg, hostileTime})
}

// set is a set of more receivers, and how long the healthy ones are measured beside it.
type set struct {
	name, kind string
	during     time.Duration
}

// besides measures how long events take to healthy receivers: alone, and beside each set. The last
// set may make them at most twice as slow as alone.
func besides(start form, hooks int, kindOf func(n int64) domain.EventType, sets ...set) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		b.hooks = hooks
		f, err := b.healthy(ctx, start)
		if err != nil {
			return err
		}
		defer f.close()
		f.load.kindOf = kindOf
		alone, err := f.alone(ctx)
		if err != nil {
			return err
		}
		measured := make([]latencies, len(sets))
		for i, s := range sets {
			if measured[i], err = f.beside(ctx, s.kind, s.during); err != nil {
				return err
			}
		}
		if err := f.load.end(ctx); err != nil {
			return err
		}
		f.judgeHealthy(ctx)
		alone.note(f.report, "alone")
		for i, s := range sets {
			measured[i].note(f.report, "beside "+s.name+" ones")
		}
		last := len(sets) - 1
		bad, worst := sets[last].name, measured[last].arrival.percentile(99)
		ratio := worst / alone.arrival.percentile(99)
		f.report.figure("p99 beside "+bad+" ones / alone", ratio)
		for i, s := range sets[:last] {
			f.report.figure("p99 beside "+bad+" ones / beside "+s.name+" ones", worst/measured[i].arrival.percentile(99))
		}
		f.report.must(ratio <= 2, "healthy p99 is %.1f times that without %s receivers, want 2 at most", ratio, bad)
		return nil
	}
}

// healthy starts a form with steady receivers alone: the other two would only add noise.
func (b *bench) healthy(ctx context.Context, start form) (*field, error) {
	f, err := b.field(ctx, start, stack.Options{})
	if err != nil {
		return nil, err
	}
	for _, r := range []receiver{f.flaky, f.held} {
		if err := f.api.Delete(ctx, r.hook.ID); err != nil {
			f.close()
			return nil, fmt.Errorf("delete %s: %w", r.URL, err)
		}
	}
	return f, nil
}

// alone starts the load and measures while the healthy receivers are the only ones.
func (f *field) alone(ctx context.Context) (l latencies, err error) {
	f.load.start(ctx, isolationRate, 0)
	if err := wait(ctx, warmUp, warmUp+time.Second); err != nil {
		return l, err
	}
	from := time.Now()
	if err := wait(ctx, baselineTime, baselineTime+time.Second); err != nil {
		return l, err
	}
	return f.latencies(from, time.Now()), nil
}

// beside measures while one more set of receivers is registered.
func (f *field) beside(ctx context.Context, kind string, during time.Duration) (l latencies, err error) {
	siege, err := startSiege(ctx, kind)
	if err != nil {
		return l, err
	}
	defer func() {
		if closeErr := siege.close(); err == nil {
			err = closeErr
		}
	}()
	hooks, err := f.besiege(ctx, kind, siege.sinks)
	if err != nil {
		return l, err
	}
	from := time.Now()
	spent, besiegers := f.processorTime(), processorTime(siege.command.Process.Pid)
	memory, err := f.watchMemory(ctx, during)
	if err != nil {
		return l, err
	}
	share := 100 / time.Since(from).Seconds()
	f.report.figure(kind, float64(len(hooks)))
	f.report.figure("Waybill and NATS beside "+kind+", % of a core", share*(f.processorTime()-spent))
	f.report.figure(kind+", % of a core", share*(processorTime(siege.command.Process.Pid)-besiegers))
	l = f.latencies(from, time.Now().Add(-time.Second))
	if kind != politeArg {
		for name, growth := range memory {
			f.report.figure("growth of "+name+", MiB", growth/(1<<20))
			f.report.must(growth < memoryGrowth, "%s grows by %.0f MiB beside %s", name, growth/(1<<20), kind)
		}
		return l, f.judgeAttempts(ctx, kind, hooks)
	}
	for id := range hooks {
		if err := f.api.Delete(ctx, id); err != nil {
			return l, fmt.Errorf("delete a polite receiver's webhook: %w", err)
		}
	}
	return l, wait(ctx, warmUp, warmUp+time.Second)
}

// besiege registers every receiver of a siege. Sick ones get every event.
func (f *field) besiege(ctx context.Context, kind string, sinks []besieger) (map[string]string, error) {
	hooks := make(map[string]string) // webhook → name
	for _, s := range sinks {
		hook := client.Webhook{
			URL: s.URL, Events: []domain.EventType{domain.ShipmentException},
			TimeoutSeconds: hostileTimeout.Seconds(), RetryScheduleSeconds: []float64{2, 5, 10},
		}
		if kind == sickArg {
			hook = client.Webhook{URL: s.URL, Events: []domain.EventType{domain.ShipmentInTransit}}
		}
		made, err := f.api.Register(ctx, hook)
		if err != nil {
			return nil, fmt.Errorf("register «%s»: %w", s.Name, err)
		}
		hooks[made.ID] = s.Name
	}
	return hooks, nil
}

// processorTime is what Waybill and NATS have used, in seconds.
func (f *field) processorTime() float64 {
	var sum float64
	for _, p := range f.stack.Processes() {
		sum += processorTime(p.Pid())
	}
	return sum
}

// processorTime reads what a process has used, in seconds; 0 where the system does not say.
func processorTime(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// After the name, which is in brackets: 11 fields, then user and system time in 1/100 s.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks float64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return ticks / 100
}

// window is the span of which one percentile is taken. A machine that stops for 100 ms
// now and then (a virtual one whose host is busy) does so in some windows, and the median
// of the windows leaves those out; a healthy webhook that waits for others does so in most.
const window = 5 * time.Second

// durations are milliseconds from the first sending of an event on, by window.
type durations map[int64][]float64

func (d durations) add(sent, then time.Time) {
	n := sent.UnixNano() / int64(window)
	d[n] = append(d[n], then.Sub(sent).Seconds()*1000)
}

// percentile returns the median of the windows' percentiles.
func (d durations) percentile(p int) float64 {
	var list []float64
	for _, one := range d {
		slices.Sort(one)
		list = append(list, one[min(len(one)-1, len(one)*p/100)])
	}
	if len(list) == 0 {
		return 0
	}
	return median(list)
}

// overall returns the percentile of all windows taken together.
func (d durations) overall(p int) float64 {
	all := slices.Concat(slices.Collect(maps.Values(d))...)
	return durations{0: all}.percentile(p)
}

// latencies are the times of the events that were sent in a span, until each was
// accepted, and until it arrived at each steady receiver.
type latencies struct{ acceptance, arrival durations }

func (l latencies) note(r *report, when string) {
	for _, p := range []int{50, 99} {
		r.figure(fmt.Sprintf("p%d %s, ms", p, when), l.arrival.percentile(p))
		r.figure(fmt.Sprintf("p%d %s, ms, of which until the 202", p, when), l.acceptance.percentile(p))
	}
	r.figure(fmt.Sprintf("p99 %s over the whole time, ms", when), l.arrival.overall(99))
}

func (f *field) latencies(from, to time.Time) latencies {
	sent, accepted := f.load.firstSent(), f.load.restAccepted()
	within := func(id string) (time.Time, bool) {
		at, ok := sent[id]
		return at, ok && at.After(from) && at.Before(to)
	}
	l := latencies{acceptance: make(durations), arrival: make(durations)}
	for id, until := range accepted {
		if at, ok := within(id); ok {
			l.acceptance.add(at, until)
		}
	}
	for _, r := range f.steady {
		for id, receipt := range r.Receipts() {
			if at, ok := within(id); ok {
				l.arrival.add(at, receipt.First)
			}
		}
	}
	return l
}

// watchMemory returns by how much each process' memory has grown between the middle of
// the time and its end, by the median of several looks at each.
func (f *field) watchMemory(ctx context.Context, during time.Duration) (map[string]float64, error) {
	looks := make(map[string][]float64)
	end := time.Now().Add(during)
	for time.Now().Before(end) {
		for _, p := range f.stack.Processes() {
			if !slices.Contains(f.stack.NATS, p) {
				looks[p.Name] = append(looks[p.Name], residentBytes(p.Pid()))
			}
		}
		if err := wait(ctx, 200*time.Millisecond, 300*time.Millisecond); err != nil {
			return nil, err
		}
	}
	growth := make(map[string]float64)
	for name, list := range looks {
		quarter := len(list) / 4
		growth[name] = median(list[3*quarter:]) - median(list[quarter:2*quarter])
		f.report.figure("most memory of "+name+", MiB", slices.Max(list)/(1<<20))
	}
	return growth, nil
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// residentBytes reads a process' resident memory; 0 where the system does not say.
func residentBytes(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); n == 1 {
			return kilobytes * 1024
		}
	}
	return 0
}

// judgeHealthy waits for what is still on its way to the healthy receivers: no more than
// a few seconds' worth.
func (f *field) judgeHealthy(ctx context.Context) {
	accepted := f.load.restAccepted()
	ids := make([]string, 0, len(accepted))
	for id := range accepted {
		ids = append(ids, id)
	}
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = stack.Await(within, func() (bool, error) {
		return !slices.ContainsFunc(f.steady, func(r receiver) bool { return r.Accepted(ids) != len(ids) }), nil
	})
	f.report.figure(figureREST, float64(len(ids)))
	lost := 0
	for _, r := range f.steady {
		missing := len(ids) - r.Accepted(ids)
		lost += missing
		f.report.must(missing == 0, "%s got %d of %d events within 5 s", r.URL, len(ids)-missing, len(ids))
	}
	f.report.figure(figureLostREST, float64(lost))
}

// judgeAttempts looks at the attempts to hostile receivers: each must have ended by its
// deadline, and every receiver must have had some.
func (f *field) judgeAttempts(ctx context.Context, kind string, hooks map[string]string) error {
	deadline := hostileTimeout
	if kind == sickArg {
		deadline = domain.DefaultTimeout
	}
	var slowest time.Duration
	total := 0
	for id, name := range hooks {
		var deliveries []string
		err := f.api.Deliveries(ctx, url.Values{"webhookId": {id}}, func(d client.Delivery) {
			if d.AttemptCount > 0 {
				deliveries = append(deliveries, d.ID)
			}
		})
		if err != nil {
			return fmt.Errorf("list deliveries of «%s»: %w", name, err)
		}
		f.report.must(len(deliveries) > 0, "no attempt to «%s» is in the log", name)
		for _, delivery := range deliveries[max(0, len(deliveries)-attemptsLooked):] {
			d, err := f.api.Delivery(ctx, delivery)
			if err != nil {
				return fmt.Errorf("read a delivery to «%s»: %w", name, err)
			}
			for _, a := range d.Attempts {
				took := time.Duration(a.DurationMS) * time.Millisecond
				total++
				slowest = max(slowest, took)
				f.report.must(took <= deadline+deadlineSlack, "an attempt to «%s» took %s, its deadline is %s", name, took, deadline)
			}
		}
	}
	f.report.figure("attempts to "+kind+" looked at", float64(total))
	f.report.figure("slowest of them, seconds", slowest.Seconds())
	return nil
}
