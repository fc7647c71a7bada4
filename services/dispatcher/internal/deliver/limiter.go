package deliver

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// limitPerCore is how many attempts for each core may be under way at once when all of
	// them want the processor. An event to 10,000 webhooks that start together keeps every
	// one of them waiting for longer than a second: they look like receivers that hang.
	// With a quarter as many, ten busy webhooks got a quarter less on two cores.
	limitPerCore = 256
	// limitMost is what the bound may rise to. Each attempt has a connection and a goroutine.
	limitMost = 16384
	// limitEvery is how often the bound is looked at. It rises while less than limitFew of
	// the attempts under way wait for a processor, and falls while more than limitMany do,
	// on a moving average of some four looks: that was less than 0.15 with a receiver that
	// takes 100 ms, and 0.4 to 0.5 at full load. What waits at receivers has it rise from
	// two cores' least to limitMost within a third of a second.
	limitEvery = 20 * time.Millisecond
	limitFew   = 0.25
	limitMany  = 0.5
	limitUp    = 1.25
	limitDown  = 0.9
	// readyMetric counts the goroutines that wait for a processor.
	readyMetric = "/sched/goroutines/runnable:goroutines"
)

// limiter bounds the attempts that are under way at once in this process, and starts what
// waits in its order; those that yield wait in a queue of their own, and while both wait
// each has every second place. Attempts that hang hold no place: so receivers that
// hang keep others waiting for a second at most, and only until that is known of them.
type limiter struct {
	run      func(*attempt) // runs until there is nothing to run
	runnable func() float64 // how many goroutines wait for a processor
	shut     func() bool    // nothing may start now

	mu       sync.Mutex
	limit    float64
	taken    int
	regular  []*attempt
	yielding []*attempt
	turn     bool // the next place is one's that yields
	looking  bool
	waits    atomic.Int64 // in both queues; changed under mu
}

func newLimiter(run func(*attempt)) *limiter {
	sample := []metrics.Sample{{Name: readyMetric}}
	return &limiter{run: run, limit: limitLeast(), shut: func() bool { return false }, runnable: func() float64 {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			return 0 // a runtime that does not tell
		}
		return float64(sample[0].Value.Uint64())
	}}
}

func limitLeast() float64 { return float64(min(limitMost, limitPerCore*runtime.GOMAXPROCS(0))) }

// bound is how many may be under way now, beside those that hang.
func (l *limiter) bound() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.limit)
}

// enter takes a place for an attempt; false: it waits, and is started when there is one.
func (l *limiter) enter(a *attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits.Load() == 0 && l.taken < int(l.limit) && !l.shut() {
		l.taken++
		a.placed = true
		return true
	}
	l.wait(a)
	return false
}

// wait queues an attempt; l.mu is held.
func (l *limiter) wait(a *attempt) {
	queue := &l.regular
	if a.job.yields() {
		queue = &l.yielding
	}
	*queue = append(*queue, a)
	l.waits.Add(1)
	if !l.looking {
		l.looking = true
		go l.look()
	}
}

// leave gives an attempt's place back, if it has one, and starts what waits for it.
func (l *limiter) leave(a *attempt) {
	l.mu.Lock()
	l.giveUp(a)
	ready := l.ready()
	l.mu.Unlock()
	l.start(ready)
}

// pass gives the place of an attempt that has ended back, and takes one for the next of
// its webhook, if any. It returns what the caller is to run now; nil: nothing.
func (l *limiter) pass(done, next *attempt) *attempt {
	l.mu.Lock()
	l.giveUp(done)
	var ready []*attempt
	switch {
	case next == nil, next.free && !l.shut():
		ready = l.ready()
	case l.waits.Load() == 0 && l.taken < int(l.limit) && !l.shut():
		l.taken++
		next.placed = true
	default:
		l.wait(next)
		next = nil
		ready = l.ready()
	}
	l.mu.Unlock()
	if next == nil && len(ready) > 0 {
		next, ready = ready[0], ready[1:]
	}
	if next != nil {
		next.begin()
	}
	l.start(ready)
	return next
}

func (l *limiter) giveUp(a *attempt) {
	if a.placed {
		a.placed = false
		l.taken--
	}
}

// ready takes what may start out of the queues, with a place each; l.mu is held.
func (l *limiter) ready() []*attempt {
	n := min(int(l.waits.Load()), int(l.limit)-l.taken)
	if n <= 0 || l.shut() {
		return nil
	}
	list := make([]*attempt, n)
	for i := range list {
		list[i] = l.pop()
		list[i].placed = true
	}
	l.taken += n
	l.waits.Add(-int64(n))
	return list
}

// pop takes the next out of the queues, of which one is not empty; l.mu is held.
func (l *limiter) pop() *attempt {
	queue := &l.regular
	if len(l.regular) == 0 || l.turn && len(l.yielding) > 0 {
		queue = &l.yielding
	}
	l.turn = !l.turn
	a := (*queue)[0]
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	if len(*queue) == 0 {
		*queue = nil
	}
	return a
}

func (l *limiter) start(list []*attempt) {
	for _, a := range list {
		a.begin()
		go l.run(a)
	}
}

// look fits the bound to what the attempts wait for, until nothing waits for them and the
// bound is back at its least: what was learnt of some receivers says nothing about others.
func (l *limiter) look() {
	ticker := time.NewTicker(limitEvery)
	defer ticker.Stop()
	share := -1.0 // of the attempts, that wait for a processor; negative: not known yet
	for range ticker.C {
		runnable := l.runnable()
		l.mu.Lock()
		now := min(1, runnable/float64(max(1, l.taken)))
		if share < 0 {
			share = now
		}
		share += (now - share) / 4
		ready := l.fit(share)
		l.looking = l.waits.Load() > 0 || l.limit > limitLeast()
		looking := l.looking
		l.mu.Unlock()
		l.start(ready)
		if !looking {
			return
		}
	}
}

// fit sets the bound and takes what may start now; l.mu is held.
func (l *limiter) fit(share float64) []*attempt {
	if l.shut() {
		return nil // what waits, waits for something else
	}
	switch waits := l.waits.Load() > 0; {
	case share > limitMany, !waits && l.taken < int(l.limit)/2:
		l.limit = max(limitLeast(), l.limit*limitDown)
	case waits && share < limitFew:
		l.limit = min(limitMost, l.limit*limitUp)
	}
	return l.ready()
}

// clear takes all that waits.
func (l *limiter) clear() []*attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Concat(l.regular, l.yielding)
	l.regular, l.yielding = nil, nil
	l.waits.Store(0)
	return list
}
