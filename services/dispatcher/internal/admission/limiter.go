package admission

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// Place is an attempt's place in the limiter.
type Place struct {
	// Yields lets other attempts pass when places are short.
	Yields bool
	// Free bypasses the limiter: other attempts to this webhook already hang.
	Free bool

	taken bool // the limiter's lock guards it
}

// Attempt is an attempt that a Limiter starts; it is a pointer.
type Attempt interface {
	comparable
	// Place returns the same place each time.
	Place() *Place
	// Begin is called just before the attempt runs.
	Begin()
}

// Limiter is the concurrency limiter. It limits the attempts that are in flight at once in this
// process, and starts waiting attempts in the order of their arrival. Attempts that yield wait in a
// queue of their own. While both queues wait, each gets every second place. Attempts that hang hold
// no place. So receivers that hang keep others waiting for a second at most, and only until the
// process knows that they hang.
type Limiter[A Attempt] struct {
	process *Process
	run     func(A) // runs until there is nothing to run
	limit   int

	mu           sync.Mutex
	taken        int
	regular      []A
	yielding     []A
	yieldingTurn bool // the next place goes to an attempt that yields
	awaitingRoom bool
}

// NewLimiter returns the limiter of a process. run runs an attempt that has begun, and then the
// attempts that Pass returns.
func NewLimiter[A Attempt](process *Process, run func(A)) *Limiter[A] {
	return &Limiter[A]{process: process, run: run, limit: int(process.limit)}
}

// attemptsLimit is how many attempts may be in flight at once, without those that hang.
func attemptsLimit() int64 { return int64(min(maxAttempts, limitPerCore*runtime.GOMAXPROCS(0))) }

// hasRoom reports whether another attempt may start, and none waits before it; l.mu is held.
func (l *Limiter[A]) hasRoom() bool {
	return l.process.waiting.Load() == 0 && l.taken < l.limit && !l.process.options.Full()
}

// Launch begins an attempt and runs it on a goroutine of its own, now or when there is a place.
func (l *Limiter[A]) Launch(a A) {
	if a.Place().Free && !l.process.options.Full() || l.enter(a) {
		a.Begin()
		go l.run(a)
	}
}

// enter takes a place for an attempt. False: the attempt waits, and starts when there is a place.
func (l *Limiter[A]) enter(a A) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasRoom() {
		l.givePlace(a)
		return true
	}
	l.enqueue(a)
	return false
}

// enqueue queues an attempt; l.mu is held.
func (l *Limiter[A]) enqueue(a A) {
	queue := &l.regular
	if a.Place().Yields {
		queue = &l.yielding
	}
	*queue = append(*queue, a)
	l.process.waiting.Add(1)
	if !l.awaitingRoom {
		l.awaitingRoom = true
		go l.awaitRoom()
	}
}

// Leave gives an attempt's place back, if it has one, and starts the attempts that waited for it.
func (l *Limiter[A]) Leave(a A) {
	l.mu.Lock()
	l.takePlaceBack(a)
	ready := l.takeReady()
	l.mu.Unlock()
	l.startAll(ready)
}

// Pass gives back the place of an attempt that has ended, and takes one for next, the next attempt
// of the same webhook, if any. It returns the attempt that the caller runs now; nil: none.
func (l *Limiter[A]) Pass(done, next A) A {
	var none A
	l.mu.Lock()
	l.takePlaceBack(done)
	var ready []A
	switch {
	case next == none, next.Place().Free && !l.process.options.Full():
		ready = l.takeReady()
	case l.hasRoom():
		l.givePlace(next)
	default:
		l.enqueue(next)
		next = none
		ready = l.takeReady()
	}
	l.mu.Unlock()
	if next == none && len(ready) > 0 {
		next, ready = ready[0], ready[1:]
	}
	if next != none {
		next.Begin()
	}
	l.startAll(ready)
	return next
}

// givePlace gives an attempt a place; l.mu is held.
func (l *Limiter[A]) givePlace(a A) {
	l.taken++
	a.Place().taken = true
}

// takePlaceBack takes the place of an attempt back, if it has one; l.mu is held.
func (l *Limiter[A]) takePlaceBack(a A) {
	if place := a.Place(); place.taken {
		place.taken = false
		l.taken--
	}
}

// takeReady removes the attempts that may start from the queues, and gives each a place; l.mu is held.
func (l *Limiter[A]) takeReady() []A {
	n := min(int(l.process.waiting.Load()), l.limit-l.taken)
	if n <= 0 || l.process.options.Full() {
		return nil
	}
	list := make([]A, n)
	for i := range list {
		list[i] = l.pop()
		l.givePlace(list[i])
	}
	l.process.waiting.Add(-int64(n))
	return list
}

// pop removes the next attempt from the queues; at least one of them is not empty. l.mu is held.
func (l *Limiter[A]) pop() A {
	queue := &l.regular
	if len(l.regular) == 0 || l.yieldingTurn && len(l.yielding) > 0 {
		queue = &l.yielding
	}
	l.yieldingTurn = !l.yieldingTurn
	a := (*queue)[0]
	clear((*queue)[:1])
	*queue = (*queue)[1:]
	if len(*queue) == 0 {
		*queue = nil
	}
	return a
}

func (l *Limiter[A]) startAll(list []A) {
	for _, a := range list {
		a.Begin()
		go l.run(a)
	}
}

// awaitRoom starts the attempts that wait because outcomes could not be stored, as soon as
// outcomes can be stored. By then there may be no attempt in flight whose end would start
// the waiting attempts. awaitRoom returns when no attempt waits.
func (l *Limiter[A]) awaitRoom() {
	ticker := time.NewTicker(roomLookInterval)
	defer ticker.Stop()
	for range ticker.C {
		l.mu.Lock()
		ready := l.takeReady()
		l.awaitingRoom = l.process.waiting.Load() > 0
		waits := l.awaitingRoom
		l.mu.Unlock()
		l.startAll(ready)
		if !waits {
			return
		}
	}
}

// Clear removes and returns all attempts that wait.
func (l *Limiter[A]) Clear() []A {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Concat(l.regular, l.yielding)
	l.regular, l.yielding = nil, nil
	l.process.waiting.Store(0)
	return list
}
