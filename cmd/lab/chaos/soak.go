package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
)

const (
	sampleEvery = 10 * time.Second
	settled     = 3 * time.Minute // after its start, a process has all that it keeps
	// What may grow from the first third of the time to the last: caches fill, and a sample may be taken
	// in the middle of a fault.
	growth         = 1.25
	slackMemory    = 48 << 20
	slackFiles     = 64
	slackGoroutine = 64
)

// soak runs for hours and causes faults at random; the same seed gives the same faults. There are two of each
// process. The first is killed again and again. The second runs to the end, and must not grow.
func soak(ctx context.Context, b *bench) error {
	seed := cmp.Or(b.seed, rand.Uint64()>>12)
	b.say("seed %d, for %s", seed, b.lasts)
	b.report.figure("seed", float64(seed))
	f, err := b.field(ctx, split, stack.Options{APIs: 2, Dispatchers: 2, Gateways: 2, NATSUsers: true})
	if err != nil {
		return err
	}
	defer f.close()
	r := &rollout{field: f}
	stop, err := r.deployed(ctx)
	if err != nil {
		return err
	}
	defer stop()
	f.inFlightFor = recordedWithin
	f.load.start(ctx, b.rate, b.busRate)
	began := time.Now()
	watch := watchGrowth(ctx, f.stack, began.Add(settled))
	drawn := rand.New(rand.NewPCG(seed, 0)) // the same faults for the same seed
	counts := make(map[string]int)
	told := time.Now()
	for {
		pause := 20*time.Second + time.Duration(drawn.Int64N(int64(40*time.Second)))
		fault := soakFaults()[drawn.IntN(len(soakFaults()))]
		if time.Since(began)+pause > b.lasts {
			break
		}
		if err := wait(ctx, pause, pause+time.Millisecond); err != nil {
			return err
		}
		if err := r.broken(func() error { return fault.strike(ctx, r) }); err != nil {
			return fmt.Errorf("%s: %w", fault.name, err)
		}
		if err := f.stack.Died(); err != nil {
			return fmt.Errorf("%s took another process with it: %w", fault.name, err)
		}
		counts[fault.name]++
		if time.Since(told) > 5*time.Minute {
			told = time.Now()
			b.say("after %s: %d faults, %d events accepted; %s", time.Since(began).Round(time.Second), len(f.faults), len(f.load.restAccepted()), watch.now())
		}
	}
	stop()
	for _, fault := range soakFaults() {
		b.report.figure("times "+fault.name, float64(counts[fault.name]))
	}
	b.report.figure("minutes", time.Since(began).Minutes())
	r.judgeRequests()
	watch.judge(b.report)
	return f.finish(ctx)
}

// soakFault is a fault that the soak test makes. strike breaks something and repairs the damage before strike returns.
type soakFault struct {
	name   string
	strike func(ctx context.Context, r *rollout) error
}

func soakFaults() []soakFault {
	again := func(choose func(*stack.Stack) victim, least, most time.Duration) func(context.Context, *rollout) error {
		return func(ctx context.Context, r *rollout) error {
			v := choose(r.stack)
			if err := v.kill(); err != nil {
				return err
			}
			if err := wait(ctx, least, most); err != nil {
				return err
			}
			return v.start(ctx)
		}
	}
	nats := func(st *stack.Stack) victim { return process(st.NATS[0]) }
	return []soakFault{
		{"kill -9 of an API", again(func(st *stack.Stack) victim { return process(st.APIs[0]) }, 0, 5*time.Second)},
		{"kill -9 of a dispatcher", again(func(st *stack.Stack) victim { return process(st.Dispatchers[0]) }, 0, 5*time.Second)},
		{"kill -9 of a gateway", func(ctx context.Context, r *rollout) error {
			address := r.stack.GatewayAddresses[0]
			r.requests.Away(address)
			defer r.requests.Back(address)
			return again(func(st *stack.Stack) victim { return process(st.Gateways[0]) }, 0, 5*time.Second)(ctx, r)
		}},
		{"kill -9 of nats-server", again(nats, 0, time.Second)},
		{"kill -9 of Postgres", again(postgres, 0, time.Second)},
		{"nats-server away for half a minute", again(nats, 25*time.Second, 35*time.Second)},
		{"Postgres away for half a minute", again(postgres, 25*time.Second, 35*time.Second)},
		{"the bus loses its files", func(ctx context.Context, r *rollout) error {
			r.busMayLose = true
			p := r.stack.NATS[0]
			if err := p.Kill(); err != nil {
				return err
			}
			r.busLost = append(r.busLost, time.Now())
			if err := r.stack.LoseBus(); err != nil {
				return err
			}
			return p.Start(ctx)
		}},
		{"an order to end, to an API, a dispatcher and a gateway", func(ctx context.Context, r *rollout) error {
			ours := r.site.Programs()
			if err := r.replaceAPI(ctx, 0, ours); err != nil {
				return err
			}
			if err := r.replace(ctx, r.stack.Dispatchers[0], ours); err != nil {
				return err
			}
			return r.replaceGateway(ctx, 0, ours)
		}},
	}
}

// use is what a process uses at a moment.
type use struct{ memory, files, goroutines float64 }

// growthWatch samples the processes that live through it all.
type growthWatch struct {
	stack   *stack.Stack
	watched []*stack.Process
	samples map[*stack.Process][]use
	done    chan struct{}
	asked   chan chan string
}

// watchGrowth samples until ctx is done, or judge is called.
func watchGrowth(ctx context.Context, st *stack.Stack, from time.Time) *growthWatch {
	w := &growthWatch{
		stack: st, watched: []*stack.Process{st.APIs[1], st.Dispatchers[1], st.Gateways[1]},
		samples: make(map[*stack.Process][]use), done: make(chan struct{}), asked: make(chan chan string),
	}
	go func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case w.done <- struct{}{}:
				return
			case answer := <-w.asked:
				answer <- w.latest()
			case <-tick.C:
				if time.Now().After(from) {
					w.sample(ctx)
				}
			}
		}
	}()
	return w
}

func (w *growthWatch) sample(ctx context.Context) {
	for _, p := range w.watched {
		goroutines, err := w.stack.Metric(ctx, p.Name, "go_goroutines")
		if err != nil {
			continue // it is too busy to answer; there are hundreds of samples
		}
		pid := strconv.Itoa(p.Pid())
		files := 0
		if list, err := os.ReadDir("/proc/" + pid + "/fd"); err == nil {
			files = len(list)
		}
		w.samples[p] = append(w.samples[p], use{residentBytes(p.Pid()), float64(files), goroutines})
	}
}

// now says what the processes use.
func (w *growthWatch) now() string {
	answer := make(chan string, 1)
	w.asked <- answer
	return <-answer
}

func (w *growthWatch) latest() string {
	var parts []string
	for _, p := range w.watched {
		if list := w.samples[p]; len(list) > 0 {
			last := list[len(list)-1]
			parts = append(parts, fmt.Sprintf("%s %.0f MB, %.0f files, %.0f goroutines", p.Name, last.memory/1e6, last.files, last.goroutines))
		}
	}
	return strings.Join(parts, "; ")
}

// judge compares the median of the first third with that of the last.
func (w *growthWatch) judge(r *report) {
	<-w.done
	for _, p := range w.watched {
		list := w.samples[p]
		third := len(list) / 3
		if third == 0 {
			r.fail("%s was not sampled", p.Name)
			continue
		}
		for _, kind := range []struct {
			name  string
			of    func(use) float64
			unit  float64
			slack float64
		}{
			{"memory, MB", func(u use) float64 { return u.memory }, 1e6, slackMemory},
			{"files", func(u use) float64 { return u.files }, 1, slackFiles},
			{"goroutines", func(u use) float64 { return u.goroutines }, 1, slackGoroutine},
		} {
			values := make([]float64, len(list))
			for i, u := range list {
				values[i] = kind.of(u)
			}
			first, last := median(values[:third]), median(values[len(list)-third:])
			name := p.Name + ": " + kind.name
			r.figure(name+", first third", first/kind.unit)
			r.figure(name+", last third", last/kind.unit)
			r.must(last <= growth*first+kind.slack, "%s grew from %.0f to %.0f", name, first/kind.unit, last/kind.unit)
		}
	}
}
