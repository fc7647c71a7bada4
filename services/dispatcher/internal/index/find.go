package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waybill.dev/shared/domain"
)

// ErrStopped is the error of a question to an index that no longer runs.
var ErrStopped = errors.New("the index has stopped")

const (
	// maxFound is how many webhooks the database is asked for at once.
	maxFound = 500
	// maxReread is how many webhooks with a fault are read again every PollInterval. A row
	// may have been repaired in the database, without a new version.
	maxReread = 250
)

// Find calls answer once: with the webhook, or with nil if the database has no webhook with that
// id. Only the database can tell that, because an index may be behind. While the database can't be
// asked, answer is not called. The error is ErrStopped. For a known webhook answer is called at
// once. answer must not block.
func (x *Index) Find(id domain.WebhookID, answer func(*Hook, error)) {
	if _, err := domain.ParseWebhookID(string(id)); err != nil {
		answer(nil, nil) // an announcement may contain anything; no webhook has such an id
		return
	}
	x.mu.Lock()
	hook, known := x.hooks[id]
	stopped := x.stopped
	if !known && !stopped {
		x.asked[id] = append(x.asked[id], answer)
	}
	x.mu.Unlock()
	switch {
	case known:
		answer(hook, nil)
	case stopped:
		answer(nil, ErrStopped)
	default:
		x.Poke()
	}
}

// lookUp answers the callers of Find, as far as the database can be read, and reads again the webhooks that could not be
// read before. find is called after each load and on the same goroutine, so that a webhook which it finds can't have
// been deleted by a load before.
func (x *Index) lookUp(ctx context.Context) error {
	x.answerFinds(nil) // the load may have brought the webhooks that were asked for
	ids, asked := x.wantedIDs(time.Now())
	if len(ids) == 0 {
		return nil
	}
	webhooks, err := x.options.Store.LiveWebhooks(ctx, ids)
	if err != nil {
		return fmt.Errorf("look webhooks up: %w", err)
	}
	x.apply(webhooks, nil, 0)
	x.answerFinds(ids[:asked])
	if asked == maxFound {
		x.Poke()
	}
	return nil
}

// wantedIDs returns the webhooks to look up, first those that were asked for.
func (x *Index) wantedIDs(now time.Time) (ids []domain.WebhookID, asked int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.asked {
		if len(ids) == maxFound {
			break
		}
		ids = append(ids, id)
	}
	asked = len(ids)
	if now.Sub(x.reread) < PollInterval {
		return ids, asked
	}
	x.reread = now
	for id := range x.faulty { // the order of a map is different each time
		if len(ids) == asked+maxReread {
			break
		}
		ids = append(ids, id)
	}
	return ids, asked
}

// answerFinds answers callers of Find: those that asked for a webhook that is known now, and those that asked for one of
// lookedUp, whether it was found or not.
func (x *Index) answerFinds(lookedUp []domain.WebhookID) {
	type reply struct {
		hook *Hook
		tell []func(*Hook, error)
	}
	var replies []reply
	x.mu.Lock()
	for _, id := range lookedUp {
		if tell, ok := x.asked[id]; ok {
			replies = append(replies, reply{x.hooks[id], tell})
			delete(x.asked, id)
		}
	}
	for id, tell := range x.asked {
		if hook, known := x.hooks[id]; known {
			replies = append(replies, reply{hook, tell})
			delete(x.asked, id)
		}
	}
	x.mu.Unlock()
	for _, r := range replies {
		for _, tell := range r.tell {
			tell(r.hook, nil)
		}
	}
}

// stopFinds answers the callers of Find that still wait with ErrStopped.
func (x *Index) stopFinds() {
	x.mu.Lock()
	asked := x.asked
	x.asked, x.stopped = nil, true
	x.mu.Unlock()
	for _, tell := range asked {
		for _, answer := range tell {
			answer(nil, ErrStopped)
		}
	}
}
