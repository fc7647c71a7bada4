package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// ErrBeyondRetention is returned for a cursor if events after it are not kept any more.
var ErrBeyondRetention = errors.New("beyond the retention")

// FeedQuery asks for a page of a webhook's feed.
type FeedQuery struct {
	Account string
	Webhook domain.WebhookID
	Types   []domain.EventType // the types that the webhook is registered for
	After   string             // a cursor of the same webhook; empty: from the oldest event that is kept
	Limit   int                // 1..1000; 0: 100
	// Match selects events; nil: all of them.
	Match func(domain.Event) bool
}

// FeedPage is a part of a feed.
type FeedPage struct {
	// Events are the events that the webhook wants. There may be fewer than the limit, even none,
	// when they are large or Match rejects many; Done says whether there are more.
	Events []domain.Event
	Cursor string
	// Done means that no more events were committed, or none before a transaction that still runs.
	Done bool
}

// Feed returns events in the order of the transactions that added them. Nothing is skipped: while a
// transaction runs, the events of later transactions are not returned. ErrCursor: the cursor is not
// one of this webhook.
func (p *Pipeline) Feed(ctx context.Context, q FeedQuery) (FeedPage, error) {
	after, err := decodeFeedCursor(q.After, q.Account, q.Webhook)
	if err != nil {
		return FeedPage{}, err
	}
	var page FeedPage
	err = p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		now := p.db.Now()
		horizon, err := p.db.Horizon(tx)
		if err != nil {
			return err
		}
		if err := after.check(tx, horizon.Next); err != nil {
			return err
		}
		marks, more, err := q.marks(tx, after.FeedPlace, horizon.Horizon)
		if err != nil {
			return err
		}
		next := feedCursor{Account: q.Account, Webhook: string(q.Webhook), FeedPlace: after.FeedPlace, Kept: after.Kept}
		end := beforeXact(horizon.Horizon)
		switch {
		case !more && end.compare(after.FeedPlace) >= 0: // everything below the horizon is read
			next.FeedPlace, next.Kept = end, now.Unix()
		case len(marks) > 0:
			last := marks[len(marks)-1]
			next.FeedPlace, next.Kept = last.FeedPlace, last.FeedPlace.ReceivedAt.Time().Unix()
		}
		page.Done, page.Cursor = !more, store.EncodeToken(next)
		page.Events, err = q.events(tx, marks)
		return err
	})
	return page, store.Wrap("read feed", err)
}

// FeedPlace is an event's place in the order of commits.
type FeedPlace struct { // exported, because gorm ignores unexported fields
	Xact       int64         `json:"x"`
	ReceivedAt store.Instant `json:"t"`
	Place      int           `json:"p,omitempty"`
	ID         string        `json:"i,omitempty"`
}

func (a FeedPlace) compare(b FeedPlace) int {
	return cmp.Or(cmp.Compare(a.Xact, b.Xact), cmp.Compare(a.ReceivedAt, b.ReceivedAt), cmp.Compare(a.Place, b.Place), cmp.Compare(a.ID, b.ID))
}

// beforeXact returns the place before all events of a transaction.
func beforeXact(xact int64) FeedPlace { return FeedPlace{Xact: xact, ReceivedAt: 1} }

// feedMark is an event of a feed, without its body.
type feedMark struct {
	FeedPlace FeedPlace `gorm:"embedded"`
	Day       store.Date
	Weight    int64
}

// sqlFeed selects an account's events of one type in the order of commits. The first two columns
// after the type are compared a second time by themselves, so that the index is used.
const sqlFeed = `SELECT xact, received_at, place, id, day, octet_length(payload) + 64 AS weight FROM events
	WHERE account = ? AND type = ? AND xact < ? AND place >= 0
		AND (xact, received_at) >= (?, ?) AND (xact, received_at, place, id) > (?, ?, ?, ?)
	ORDER BY xact, received_at, place, id LIMIT ?`

// marks returns the events of the page, and whether there are more.
func (q FeedQuery) marks(tx *gorm.DB, after FeedPlace, horizon int64) (page []feedMark, more bool, err error) {
	limit := pageSize(q.Limit)
	var marks []feedMark
	for _, kind := range q.Types {
		var some []feedMark
		err := tx.Raw(sqlFeed, q.Account, string(kind), horizon, after.Xact, after.ReceivedAt,
			after.Xact, after.ReceivedAt, after.Place, after.ID, limit+1).Scan(&some).Error
		if err != nil {
			return nil, false, err
		}
		marks = append(marks, some...)
	}
	slices.SortFunc(marks, func(a, b feedMark) int { return a.FeedPlace.compare(b.FeedPlace) })
	page = marks[:min(len(marks), limit)]
	weights := store.All(page, func(mark feedMark) int64 { return mark.Weight })
	page = page[:store.Fitting(weights)]
	return page, len(page) < len(marks), nil
}

// events returns the marked events that the query wants.
func (q FeedQuery) events(tx *gorm.DB, marks []feedMark) ([]domain.Event, error) {
	refs := store.All(marks, func(mark feedMark) dayRef { return dayRef{mark.Day, eventRef{q.Account, mark.FeedPlace.ID}} })
	found, err := storedEvents(tx, refs)
	if err != nil {
		return nil, err
	}
	events := make([]domain.Event, 0, len(refs))
	for _, ref := range refs {
		event, ok := found[ref]
		if !ok {
			return nil, fmt.Errorf("event %s of the snapshot is gone", ref.id)
		}
		if q.Match == nil || q.Match(event) {
			events = append(events, event)
		}
	}
	return events, nil
}

// feedCursor is where a reader of a feed is: after a place, or before all events of a transaction.
type feedCursor struct {
	Account string `json:"a"`
	Webhook string `json:"w"`
	FeedPlace

	// Kept is a time in Unix seconds. While the log keeps the day of that time, it keeps all
	// events after the place.
	Kept int64 `json:"k,omitempty"`
}

// feedSlack is subtracted from a cursor's time before that is compared with the days that are kept:
// clocks differ, and a transaction may add an event long after the event's time of acceptance.
const feedSlack = time.Hour

// decodeFeedCursor reads a cursor of the account's webhook. For an empty text it returns the beginning.
func decodeFeedCursor(text, account string, webhook domain.WebhookID) (feedCursor, error) {
	var c feedCursor
	if text == "" {
		c.FeedPlace = beforeXact(0)
		return c, nil
	}
	if err := store.DecodeToken(text, &c); err != nil {
		return c, err
	}
	known := c.Account == account && c.Webhook == string(webhook) && c.Xact >= 0 &&
		c.ReceivedAt > 0 && c.ReceivedAt.Time().Year() <= lastYear && c.Kept >= 0 && time.Unix(c.Kept, 0).UTC().Year() <= lastYear &&
		c.Place >= 0 && c.Place <= math.MaxInt32 && (c.ID == "" || domain.ValidEventID(c.ID))
	if !known {
		return c, fmt.Errorf("decode cursor: %w", store.ErrCursor)
	}
	return c, nil
}

// check returns an error unless all events after the cursor are kept.
func (c feedCursor) check(tx *gorm.DB, next int64) error {
	if c.Account == "" {
		return nil // from the oldest event that is kept
	}
	if c.Xact > next {
		return fmt.Errorf("the cursor is ahead of the database: %w", store.ErrCursor)
	}
	var floor store.Date
	if err := tx.Raw("SELECT day FROM log_floor WHERE id = 1").Scan(&floor).Error; err != nil {
		return err
	}
	if store.DateOf(time.Unix(c.Kept, 0).UTC().Add(-feedSlack)) < floor {
		return ErrBeyondRetention
	}
	return nil
}
