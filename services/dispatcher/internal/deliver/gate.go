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
	// gatePerCore is how many attempts for each core may be in flight at once when all of
	// them need the processor. If 10,000 attempts of one event started together, each would
	// wait for longer than a second, and would look like a receiver that hangs.
	// With a quarter of this number, ten busy webhooks got a quarter less on two cores.
	gatePerCore = 256
	// gateMost is the highest limit. Each attempt has a connection and a goroutine.
	gateMost = 16384
	// gateEvery is how often the limit is adjusted. It rises while less than gateFew of
	// the attempts in flight wait for a processor, and falls while more than gateMany do.
	// The share is a moving average of some four samples. It was less than 0.15 with a receiver that
	// takes 100 ms, and 0.4 to 0.5 at full load. If all attempts wait for receivers, the limit
	// rises from its lowest value on two cores to gateMost within a third of a second.
	gateEvery = 20 * time.Millisecond
	gateFew   = 0.25
	gateMany  = 0.5
	gateUp    = 1.25
	gateDown  = 0.9
	// readyMetric counts the goroutines that wait for a processor.
	readyMetric = "/sched/goroutines/runnable:goroutines"
)

// gate is the concurrency limiter: it limits the attempts in flight in this process, and starts
// the others in their order. Those that yield wait in a queue of their own. While both queues wait,
// each gets every second place. Attempts that hang hold no place. So receivers that
// hang make others wait for a second at most, and only until they are known to hang.
type gate struct {
	fly      func(*flight)  // flies until there is nothing to fly
	runnable func() float64 // how many goroutines wait for a processor
	shut     func() bool    // nothing may start now

	mu      sync.Mutex
	limit   float64
	taken   int
	prompt  []*flight
	yielded []*flight
	turn    bool // the next place is for an attempt that yields
	looking bool
	waits   atomic.Int64 // in both queues; changed under mu
}

func newGate(fly func(*flight)) *gate {
	sample := []metrics.Sample{{Name: readyMetric}}
	return &gate{fly: fly, limit: gateLeast(), shut: func() bool { return false }, runnable: func() float64 {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			return 0 // a runtime that does not tell
		}
		return float64(sample[0].Value.Uint64())
	}}
}

func gateLeast() float64 { return float64(min(gateMost, gatePerCore*runtime.GOMAXPROCS(0))) }

// bound is how many may be in flight now, without those that hang.
func (g *gate) bound() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(g.limit)
}

// enter takes a place for an attempt. false: the attempt waits, and is started when a place is free.
func (g *gate) enter(f *flight) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits.Load() == 0 && g.taken < int(g.limit) && !g.shut() {
		g.taken++
		f.placed = true
		return true
	}
	g.wait(f)
	return false
}

// wait queues an attempt; g.mu is held.
func (g *gate) wait(f *flight) {
	queue := &g.prompt
	if f.job.yields() {
		queue = &g.yielded
	}
	*queue = append(*queue, f)
	g.waits.Add(1)
	if !g.looking {
		g.looking = true
		go g.look()
	}
}

// leave gives an attempt's place back, if it has one, and starts what waits for it.
func (g *gate) leave(f *flight) {
	g.mu.Lock()
	g.giveUp(f)
	ready := g.ready()
	g.mu.Unlock()
	g.start(ready)
}

// pass gives back the place of an attempt that has ended, and takes one for the next attempt of
// its webhook, if any. It returns the attempt that the caller should make now; nil: none.
func (g *gate) pass(done, next *flight) *flight {
	g.mu.Lock()
	g.giveUp(done)
	var ready []*flight
	switch {
	case next == nil, next.free && !g.shut():
		ready = g.ready()
	case g.waits.Load() == 0 && g.taken < int(g.limit) && !g.shut():
		g.taken++
		next.placed = true
	default:
		g.wait(next)
		next = nil
		ready = g.ready()
	}
	g.mu.Unlock()
	if next == nil && len(ready) > 0 {
		next, ready = ready[0], ready[1:]
	}
	if next != nil {
		next.begin()
	}
	g.start(ready)
	return next
}

func (g *gate) giveUp(f *flight) {
	if f.placed {
		f.placed = false
		g.taken--
	}
}

// ready takes the attempts that may start out of the queues, with a place for each; g.mu is held.
func (g *gate) ready() []*flight {
	n := min(int(g.waits.Load()), int(g.limit)-g.taken)
	if n <= 0 || g.shut() {
		return nil
	}
	list := make([]*flight, n)
	for i := range list {
		list[i] = g.pop()
		list[i].placed = true
	}
	g.taken += n
	g.waits.Add(-int64(n))
	return list
}

// pop takes the next out of the queues, of which one is not empty; g.mu is held.
func (g *gate) pop() *flight {
	queue := &g.prompt
	if len(g.prompt) == 0 || g.turn && len(g.yielded) > 0 {
		queue = &g.yielded
	}
	g.turn = !g.turn
	f := (*queue)[0]
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	if len(*queue) == 0 {
		*queue = nil
	}
	return f
}

func (g *gate) start(list []*flight) {
	for _, f := range list {
		f.begin()
		go g.fly(f)
	}
}

// look adjusts the limit to what the attempts wait for. It ends when no attempt waits and the
// limit is back at its lowest value, because what it learned of some receivers says nothing about others.
func (g *gate) look() {
	ticker := time.NewTicker(gateEvery)
	defer ticker.Stop()
	share := -1.0 // of the attempts, that wait for a processor; negative: not known yet
	for range ticker.C {
		runnable := g.runnable()
		g.mu.Lock()
		now := min(1, runnable/float64(max(1, g.taken)))
		if share < 0 {
			share = now
		}
		share += (now - share) / 4
		ready := g.fit(share)
		g.looking = g.waits.Load() > 0 || g.limit > gateLeast()
		looking := g.looking
		g.mu.Unlock()
		g.start(ready)
		if !looking {
			return
		}
	}
}

// fit sets the limit and returns what may start now; g.mu is held.
func (g *gate) fit(share float64) []*flight {
	if g.shut() {
		return nil // what waits, waits for something else
	}
	switch waits := g.waits.Load() > 0; {
	case share > gateMany, !waits && g.taken < int(g.limit)/2:
		g.limit = max(gateLeast(), g.limit*gateDown)
	case waits && share < gateFew:
		g.limit = min(gateMost, g.limit*gateUp)
	}
	return g.ready()
}

// clear takes all waiting attempts out.
func (g *gate) clear() []*flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := slices.Concat(g.prompt, g.yielded)
	g.prompt, g.yielded = nil, nil
	g.waits.Store(0)
	return list
}
