package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// Bounds of a page.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// EventFilter selects events of one account. Zero fields select nothing away.
type EventFilter struct {
	Account string
	Type    domain.EventType
	// Since (inclusive) and Until (exclusive) bound the time of acceptance.
	Since, Until time.Time
	Limit        int    // 1..1000; 0: 100
	Cursor       string // where the page before ended
}

// ListEvents returns a page of events, the newest first, and the cursor of the next;
// empty: there is none. ErrCursor: the cursor is not one of this list.
func (s *Store) ListEvents(ctx context.Context, f EventFilter) ([]domain.Event, string, error) {
	after, err := decodeCursor(f.Cursor, listEvents, f.Account)
	if err != nil {
		return nil, "", err
	}
	types := domain.EventTypes()
	if f.Type != "" {
		types = []domain.EventType{f.Type}
	}
	limit := pageSize(f.Limit)
	var rows []eventRow
	err = s.snapshot(ctx, func(tx *gorm.DB) error {
		for _, kind := range types {
			var page []eventRow
			query := f.bound(tx, after).Where("type = ?", string(kind)).Order("received_at DESC, id DESC").Limit(limit + 1)
			if err := query.Find(&page).Error; err != nil {
				return err
			}
			rows = append(rows, page...)
		}
		return nil
	})
	if err != nil {
		return nil, "", wrap("list events", err)
	}
	slices.SortFunc(rows, func(a, b eventRow) int {
		return cmp.Or(cmp.Compare(b.ReceivedAt, a.ReceivedAt), cmp.Compare(b.ID, a.ID))
	})
	next := ""
	if len(rows) > limit {
		rows = rows[:limit:limit]
		last := rows[limit-1]
		next = cursor{listEvents, f.Account, last.ReceivedAt.time().UnixMilli(), last.ID}.encode()
	}
	events := make([]domain.Event, len(rows))
	for i, row := range rows {
		events[i] = row.domain()
	}
	return events, next, nil
}

// bound adds the filter's account and times, and the end of the page before.
func (f EventFilter) bound(tx *gorm.DB, after *cursor) *gorm.DB {
	query := tx.Where("account = ?", f.Account)
	if !f.Since.IsZero() {
		since := ceilMillisecond(f.Since)
		query = query.Where("received_at >= ? AND day >= ?", instantOf(since), dateOf(since))
	}
	if !f.Until.IsZero() {
		until := ceilMillisecond(f.Until)
		query = query.Where("received_at < ? AND day <= ?", instantOf(until), dateOf(until))
	}
	if after != nil {
		at := time.UnixMilli(after.At)
		query = query.Where("received_at <= ? AND day <= ? AND (received_at < ? OR id < ?)",
			instantOf(at), dateOf(at), instantOf(at), after.ID)
	}
	return query
}

// GetEvent returns the account's newest event of that id.
func (s *Store) GetEvent(ctx context.Context, account, id string) (domain.Event, error) {
	var row eventRow
	err := s.read.WithContext(ctx).Where("account = ? AND id = ?", account, id).Order("day DESC").Take(&row).Error
	if err != nil {
		return domain.Event{}, wrap("get event", err)
	}
	return row.domain(), nil
}

// acceptances returns every time at which the account's event of that id was accepted:
// the deliveries of each begin with that millisecond.
func acceptances(tx *gorm.DB, account, id string) ([]time.Time, error) {
	var rows []eventRow
	if err := tx.Select("received_at", "repeats").Where("account = ? AND id = ?", account, id).Find(&rows).Error; err != nil {
		return nil, err
	}
	var times []time.Time
	for _, row := range rows {
		times = append(times, row.ReceivedAt.time())
		for text := range strings.FieldsSeq(row.Repeats) {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read repeats of an event: %w", err)
			}
			times = append(times, time.UnixMilli(ms).UTC())
		}
	}
	return times, nil
}

// dayRef names an event in the log.
type dayRef struct {
	day date
	eventRef
}

// bodyPage bounds how many events one look-up names.
const bodyPage = 500

// storedEvents returns those of the referenced events that are still in the log.
func storedEvents(tx *gorm.DB, refs []dayRef) (map[dayRef]domain.Event, error) {
	type group struct {
		day     date
		account string
	}
	groups := map[group][]string{}
	for _, ref := range refs {
		g := group{ref.day, ref.account}
		groups[g] = append(groups[g], ref.id)
	}
	found := make(map[dayRef]domain.Event, len(refs))
	for g, ids := range groups {
		for len(ids) > 0 {
			n := min(len(ids), bodyPage)
			var rows []eventRow
			err := tx.Where("day = ? AND account = ? AND id IN ?", g.day, g.account, ids[:n]).Find(&rows).Error
			if err != nil {
				return nil, fmt.Errorf("read events: %w", err)
			}
			for _, row := range rows {
				found[dayRef{row.Day, eventRef{row.Account, row.ID}}] = row.domain()
			}
			ids = ids[n:]
		}
	}
	return found, nil
}
