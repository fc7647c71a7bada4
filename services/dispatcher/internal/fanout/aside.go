package fanout

import (
	"runtime"
	"sync"

	"waybill.dev/services/dispatcher/internal/admission"
)

// asideShare: the events of one account that wait here for the account's filters take at most this part of the room for
// events. More events are returned to the bus for postponeTime.
const asideShare = 16

// asideQueue handles the events of accounts whose filters take long. The events of one account are handled
// one after the other. No other account waits for them. At most half of the processors are used, and the
// accounts take turns in using them.
type asideQueue struct {
	maxBytes int64 // bytes that may wait for an account; 0: there is no bound
	slots    chan struct{}

	mu       sync.Mutex
	accounts map[string]*accountQueue
	closed   bool // nothing is added any more
	working  sync.WaitGroup
}

// accountQueue has the events of an account that wait, and the event that is being handled.
type accountQueue struct {
	waiting []waitingEvent
	bytes   int64
}

type waitingEvent struct {
	bytes  int64
	handle func()
}

func newAside(room *admission.Budget) *asideQueue {
	a := &asideQueue{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), accounts: make(map[string]*accountQueue)}
	if room != nil {
		a.maxBytes = room.Limit() / asideShare
	}
	return a
}

// add calls handle when it is the event's turn. False: too much waits for the account already, or the process ends.
func (a *asideQueue) add(account string, bytes int64, handle func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	l := a.accounts[account]
	if l == nil {
		l = &accountQueue{}
		a.accounts[account] = l
		a.working.Go(func() { a.handleAll(account, l) })
	} else if a.maxBytes > 0 && l.bytes+bytes > a.maxBytes {
		return false
	}
	l.waiting = append(l.waiting, waitingEvent{bytes, handle})
	l.bytes += bytes
	return true
}

// close makes add refuse events from now on, and returns when all events that were added are handled.
func (a *asideQueue) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.working.Wait()
}

func (a *asideQueue) handleAll(account string, l *accountQueue) {
	for {
		a.slots <- struct{}{} // accounts that wait for a slot get it in turn
		next, ok := a.next(account, l)
		if ok {
			next.handle()
		}
		<-a.slots
		if !ok {
			return
		}
	}
}

func (a *asideQueue) next(account string, l *accountQueue) (next waitingEvent, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(a.accounts, account)
		return waitingEvent{}, false
	}
	next, l.waiting[0] = l.waiting[0], waitingEvent{}
	l.waiting = l.waiting[1:]
	l.bytes -= next.bytes
	return next, true
}

// len returns the number of events that wait.
func (a *asideQueue) len() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, l := range a.accounts {
		n += len(l.waiting)
	}
	return float64(n)
}
