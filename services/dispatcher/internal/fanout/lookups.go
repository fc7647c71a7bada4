package fanout

import (
	"context"
	"sync"
	"time"

	"waybill.dev/shared/domain"
)

const (
	// maxLookups is how many questions to the log run at a time. After the bus was away, 20,000 events
	// may have to be looked up. Events that come while all questions run are looked up together.
	maxLookups = 2
	lookupTime = 2 * time.Second
)

// lookups asks the log about deliveries. One question covers several events of an account.
type lookups struct {
	log   Log
	slots chan struct{}

	mu   sync.Mutex
	next map[string]*lookup // by account; not asked yet
}

type lookup struct {
	ids  []domain.DeliveryID
	done chan struct{} // closed when revs and err are there
	revs map[domain.DeliveryID]domain.Revision
	err  error
}

func newLookups(log Log) *lookups {
	return &lookups{log: log, slots: make(chan struct{}, maxLookups), next: make(map[string]*lookup)}
}

// revs returns the revisions of deliveries in the log, and perhaps of other deliveries of the account.
func (l *lookups) revs(account string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error) {
	l.mu.Lock()
	ask, joins := l.next[account]
	if !joins {
		ask = &lookup{done: make(chan struct{})}
		l.next[account] = ask
	}
	ask.ids = append(ask.ids, ids...)
	l.mu.Unlock()
	if joins {
		<-ask.done
		return ask.revs, ask.err
	}
	l.slots <- struct{}{}
	l.mu.Lock()
	delete(l.next, account)
	l.mu.Unlock()
	// Not the caller's context: other callers wait for this question, too.
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	ask.revs, ask.err = l.log.Revs(ctx, account, ask.ids)
	<-l.slots
	close(ask.done)
	return ask.revs, ask.err
}
