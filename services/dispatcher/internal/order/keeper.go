package order

import (
	"context"
	"errors"
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/shared/again"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

const (
	// maxUnacknowledged bounds the events of an account that are in flight.
	maxUnacknowledged = 1 << 14
	// endTime is how long a session waits at its end for attempts in flight: longer than any attempt takes, because
	// the next session would make a second attempt of the same delivery at the same time.
	endTime = domain.MaxTimeout + time.Second
	// tick is the time between two looks for deliveries that are due or have waited for long.
	tick = 50 * time.Millisecond
	// roomShare: one account takes at most this part of the memory.
	roomShare = 4
)

var errRestart = errors.New("it begins anew")

// keeper keeps the order of one account. It runs one session after the other. Each session begins with
// the state that the database and the bus have.
type keeper struct {
	m       *Manager
	account string
	stop    func()

	mu      sync.Mutex
	session *session
}

func newKeeper(m *Manager, account string, stop func()) *keeper {
	return &keeper{m: m, account: account, stop: stop}
}

// wakeSession is called when a webhook has changed.
func (k *keeper) wakeSession() {
	if s := k.currentSession(); s != nil {
		s.wake()
	}
}

// restartSession ends the session, so that the next one reads everything again.
func (k *keeper) restartSession() {
	if s := k.currentSession(); s != nil {
		s.fail(errRestart)
	}
}

// checkStream makes the session check whether EVENTS is still the same stream.
func (k *keeper) checkStream() {
	if s := k.currentSession(); s != nil {
		s.doubtful.Store(true)
		select {
		case s.checkNow <- struct{}{}:
		default:
		}
	}
}

func (k *keeper) currentSession() *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session
}

func (k *keeper) run(ctx context.Context) {
	_ = again.Do(ctx, again.Loop{
		First: 100 * time.Millisecond, Longest: 2 * time.Second, Log: k.m.options.Logger, About: []any{"account", k.account},
		Fails: "the order of an account can't be kept; trying again", Works: "the order of an account is kept again",
	}, func(works func()) error {
		for {
			s := newSession(k.m, k.account)
			k.mu.Lock()
			k.session = s
			k.mu.Unlock()
			if err := s.run(ctx, works); !errors.Is(err, errRestart) || ctx.Err() != nil {
				return err
			}
		}
	})
}

func newSession(m *Manager, account string) *session {
	room := m.options.Room
	if room != nil {
		room = room.Part(room.Limit() / roomShare)
	}
	s := &session{
		m: m, account: account, inFlight: admission.NewMessages(room), memory: m.options.Memory.Part(m.options.Memory.Limit() / memoryShare), ended: pending.NewAcknowledgedSet(),
		groups: make(map[domain.WebhookID]*group), fresh: make(map[*queue]struct{}), failed: make(chan error, 1),
		poked: make(chan struct{}, 1), checkNow: make(chan struct{}, 1),
		numbers: make(map[recorder.SequenceKey]int64), gaps: make(map[recorder.SequenceKey]bool),
	}
	s.places.begin(0)
	s.stage = &pending.Stage{
		Emitter: m.options.Emitter, Server: m.options.Bus.Server,
		Done: func(message *bus.Message) {
			s.ended.Add(message.Position())
			message.Ack()
			s.inFlight.Done(message)
		},
		Back: func(message *bus.Message) { s.inFlight.Done(message) }, // while the process ends; the next session gets it
	}
	return s
}

// fail ends a session.
func (s *session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// run takes over, then keeps the order until ctx is done or something fails. It calls working once it
// has taken over.
func (s *session) run(ctx context.Context, working func()) error {
	taken, err := s.takeOver(ctx)
	if err != nil {
		return err
	}
	working()
	attending, stopAttending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAttending()
	var parts sync.WaitGroup
	parts.Go(func() { _ = s.inFlight.Run(attending) })
	taking, stop := context.WithCancel(ctx)
	parts.Go(func() {
		if err := s.takeIn(taking, taken); err != nil && taking.Err() == nil {
			s.fail(err)
		}
	})
	err = s.sendDue(taking)
	stop()
	s.finish(ctx)
	stopAttending()
	parts.Wait()
	s.inFlight.Leave() // the next session or the next owner gets the messages
	s.giveBack()
	return err
}

// sendDue sends the deliveries that are due, until ctx is done or something fails. While no delivery waits, sendDue sleeps.
func (s *session) sendDue(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	ticking := true
	for {
		if busy := s.countOpen() > 0; busy != ticking {
			if ticking = busy; busy {
				ticker.Reset(tick)
			} else {
				ticker.Stop()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failed:
			return err
		case now := <-ticker.C:
			s.handleDue(now)
		case <-s.poked:
		}
		s.pump(ctx)
	}
}

// finish waits until the attempts in flight have ended. The next session sends the other deliveries.
func (s *session) finish(ctx context.Context) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for s.countUnderWay() > 0 && ending.Err() == nil {
		select {
		case <-ticker.C:
		case <-ending.Done():
		}
	}
}

// takeOver makes this process the one that gets the account's events, and reads the
// deliveries that the owner before has kept.
func (s *session) takeOver(ctx context.Context) (bus.EventsClaim, error) {
	before, err := s.m.events.ask(ctx)
	if err != nil {
		return bus.EventsClaim{}, err
	}
	taken, err := s.m.options.Bus.TakeEvents(ctx, s.account, s.m.options.Self, maxUnacknowledged, func() (uint64, error) { return s.firstSequence(ctx, before) })
	if err != nil {
		return bus.EventsClaim{}, err
	}
	state, err := s.m.events.ask(ctx)
	if err != nil {
		return bus.EventsClaim{}, err
	}
	s.created, s.suspect = state.Created, state.LastSeq
	if err := s.recordStart(ctx, state); err != nil {
		return bus.EventsClaim{}, err
	}
	if err := s.awaitRecords(ctx); err != nil {
		return bus.EventsClaim{}, err
	}
	next, err := s.m.options.Log.NextPlace(ctx, s.account, 1)
	if err != nil {
		return bus.EventsClaim{}, err
	}
	s.places.begin(next)
	if err := s.loadKept(ctx); err != nil {
		return bus.EventsClaim{}, err
	}
	return taken, nil
}

// recordStart records where the order starts, now that its consumer exists, and tells fan-out, which has kept the
// account's events back until now.
func (s *session) recordStart(ctx context.Context, events bus.StreamState) error {
	start, err := s.m.options.Log.StartOrder(ctx, recorder.OrderStart{Account: s.account, Created: events.Created.Truncate(time.Millisecond), From: s.m.startSequence(s.account, events)})
	if err != nil {
		return err
	}
	s.from = start.From
	s.m.mu.Lock()
	known := s.m.starts[s.account]
	s.m.mu.Unlock()
	if !known.Created.Equal(start.Created) {
		s.m.noteStarts(start)
		s.m.options.Bus.Announce(bus.SubjectOrder, []byte(s.account))
	}
	return nil
}

// firstSequence returns where a new consumer of the account begins to read. Until the order has started, fan-out
// acknowledges no event that has a place, so the order needs no event that fan-out has acknowledged. If
// the order has started before, its consumer was lost: then the new consumer reads the whole stream.
func (s *session) firstSequence(ctx context.Context, before bus.StreamState) (uint64, error) {
	starts, err := s.m.recorded.ask(ctx)
	if err != nil {
		return 0, err
	}
	for _, start := range starts {
		if start.Account == s.account {
			return max(before.FirstSeq, 1), nil
		}
	}
	fanout, err := s.m.options.Bus.Stream(bus.StreamEvents).ConsumerState(ctx, bus.ConsumerFanout)
	if err != nil {
		return 0, err
	}
	return fanout.Acknowledged + 1, nil
}

// awaitRecords waits until the records that are on the bus are in the database. These records name the deliveries that the
// owner before has finished.
func (s *session) awaitRecords(ctx context.Context) error {
	_, err := s.m.written.ask(ctx)
	return err
}
