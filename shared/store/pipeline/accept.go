package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Submission is what one request publishes. It is accepted as a whole or not at all.
type Submission struct {
	Account string
	// Events to accept. Account and ReceivedAt are set by the store.
	Events []domain.Event
	// Once, when set, makes the submission take effect only once for its key.
	Once *Once
}

// Once is an Idempotency-Key and the request that it stands for.
type Once struct {
	Path, Key string
	BodyHash  [32]byte
	// Respond returns the answer to keep, for the events as they were accepted. It is called inside
	// the transaction, and again when the transaction is repeated.
	Respond func([]AcceptedEvent) (status int, body []byte)
}

// AcceptedEvent is one event of a submission after the commit.
type AcceptedEvent struct {
	ID string
	// Duplicate: the id was accepted before, within domain.DedupeWindow; nothing was
	// stored now, and ReceivedAt is zero.
	Duplicate  bool
	ReceivedAt time.Time
	// Place is the number of the event among those of an account with ordering, in the order of
	// commits: from 1 and without a gap, within a commit in the order of the submissions. 0: the
	// account has no ordering, or the event is a duplicate.
	Place int64
}

// StoredResponse is the answer that was given to the first request with a key.
type StoredResponse struct {
	Status int
	Body   []byte
}

// Receipt is the result of one submission.
type Receipt struct {
	Events []AcceptedEvent
	// Version is the configuration version that the commit saw. It covers every webhook change that
	// was answered before Accept was called. 0 for a replayed answer.
	Version int64
	// Replay is set when the submission's key was answered before.
	Replay *StoredResponse
	// Err is domain.ErrConflict when the key was used with another body.
	Err error
}

// intake is what one commit inserts, in the order of (account, id), so that two commits with the
// same ids wait for each other and don't deadlock.
type intake struct {
	now    time.Time
	events []placedEvent
	// ordering means that at least one of the accounts is known to have ordering.
	ordering bool
}

// placedEvent is an event with its number in the commit, in the order of submission.
type placedEvent struct {
	domain.Event

	place int
}

// intakeResult is what a commit has inserted.
type intakeResult struct {
	version int64
	// fresh has the keys of the events that were inserted; nil: all were.
	fresh map[eventRef]struct{}
	// places has the last place of each account with ordering before this commit.
	places map[string]int64
}

// added reports whether an event was inserted.
func (r *intakeResult) added(ref eventRef) bool {
	if r.fresh == nil {
		return true
	}
	_, ok := r.fresh[ref]
	return ok
}

// eventRef identifies an event within the dedupe window.
type eventRef struct{ account, id string }

// Accept stores the events of all submissions in one commit and queues them for the bus.
// ReceivedAt, the same for all, is the store's clock in milliseconds. On an error nothing is
// stored. An event is a duplicate if its id was accepted in the same account less than 24 hours
// ago, or comes earlier in subs.
//
// If two processes submit the same id in the same millisecond on both sides of midnight, it may be
// accepted twice: each process looks into the partition of the day before without waiting for
// uncommitted rows there.
func (p *Pipeline) Accept(ctx context.Context, subs []Submission) ([]Receipt, error) {
	// Not within the transaction, because a transaction that waits for a
	// second connection may wait for ever.
	if err := p.readOrderingAccounts(ctx, 0); err != nil {
		return nil, err
	}
	known := p.places.accountsKnown.Load().version
	var receipts []Receipt
	err := p.db.Again(ctx, func() (err error) {
		receipts, err = p.accept(ctx, subs)
		return err
	})
	if err != nil {
		return nil, store.Wrap("accept events", err)
	}
	for i := range receipts {
		if receipts[i].Version > known {
			// The events are accepted. If this fails, they go out without places.
			if p.readOrderingAccounts(ctx, receipts[i].Version) == nil {
				_ = p.placeLate(ctx, subs, receipts)
			}
			break
		}
	}
	return receipts, nil
}

func (p *Pipeline) accept(ctx context.Context, subs []Submission) ([]Receipt, error) {
	receipts := make([]Receipt, len(subs))
	withKeys := slices.ContainsFunc(subs, func(sub Submission) bool { return sub.Once != nil })
	if !withKeys && !p.db.SQLite() { // on Postgres it is one statement
		return receipts, p.acceptEvents(ctx, p.db.Conn(), subs, receipts, nil)
	}
	// The first key gives the transaction its id, so the lock must come first.
	first := "SELECT pg_advisory_xact_lock_shared(" + strconv.Itoa(store.FeedLock) + ")"
	err := p.db.Write(ctx, first, func(c store.Conn) error { return p.acceptWithKeys(ctx, c, subs, receipts) })
	return receipts, err
}

// acceptWithKeys claims the idempotency keys, accepts the submissions whose keys have no answer
// yet, and keeps the answers.
func (p *Pipeline) acceptWithKeys(ctx context.Context, c store.Conn, subs []Submission, receipts []Receipt) error {
	now := p.db.Now()
	first := map[keyRef]int{} // the first submission with each key; it answers the others
	var keys []keyRef
	for i, sub := range subs {
		if sub.Once == nil {
			continue
		}
		key := newKeyRef(sub.Account, sub.Once.Path, sub.Once.Key)
		if _, ok := first[key]; !ok {
			first[key] = i
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, keyRef.compare)
	claimed := keys[:0:0]
	answered := map[int]bool{}
	for _, key := range keys {
		i := first[key]
		earlier, err := p.claim(ctx, c, key, subs[i].Once.BodyHash, now)
		switch {
		case errors.Is(err, domain.ErrConflict):
			receipts[i].Err, answered[i] = err, true
		case err != nil:
			return err
		case earlier != nil:
			receipts[i].Replay, answered[i] = earlier, true
		default:
			claimed = append(claimed, key)
		}
	}
	for i, sub := range subs {
		if sub.Once != nil && first[newKeyRef(sub.Account, sub.Once.Path, sub.Once.Key)] != i {
			answered[i] = true
		}
	}
	if err := p.acceptEvents(ctx, c, subs, receipts, answered); err != nil {
		return err
	}
	for _, key := range claimed {
		i := first[key]
		status, body := subs[i].Once.Respond(receipts[i].Events)
		if err := p.keepResponse(ctx, c, key, StoredResponse{status, body}); err != nil {
			return err
		}
	}
	return p.answerFollowers(ctx, c, subs, receipts, first)
}

// answerFollowers answers the submissions whose key came earlier in the same commit.
func (p *Pipeline) answerFollowers(ctx context.Context, c store.Conn, subs []Submission, receipts []Receipt, first map[keyRef]int) error {
	for i, sub := range subs {
		if sub.Once == nil {
			continue
		}
		key := newKeyRef(sub.Account, sub.Once.Path, sub.Once.Key)
		if first[key] == i {
			continue
		}
		response, err := p.storedResponse(ctx, c, key, sub.Once.BodyHash)
		switch {
		case errors.Is(err, domain.ErrConflict):
			receipts[i].Err = err
		case err != nil:
			return err
		default:
			receipts[i].Replay = response
		}
	}
	return nil
}

// acceptEvents inserts the events of the submissions that are not answered yet.
func (p *Pipeline) acceptEvents(ctx context.Context, c store.Conn, subs []Submission, receipts []Receipt, answered map[int]bool) error {
	in := intake{now: p.db.Now()}
	total := 0
	for _, sub := range subs {
		total += len(sub.Events)
	}
	seen := make(map[eventRef]struct{}, total)
	in.events = make([]placedEvent, 0, total)
	for i, sub := range subs {
		if answered[i] {
			continue
		}
		receipts[i].Events = make([]AcceptedEvent, len(sub.Events))
		for j, e := range sub.Events {
			accepted := &receipts[i].Events[j]
			accepted.ID = e.ID
			ref := eventRef{sub.Account, e.ID}
			if _, accepted.Duplicate = seen[ref]; accepted.Duplicate {
				continue
			}
			seen[ref] = struct{}{}
			e.Account, e.ReceivedAt = sub.Account, in.now
			in.events = append(in.events, placedEvent{e, len(in.events)})
		}
	}
	in.ordering = p.places.accountsKnown.Load().in(subs)
	slices.SortFunc(in.events, func(a, b placedEvent) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.ID, b.ID))
	})
	insert := insertEventsPostgres
	if c.SQLite() {
		insert = insertEventsSQLite
	}
	result, err := insert(ctx, c, in)
	if err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	for i := range receipts {
		if answered[i] {
			continue
		}
		receipts[i].Version = result.version
		for j := range receipts[i].Events {
			settleAccepted(&receipts[i].Events[j], subs[i].Account, in.now, &result)
		}
	}
	return nil
}

func settleAccepted(a *AcceptedEvent, account string, now time.Time, result *intakeResult) {
	if a.Duplicate {
		return
	}
	if !result.added(eventRef{account, a.ID}) {
		a.Duplicate = true
		return
	}
	a.ReceivedAt = now
	if last, ok := result.places[account]; ok {
		a.Place = last + 1
		result.places[account] = a.Place
	}
}
