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
	// againAfter is the wait that a caller is told when there are too many requests.
	againAfter = 5 * time.Second
)

// A waiting request reads again when there is news of an event of its account; when it finds
// nothing then, soon after that, because an older transaction may still run; and every lookEvery in
// case news was lost.
const (
	lookSoon  = 20 * time.Millisecond
	lookEvery = 3 * time.Second
)

// Readers are the requests of a process that wait for events. They hold no database connection
// while they wait.
type Readers struct {
	streams *live.Streams

	mu        sync.Mutex
	ofAccount map[string]int
	all       int
}

// NewReaders returns the readers of a process. News arrives only while Run runs.
func NewReaders(bus live.Bus, log *slog.Logger) *Readers {
	return &Readers{streams: live.NewStreams(bus, log), ofAccount: make(map[string]int)}
}

// Run says which accounts have readers until ctx ends.
func (r *Readers) Run(ctx context.Context) error { return r.streams.Run(ctx) }

// End ends all waits, so that the requests are answered.
func (r *Readers) End() { r.streams.End() }

// enter counts a reader. The caller calls leave at the end.
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

// wait reads again until there are events, the time ends, or the process ends. Before is the result
// of the last read.
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
	pause := lookSoon // for events that came before the subscription to news
	for {
		look := time.NewTimer(pause)
		select {
		case <-c.Context().Done():
			return before, nil // the client is gone
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
