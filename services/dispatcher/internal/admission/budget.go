package admission

import (
	"context"
	"slices"
	"sync"
)

const (
	// largestMessage is how much room is needed for the largest message that a server takes: 1 MiB,
	// and its subjects.
	largestMessage = 1<<20 + 16<<10
	// LargestTask is the same for RETRIES and HOLD, where only Waybill publishes: an event
	// has 256 KiB of data at most.
	LargestTask = 320 << 10
)

// Budget bounds the bytes of messages in flight. A stage that takes messages off the bus waits for
// room, in turn, before it asks for them. A message in flight never waits for more room.
type Budget struct {
	limit  int64
	parent *Budget // the budget that this one is a part of; nil: none

	mu      sync.Mutex
	used    int64
	held    int64 // the part of used that messages in flight take; the rest is reserved for messages that may come
	waiting []*budgetWaiter
}

type budgetWaiter struct {
	least, most int64
	granted     chan int64
}

// NewBudget returns room for limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Part returns room for limit bytes of r, for one of the users that share r. However long that user
// keeps them, there is room for the others. Bytes taken from the part are taken from r, too.
func (r *Budget) Part(limit int64) *Budget { return &Budget{limit: limit, parent: r} }

// Limit returns how many bytes there is room for.
func (r *Budget) Limit() int64 { return r.limit }

// BudgetState is how much of the room is taken.
type BudgetState struct {
	Used, Limit int64 // bytes
	Waiting     int   // callers that wait for room
}

// State returns the present state.
func (r *Budget) State() BudgetState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return BudgetState{Used: r.used, Limit: r.limit, Waiting: len(r.waiting)}
}

// Tight reports whether messages in flight take more than half of the room. Reserved room is left
// out: it is taken even when nothing is in flight.
func (r *Budget) Tight() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held > max(0, r.limit-(r.used-r.held))/2
}

// Full reports whether there is no room for another task.
func (r *Budget) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used+LargestTask > r.limit
}

// Reserve waits for room for least bytes, and takes as much as is free, but no more than most. A
// request for more than the whole budget is granted when nothing else is in it. The error is ctx's.
func (r *Budget) Reserve(ctx context.Context, least, most int64) (int64, error) {
	granted, err := r.reserve(ctx, least, most)
	if err != nil || r.parent == nil {
		return granted, err
	}
	whole, err := r.parent.Reserve(ctx, least, granted)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveBack(granted - whole)
	return whole, err
}

func (r *Budget) reserve(ctx context.Context, least, most int64) (int64, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	r.mu.Lock()
	if len(r.waiting) == 0 && r.fits(least) {
		granted := r.grant(least, most)
		r.mu.Unlock()
		return granted, nil
	}
	w := &budgetWaiter{least: least, most: most, granted: make(chan int64, 1)}
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	select {
	case granted := <-w.granted:
		return granted, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	if i := slices.Index(r.waiting, w); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.admit() // the next one may need less
	} else {
		r.giveBack(<-w.granted)
	}
	r.mu.Unlock()
	return 0, ctx.Err()
}

// Take takes room for a message that is in flight already, even if there is none left.
func (r *Budget) Take(n int64) {
	for ; r != nil; r = r.parent {
		r.mu.Lock()
		r.used += n
		r.held += n
		r.mu.Unlock()
	}
}

// LetGo gives back what Take took.
func (r *Budget) LetGo(n int64) {
	for ; r != nil; r = r.parent {
		r.mu.Lock()
		r.held -= n
		r.giveBack(n)
		r.mu.Unlock()
	}
}

// Give gives back what Reserve granted.
func (r *Budget) Give(n int64) {
	for ; r != nil; r = r.parent {
		r.mu.Lock()
		r.giveBack(n)
		r.mu.Unlock()
	}
}

func (r *Budget) giveBack(n int64) {
	r.used -= n
	r.admit()
}

// admit grants the requests that wait, as far as there is room; r.mu is held.
func (r *Budget) admit() {
	for len(r.waiting) > 0 && r.fits(r.waiting[0].least) {
		w := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		w.granted <- r.grant(w.least, w.most)
	}
}

func (r *Budget) fits(least int64) bool { return r.used+least <= r.limit || r.used <= 0 }

func (r *Budget) grant(least, most int64) int64 {
	granted := max(least, min(most, r.limit-r.used))
	r.used += granted
	return granted
}
