package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/pipeline"
)

// placesAgain is how long ago the relay must have published an event before it is published again because its place
// is missing: it may still be on its way.
const placesAgain = 5 * time.Second

// missingPlaces are the places that the order of accounts waits for. Repeated requests for a place before the relay
// looks count once.
type missingPlaces struct {
	mu       sync.Mutex
	leading  bool
	accounts map[string]bus.MissingPlaces
	wake     signal.Signal
}

func newMissingPlaces() *missingPlaces { return &missingPlaces{wake: signal.New()} }

// lead starts or stops collecting places.
func (a *missingPlaces) lead(leading bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leading, a.accounts = leading, map[string]bus.MissingPlaces{}
}

func (a *missingPlaces) add(m bus.MissingPlaces) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.leading {
		return
	}
	if other, ok := a.accounts[m.Account]; ok {
		m.First, m.Last = min(m.First, other.First), max(m.Last, other.Last)
	}
	a.accounts[m.Account] = m
	a.wake.Give()
}

// take returns the places that were asked for since the last call.
func (a *missingPlaces) take() map[string]bus.MissingPlaces {
	a.mu.Lock()
	defer a.mu.Unlock()
	accounts := a.accounts
	a.accounts = map[string]bus.MissingPlaces{}
	return accounts
}

// announced handles an announcement on bus.SubjectRelay.
func (r *Relay) announced(body []byte) {
	if missing, ok := bus.ParsePlaces(body); ok {
		r.asked.add(missing)
		return
	}
	r.Poke()
}

// publishPlaces publishes the events at the missing places, while this process leads. publishPlaces runs beside the
// rounds: all later events of the account wait for these events.
func (l *leader) publishPlaces(ctx context.Context) {
	trouble := trouble{log: l.log, what: "events that an order waits for can't be published; they are asked for again"}
	l.asked.lead(true)
	defer l.asked.lead(false)
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.asked.wake:
		}
		var failed error
		for _, missing := range l.asked.take() {
			if err := l.places(ctx, missing); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		trouble.report(ctx, failed)
	}
}

// places publishes the unsettled events at the given places.
func (l *leader) places(ctx context.Context, missing bus.MissingPlaces) error {
	before := time.Now().Add(-placesAgain)
	for missing.First <= missing.Last {
		rows, err := l.unsettledPlaces(ctx, missing, before)
		if err != nil || len(rows) == 0 {
			return err
		}
		if _, err := l.republish(ctx, rows); err != nil {
			return fmt.Errorf("publish missing places: %w", err)
		}
		missing.First = rows[len(rows)-1].Place + 1
	}
	return nil
}

func (l *leader) unsettledPlaces(ctx context.Context, missing bus.MissingPlaces, before time.Time) ([]pipeline.OutboxEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.UnsettledPlaces(ctx, missing.Account, missing.First, missing.Last, before, pageSize)
}
