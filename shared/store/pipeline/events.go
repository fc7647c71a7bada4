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
	Account  string
	Type     domain.EventType
	Types    []domain.EventType // any of them; empty: all
	Source   domain.Source
	Shipment string // data.shipmentId
	// Since (inclusive) and Until (exclusive) bound the time of acceptance.
	Since, Until time.Time
	Limit        int    // 1..1000; 0: 100
	Cursor       string // where the page before ended
}

// ListEvents returns a page of events, the newest first, and the cursor of the next page; empty:
// there is none. When events are large, there are fewer than the filter's limit, see MaxPageBytes.
// ErrCursor: the cursor is not one of this list.
func (p *Pipeline) ListEvents(ctx context.Context, f EventFilter) ([]domain.Event, string, error) {
	filter := f.digest()
	after, err := store.DecodeCursor(f.Cursor, listEvents, f.Account, leadsWith(filter))
	if err != nil {
		return nil, "", err
	}
	parts := f.parts()
	var rows []eventRow
	more := false
	err = p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		marks, err := f.marks(tx, after, parts)
		if err != nil {
			return err
		}
		marks, more = firstPage(marks, pageSize(f.Limit))
		counts := make(map[eventPart]int, len(parts))
		for _, mark := range marks {
			counts[mark.part]++
		}
		rows = make([]eventRow, 0, len(marks))
		for part, n := range counts {
			var page []eventRow
			if err := f.newestFirst(tx, after, part).Limit(n).Find(&page).Error; err != nil {
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
		next = store.Cursor{List: listEvents, Account: f.Account, At: last.ReceivedAt.Time().UnixMilli(), ID: last.ID, Filter: filter}.Encode()
	}
	events := store.All(rows, eventRow.domain)
	return events, next, nil
}

func newestFirst(a store.Instant, idA string, b store.Instant, idB string) int {
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(idB, idA))
}

// eventMark is an event's place in the list, and its size in bytes.
type eventMark struct {
	ReceivedAt store.Instant
	ID         string
	Weight     int64
	part       eventPart
}

// eventPart is a part of the list for which an index has the order: the events of one type and
// source or, if both are empty, those of the filter's shipment.
type eventPart struct {
	kind   domain.EventType
	source domain.Source
}

// parts returns the parts from which the list is merged.
func (f EventFilter) parts() []eventPart {
	if f.Shipment != "" {
		return []eventPart{{}}
	}
	types, sources := domain.WebhookTypes(), domain.Sources()
	if len(f.Types) > 0 {
		types = f.Types
	}
	if f.Type != "" {
		types = []domain.EventType{f.Type}
	}
	if f.Source != "" {
		sources = []domain.Source{f.Source}
	}
	var parts []eventPart
	for _, kind := range types {
		for _, source := range sources {
			if kind.Alert() == (source == domain.SourceWaybill) { // only Waybill makes alerts
				parts = append(parts, eventPart{kind, source})
			}
		}
	}
	return parts
}

// marks returns the first events of each part, without their bodies, so that the events that fit
// into a page are known before any body is read.
func (f EventFilter) marks(tx *gorm.DB, after *store.Cursor, parts []eventPart) ([]eventMark, error) {
	var marks []eventMark
	for _, part := range parts {
		var some []eventMark
		query := f.newestFirst(tx.Model(&eventRow{}), after, part).Limit(pageSize(f.Limit) + 1)
		if err := query.Select("received_at, id, octet_length(payload) + 64 AS weight").Scan(&some).Error; err != nil {
			return nil, err
		}
		for _, mark := range some {
			mark.part = part
			marks = append(marks, mark)
		}
	}
	return marks, nil
}

// firstPage returns the marks that make a page, and whether there are more.
func firstPage(marks []eventMark, limit int) (page []eventMark, more bool) {
	slices.SortFunc(marks, func(a, b eventMark) int { return newestFirst(a.ReceivedAt, a.ID, b.ReceivedAt, b.ID) })
	page = marks[:min(len(marks), limit)]
	weights := store.All(page, func(mark eventMark) int64 { return mark.Weight })
	page = page[:store.Fitting(weights)]
	return page, len(page) < len(marks)
}

// newestFirst selects the filter's events of one part, the newest first. IS TRUE keeps the conditions by
// which a shipment's few events are checked out of the choice of an index.
func (f EventFilter) newestFirst(tx *gorm.DB, after *store.Cursor, part eventPart) *gorm.DB {
	query := f.withBounds(tx, after).Order("received_at DESC, id DESC")
	if f.Shipment == "" {
		return query.Where("type = ? AND source = ?", string(part.kind), string(part.source))
	}
	query = query.Where("shipment = ?", domain.ShipmentKey(f.Account, f.Shipment))
	if f.Type != "" {
		query = query.Where("(type = ?) IS TRUE", string(f.Type))
	}
	if f.Source != "" {
		query = query.Where("(source = ?) IS TRUE", string(f.Source))
	}
	return query
}

// digest returns a number that differs for other filters, to recognise the cursors of this one.
func (f EventFilter) digest() uint64 {
	values := []any{f.Type, f.Source, f.Shipment, f.Since.UnixNano(), f.Until.UnixNano()}
	if len(f.Types) > 0 {
		values = append(values, f.Types)
	}
	return digest(values...)
}

// withBounds adds the filter's account and times, and where the page before ended.
func (f EventFilter) withBounds(tx *gorm.DB, after *store.Cursor) *gorm.DB {
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

// GetEvent returns the account's newest event with an id.
func (p *Pipeline) GetEvent(ctx context.Context, account, id string) (domain.Event, error) {
	var row eventRow
	err := p.db.Reading(ctx).Where("account = ? AND id = ?", account, id).Order("day DESC").Take(&row).Error
	return row.domain(), store.Wrap("get event", err)
}

// acceptance is a time at which an event was accepted. The ids of the deliveries of that acceptance
// begin with the millisecond.
type acceptance struct {
	at time.Time
	id string
}

// maxEvents bounds the events of a shipment whose deliveries are checked for one page.
const maxEvents = 200

// acceptances returns, the newest first, the acceptances of the account's events with the filter's
// id, its shipment, or both. cut: a shipment has older events. Only events of a shipment that were
// accepted before the deliveries that begin with before count.
func acceptances(tx *gorm.DB, f DeliveryFilter, before domain.DeliveryID) (list []acceptance, cut bool, err error) {
	query := tx.Select("id", "received_at", "repeats").Where("account = ?", f.Account)
	if f.EventID != "" {
		query = query.Where("id = ?", f.EventID)
	}
	if f.Shipment != "" {
		query = query.Where("shipment = ?", domain.ShipmentKey(f.Account, f.Shipment)).Order("received_at DESC").Limit(maxEvents)
	}
	if at, ok := before.ReceivedAt(); ok {
		query = query.Where("received_at <= ? AND day <= ?", store.InstantOf(at), store.DateOf(at))
	}
	if !f.Since.IsZero() {
		query = query.Where("day >= ?", store.DateOf(f.Since)) // a repeat may have come after that day
	}
	var rows []eventRow
	if err := query.Find(&rows).Error; err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		list = append(list, acceptance{row.ReceivedAt.Time(), row.ID})
		for text := range strings.FieldsSeq(row.Repeats) {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, false, fmt.Errorf("read repeats of an event: %w", err)
			}
			list = append(list, acceptance{time.UnixMilli(ms).UTC(), row.ID})
		}
	}
	slices.SortStableFunc(list, func(a, b acceptance) int { return b.at.Compare(a.at) })
	if cut = len(rows) == maxEvents && list[0].at.After(list[len(list)-1].at); cut {
		// Other events of the same millisecond may have been cut off: all of them come with the next page.
		oldest := list[len(list)-1].at
		list = slices.DeleteFunc(list, func(a acceptance) bool { return a.at.Equal(oldest) })
	}
	return list, cut, nil
}

// dayRef names an event in the log.
type dayRef struct {
	day store.Date
	eventRef
}

// bodyPage bounds how many events one query names.
const bodyPage = 500

// storedEvents returns the referenced events that are still in the log.
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
