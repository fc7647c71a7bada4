package feed

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/store/pipeline"
)

// How many requests may wait at a time. A receiver needs one.
const (
	MaxOfAccount = 64
	MaxOfProcess = 1024
	// againAfter is what a caller is told to wait for when there are too many.
	againAfter = 5 * time.Second
)

// A request that waits looks again when the news have an event of its account, soon after
// that while it finds nothing, as a transaction that is older may still run, and every
// lookEvery in case that news were lost.
const (
	lookSoon  = 20 * time.Millisecond
	lookEvery = 3 * time.Second
)

// Readers are the requests of a process that wait for events. They hold no connection of the
// database while they wait.
type Readers struct {
	streams *live.Streams

	mu        sync.Mutex
	ofAccount map[string]int
	all       int
}

// NewReaders returns the readers of a process. Run must be running for news to come for long.
func NewReaders(bus live.Bus, log *slog.Logger) *Readers {
	return &Readers{streams: live.NewStreams(bus, log), ofAccount: make(map[string]int)}
}

// Run says which accounts have readers until ctx ends.
func (r *Readers) Run(ctx context.Context) error { return r.streams.Run(ctx) }

// End answers all that wait.
func (r *Readers) End() { r.streams.End() }

// enter counts a reader until leave.
func (r *Readers) enter(account string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ofAccount[account] >= MaxOfAccount:
		return web.TooMany(againAfter, fmt.Sprintf("%d requests of the account wait for events, which is the limit of this process.", MaxOfAccount))
	case r.all >= MaxOfProcess:
		return web.Unavailable("As many requests wait for events as this process can serve.")
	}
	r.ofAccount[account]++
	r.all++
	return nil
}

func (r *Readers) leave(account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	r.ofAccount[account]--
	if r.ofAccount[account] == 0 {
		delete(r.ofAccount, account)
	}
}

// wait looks again until there are events, the time is over, or the process ends. Before is
// what the last look has found.
func (h *handlers) wait(c *web.Call, q pipeline.FeedQuery, before page, limit time.Duration) (page, error) {
	account := c.Principal.Account
	if err := h.readers.enter(account); err != nil {
		return page{}, err
	}
	defer h.readers.leave(account)
	wake, stop := h.readers.streams.Wake(account)
	defer stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	pause := lookSoon // what came before the news were listened to
	for {
		look := time.NewTimer(pause)
		select {
		case <-c.Context().Done():
			return before, nil // nobody waits for the answer
		case <-h.readers.streams.Ended():
			return before, nil
		case <-over.C:
			return before, nil
		case <-wake:
			pause = lookSoon
		case <-look.C:
			pause = min(2*pause, lookEvery)
		}
		look.Stop()
		if !c.Holds() {
			return before, nil
		}
		found, err := h.page(c.Context(), q)
		if err != nil || !found.empty() {
			return found, err
		}
		before, q.After = found, found.Cursor
	}
}
