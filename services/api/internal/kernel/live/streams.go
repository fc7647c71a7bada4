package live

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/news"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/signal"
)

// Limits on the number of streams. A browser needs one for all of its pages.
const (
	MaxOfAccount = 64
	MaxOfProcess = 1024
	// againAfter is the wait that a caller is told when there are too many streams.
	againAfter = 5 * time.Second
)

// Bus carries news.
type Bus interface {
	news.Bus
	Reconnects() (c <-chan struct{}, stop func())
}

// Streams are the streams of a process. For each account that has any, one subscription hears
// its news.
type Streams struct {
	bus Bus
	log *slog.Logger

	mu      sync.Mutex
	watched map[string]*watch
	open    int
	ended   chan struct{} // closed when no more streams are served
}

// watch is an account with at least one stream.
type watch struct {
	streams map[*inbox]struct{}
	stop    func() // ends the subscription
}

// NewStreams returns the streams of a process. News arrives only while Run runs.
func NewStreams(bus Bus, log *slog.Logger) *Streams {
	return &Streams{bus: bus, log: log, watched: make(map[string]*watch), ended: make(chan struct{})}
}

// End ends every stream, and has new ones refused.
func (s *Streams) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

// Run says which accounts are watched, again and again, until ctx ends.
func (s *Streams) Run(ctx context.Context) error {
	defer s.End()
	reconnects, stop := s.bus.Reconnects()
	defer stop()
	renew := time.NewTicker(news.Renewal)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reconnects:
			s.renew(true)
		case <-renew.C:
			s.renew(false)
		}
	}
}

// renew announces which accounts are watched. After a gap in the news, all watchers are told to
// read everything again.
func (s *Streams) renew(gap bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for account, w := range s.watched {
		news.Watch(s.bus, account)
		if !gap {
			continue
		}
		for in := range w.streams {
			for _, kind := range news.Kinds() {
				in.put(news.Changes{kind: nil})
			}
		}
	}
}

// join begins a stream; leave ends it.
func (s *Streams) join(account string) (*inbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return nil, web.Unavailable("The server is stopping.")
	default:
	}
	w := s.watched[account]
	if w != nil && len(w.streams) >= MaxOfAccount {
		p := problem.New(problem.RateLimited, fmt.Sprintf("The account has %d streams open, which is the limit of this process. Close one.", MaxOfAccount))
		p.RetryAfter = againAfter
		return nil, p
	}
	if s.open >= MaxOfProcess {
		return nil, web.Unavailable("This process has as many streams open as it can serve.")
	}
	if w == nil {
		w = &watch{streams: make(map[*inbox]struct{})}
		stop, err := news.Hear(s.bus, account, func(changes news.Changes) { s.spread(account, changes) })
		if err != nil {
			s.log.Debug("the bus carries no news", "error", err)
			return nil, web.Unavailable("There are no news while the bus is away.")
		}
		w.stop = stop
		s.watched[account] = w
	}
	in := &inbox{wake: signal.New(), changes: make(news.Changes)}
	w.streams[in] = struct{}{}
	s.open++
	news.Watch(s.bus, account)
	return in, nil
}

// Wake returns a channel that is signalled when there is news of an account, until stop is called.
// There is no signal while the bus is away.
func (s *Streams) Wake(account string) (wake <-chan struct{}, stop func()) {
	in, err := s.join(account)
	if err != nil {
		return nil, func() {}
	}
	return in.wake, func() { s.leave(account, in) }
}

// Follower hears which kinds of things change in an account. One counts as a stream.
type Follower struct {
	streams *Streams
	account string
	in      *inbox
}

// Follow starts a Follower. Its Stop ends it.
func (s *Streams) Follow(account string) (*Follower, error) {
	in, err := s.join(account)
	if err != nil {
		return nil, err
	}
	return &Follower{s, account, in}, nil
}

// Kinds returns the kinds of the changes since its last call.
func (f *Follower) Kinds() []string {
	var kinds []string
	for kind := range f.in.take() {
		kinds = append(kinds, string(kind))
	}
	return kinds
}

// Ended is closed when the process stops.
func (f *Follower) Ended() <-chan struct{} { return f.streams.ended }

// Stop ends the listening.
func (f *Follower) Stop() { f.streams.leave(f.account, f.in) }

// Ended is closed when the process stops.
func (s *Streams) Ended() <-chan struct{} { return s.ended }

func (s *Streams) leave(account string, in *inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watched[account]
	delete(w.streams, in)
	s.open--
	if len(w.streams) == 0 {
		w.stop()
		delete(s.watched, account)
	}
}

// spread gives news to each stream of an account.
func (s *Streams) spread(account string, changes news.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watched[account]; w != nil {
		for in := range w.streams {
			in.put(changes)
		}
	}
}

// maxWaiting is how many ids of a kind wait for a slow reader; if there are more, it is only told
// that there are many.
const maxWaiting = 256

// inbox has the news that a stream has yet to send.
type inbox struct {
	wake signal.Signal

	mu      sync.Mutex
	changes news.Changes
}

// put adds news. It never waits: news that a slow reader has not taken is merged.
func (in *inbox) put(changes news.Changes) {
	in.mu.Lock()
	for _, kind := range news.Kinds() {
		ids, ok := changes[kind]
		if ok && len(ids) == 0 {
			in.changes.Add(kind, "", maxWaiting)
		}
		for _, id := range ids {
			in.changes.Add(kind, id, maxWaiting)
		}
	}
	in.mu.Unlock()
	in.wake.Give()
}

// take returns the news to send now.
func (in *inbox) take() news.Changes {
	in.mu.Lock()
	defer in.mu.Unlock()
	changes := in.changes
	in.changes = make(news.Changes)
	return changes
}
