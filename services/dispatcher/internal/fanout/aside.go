package fanout

import (
	"runtime"
	"sync"

	"waybill.dev/services/dispatcher/internal/admission"
)

// asideShare: the events of one account that wait here for the account's filters take at most this part of the room for
// events. More events are returned to the bus for postponed.
const asideShare = 16

// aside handles the events of accounts whose filters take long. The events of one account are handled
// one after the other. No other account waits for them. At most half of the processors are used, and the
// accounts take turns in using them.
type aside struct {
	most  int64 // bytes that may wait for an account; 0: there is no bound
	slots chan struct{}

	mu       sync.Mutex
	accounts map[string]*line
	over     bool // nothing is added any more
	working  sync.WaitGroup
}

// line has the events of an account that wait, and the event that is being handled.
type line struct {
	waiting []waiting
	bytes   int64
}

type waiting struct {
	bytes  int64
	handle func()
}

func newAside(room *admission.Budget) *aside {
	a := &aside{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), accounts: make(map[string]*line)}
	if room != nil {
		a.most = room.Limit() / asideShare
	}
	return a
}

// add calls handle when it is the event's turn. False: too much waits for the account already, or the process ends.
func (a *aside) add(account string, bytes int64, handle func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	l := a.accounts[account]
	if l == nil {
		l = &line{}
		a.accounts[account] = l
		a.working.Go(func() { a.work(account, l) })
	} else if a.most > 0 && l.bytes+bytes > a.most {
		return false
	}
	l.waiting = append(l.waiting, waiting{bytes, handle})
	l.bytes += bytes
	return true
}

// wait makes add refuse events from now on, and returns when all events that were added are handled.
func (a *aside) wait() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.working.Wait()
}

func (a *aside) work(account string, l *line) {
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

func (a *aside) next(account string, l *line) (next waiting, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(a.accounts, account)
		return waiting{}, false
	}
	next, l.waiting[0] = l.waiting[0], waiting{}
	l.waiting = l.waiting[1:]
	l.bytes -= next.bytes
	return next, true
}

// len returns the number of events that wait.
func (a *aside) len() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, l := range a.accounts {
		n += len(l.waiting)
	}
	return float64(n)
}
