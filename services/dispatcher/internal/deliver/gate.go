package deliver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// gatePerCore is how many attempts for each core may be under way at once when all of
	// them want the processor. An event to 10,000 webhooks that start together keeps every
	// one of them waiting for longer than a second: they look like receivers that hang.
	gatePerCore = 256
	// gateEvery is how often the bound is looked at: what waits at receivers, not for the
	// processor, has it rise from one core's least to maxInHand within a third of a second.
	// It falls back within half a second.
	gateEvery = 20 * time.Millisecond
	gateUp    = 1.25
	gateDown  = 0.9
)

// gate bounds the attempts that are under way at once in this process, and starts what
// waits in its order. Attempts that hang hold no place: so receivers that hang keep others
// waiting for a second at most, and only until that is known of them.
type gate struct {
	fly  func(*flight) // flies until there is nothing to fly
	busy func() bool   // tells whether attempts wait for the processor

	mu      sync.Mutex
	limit   float64
	taken   int
	waiting []*flight
	looking bool
	waits   atomic.Int64
}

func newGate(fly func(*flight)) *gate {
	s := newStrain()
	return &gate{fly: fly, limit: gateLeast(), busy: func() bool {
		s.look()
		return s.now.Load()
	}}
}

func gateLeast() float64 { return float64(min(maxInHand, gatePerCore*runtime.GOMAXPROCS(0))) }

// enter takes a place for an attempt; false: it waits, and is started when there is one.
func (g *gate) enter(f *flight) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 && g.taken < int(g.limit) {
		g.taken++
		f.placed = true
		return true
	}
	g.wait(f)
	return false
}

// wait queues an attempt; g.mu is held.
func (g *gate) wait(f *flight) {
	g.waiting = append(g.waiting, f)
	g.waits.Store(int64(len(g.waiting)))
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

// pass gives the place of an attempt that has ended back, and takes one for the next of
// its webhook, if any. It returns what the caller is to fly now; nil: nothing.
func (g *gate) pass(done, next *flight) *flight {
	g.mu.Lock()
	g.giveUp(done)
	var ready []*flight
	switch {
	case next == nil, next.free:
		ready = g.ready()
	case len(g.waiting) == 0 && g.taken < int(g.limit):
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

// ready takes what may start out of the queue, with a place each; g.mu is held.
func (g *gate) ready() []*flight {
	n := min(len(g.waiting), int(g.limit)-g.taken)
	if n <= 0 {
		return nil
	}
	list := g.waiting[:n:n]
	for _, f := range list {
		f.placed = true
	}
	g.taken += n
	g.waiting = g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil
	}
	g.waits.Store(int64(len(g.waiting)))
	return list
}

func (g *gate) start(list []*flight) {
	for _, f := range list {
		f.begin()
		go g.fly(f)
	}
}

// look fits the bound to what the attempts wait for, until nothing waits for them and the
// bound is back at its least: what was learnt of some receivers says nothing about others.
func (g *gate) look() {
	ticker := time.NewTicker(gateEvery)
	defer ticker.Stop()
	for range ticker.C {
		busy := g.busy()
		g.mu.Lock()
		switch {
		case len(g.waiting) > 0 && !busy:
			g.limit = min(maxInHand, g.limit*gateUp)
		case len(g.waiting) > 0, g.taken < int(g.limit)/2:
			g.limit = max(gateLeast(), g.limit*gateDown)
		}
		ready := g.ready()
		g.looking = len(g.waiting) > 0 || g.limit > gateLeast()
		looking := g.looking
		g.mu.Unlock()
		g.start(ready)
		if !looking {
			return
		}
	}
}

// clear takes all that waits.
func (g *gate) clear() []*flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.waiting
	g.waiting = nil
	g.waits.Store(0)
	return list
}
