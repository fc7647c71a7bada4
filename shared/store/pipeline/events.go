package pipeline

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
	"waybill.dev/shared/store"
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
// empty: there is none. They are fewer than the filter's limit when they are large, see
// MaxPageBytes. ErrCursor: the cursor is not one of this list.
func (p *Pipeline) ListEvents(ctx context.Context, f EventFilter) ([]domain.Event, string, error) {
	after, err := store.DecodeCursor(f.Cursor, listEvents, f.Account, leads)
	if err != nil {
		return nil, "", err
	}
	types := domain.EventTypes()
	if f.Type != "" {
		types = []domain.EventType{f.Type}
	}
	var rows []eventRow
	more := false
	err = p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		marks, err := f.marks(tx, after, types)
		if err != nil {
			return err
		}
		marks, more = firstPage(marks, pageSize(f.Limit))
		counts := make(map[string]int, len(types))
		for _, mark := range marks {
			counts[mark.Type]++
		}
		rows = make([]eventRow, 0, len(marks))
		for kind, n := range counts {
			var page []eventRow
			if err := f.ofType(tx, after, domain.EventType(kind)).Limit(n).Find(&page).Error; err != nil {
				return err
			}
			rows = append(rows, page...)
		}
		return nil
	})
	if err != nil {
		return nil, "", store.Wrap("list events", err)
	}
	slices.SortFunc(rows, func(a, b eventRow) int { return newestFirst(a.ReceivedAt, a.ID, b.ReceivedAt, b.ID) })
	next := ""
	if more {
		last := rows[len(rows)-1]
		next = store.Cursor{List: listEvents, Account: f.Account, At: last.ReceivedAt.Time().UnixMilli(), ID: last.ID}.Encode()
	}
	events := make([]domain.Event, len(rows))
	for i, row := range rows {
		events[i] = row.domain()
	}
	return events, next, nil
}

func newestFirst(a store.Instant, idA string, b store.Instant, idB string) int {
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(idB, idA))
}

// eventMark is where an event is in the list, and what it weighs in bytes.
type eventMark struct {
	Type       string
	ReceivedAt store.Instant
	ID         string
	Weight     int64
}

// marks returns the first events of each type, without their bodies: what fits a page is
// known before any body is read.
func (f EventFilter) marks(tx *gorm.DB, after *store.Cursor, types []domain.EventType) ([]eventMark, error) {
	var marks []eventMark
	for _, kind := range types {
		var some []eventMark
		query := f.ofType(tx.Model(&eventRow{}), after, kind).Limit(pageSize(f.Limit) + 1)
		if err := query.Select("type, received_at, id, octet_length(payload) + 64 AS weight").Scan(&some).Error; err != nil {
			return nil, err
		}
		marks = append(marks, some...)
	}
	return marks, nil
}

// firstPage returns those that make a page, and whether there are more.
func firstPage(marks []eventMark, limit int) (page []eventMark, more bool) {
	slices.SortFunc(marks, func(a, b eventMark) int { return newestFirst(a.ReceivedAt, a.ID, b.ReceivedAt, b.ID) })
	page = marks[:min(len(marks), limit)]
	weights := make([]int64, len(page))
	for i, mark := range page {
		weights[i] = mark.Weight
	}
	page = page[:store.Fitting(weights)]
	return page, len(page) < len(marks)
}

// ofType selects the filter's events of one type, the newest first.
func (f EventFilter) ofType(tx *gorm.DB, after *store.Cursor, kind domain.EventType) *gorm.DB {
	return f.bound(tx, after).Where("type = ?", string(kind)).Order("received_at DESC, id DESC")
}

// bound adds the filter's account and times, and the end of the page before.
func (f EventFilter) bound(tx *gorm.DB, after *store.Cursor) *gorm.DB {
	query := tx.Where("account = ?", f.Account)
	if !f.Since.IsZero() {
		since := ceilMillisecond(f.Since)
		query = query.Where("received_at >= ? AND day >= ?", store.InstantOf(since), store.DateOf(since))
	}
	if !f.Until.IsZero() {
		until := ceilMillisecond(f.Until)
		query = query.Where("received_at < ? AND day <= ?", store.InstantOf(until), store.DateOf(until))
	}
	if after != nil {
		at := time.UnixMilli(after.At)
		query = query.Where("received_at <= ? AND day <= ? AND (received_at < ? OR id < ?)",
			store.InstantOf(at), store.DateOf(at), store.InstantOf(at), after.ID)
	}
	return query
}

// GetEvent returns the account's newest event of that id.
func (p *Pipeline) GetEvent(ctx context.Context, account, id string) (domain.Event, error) {
	var row eventRow
	err := p.db.Reading(ctx).Where("account = ? AND id = ?", account, id).Order("day DESC").Take(&row).Error
	if err != nil {
		return domain.Event{}, store.Wrap("get event", err)
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
		times = append(times, row.ReceivedAt.Time())
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
	day store.Date
	eventRef
}

// bodyPage bounds how many events one look-up names.
const bodyPage = 500

// storedEvents returns those of the referenced events that are still in the log.
func storedEvents(tx *gorm.DB, refs []dayRef) (map[dayRef]domain.Event, error) {
	type group struct {
		day     store.Date
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
