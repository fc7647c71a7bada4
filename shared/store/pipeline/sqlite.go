package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
)

// sqliteBeforeEvents reads the values that a commit needs first: the configuration version, the
// commit's number and the last row of events.
const sqliteBeforeEvents = `SELECT version, ` + store.SQLiteXact + `, (SELECT coalesce(max(rowid), 0) FROM events) FROM config_version`

// sqliteKnownEvents returns the keys whose id was accepted after a time, their third column. The plus
// keeps SQLite from searching the day by time.
func sqliteKnownEvents() store.MultiRow {
	return store.MultiRow{
		Head: `SELECT v.column1, v.column2 FROM (`,
		Tail: `) AS v WHERE EXISTS (SELECT 1 FROM events e
			WHERE e.account = v.column1 AND e.id = v.column2 AND +e.received_at > v.column3)`,
		Types: "text,text,timestamptz",
	}
}

// sqliteInsertOutbox queues the events that were added in this transaction: the rows after the last
// one from before, because the id of a new row is one above the greatest.
const sqliteInsertOutbox = `INSERT INTO outbox (received_at, account, id, version)
	SELECT received_at, account, id, ? FROM events WHERE rowid > ?`

// sqliteCountEvents appends the counts of the added events, by account and type.
func sqliteCountEvents() store.MultiRow {
	return store.MultiRow{Head: rollup.InsertAccepted, Types: "text,text,timestamptz,bigint"}
}

// insertEventsSQLite adds the events that are not repeats, with an outbox row each.
func insertEventsSQLite(ctx context.Context, c store.Conn, in intake) (intakeResult, error) {
	var result intakeResult
	var xact, last int64
	err := c.Query(ctx, sqliteBeforeEvents, func(scan store.Scan) error { return scan(&result.version, &xact, &last) })
	if err != nil {
		return result, err
	}
	known, err := knownEvents(ctx, c, in)
	if err != nil {
		return result, err
	}
	fresh := in.events
	if len(known) > 0 {
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(e placedEvent) bool {
			_, ok := known[eventRef{e.Account, e.ID}]
			return ok
		})
		result.fresh = make(map[eventRef]struct{}, len(fresh))
		for _, e := range fresh {
			result.fresh[eventRef{e.Account, e.ID}] = struct{}{}
		}
	}
	if len(fresh) == 0 {
		return result, nil
	}
	if err := addEvents(ctx, c, fresh, in.now, xact); err != nil {
		return result, err
	}
	if _, err := c.Exec(ctx, sqliteInsertOutbox, result.version, last); err != nil {
		return result, err
	}
	if err := c.Batch(ctx, c.Rows(sqliteCountEvents(), countValues(c, fresh, in.now), nil)...); err != nil {
		return result, err
	}
	err = givePlaces(ctx, c, in, &result)
	return result, err
}

// knownEvents returns the events that were accepted within the window.
func knownEvents(ctx context.Context, c store.Conn, in intake) (map[eventRef]struct{}, error) {
	known := map[eventRef]struct{}{}
	values := make([]any, 0, len(in.events)*3)
	after := c.Moment(in.now.Add(-domain.DedupeWindow))
	for i := range in.events {
		values = append(values, in.events[i].Account, in.events[i].ID, after)
	}
	return known, c.Batch(ctx, c.Rows(sqliteKnownEvents(), values, func(scan store.Scan) error {
		var ref eventRef
		err := scan(&ref.account, &ref.id)
		known[ref] = struct{}{}
		return err
	})...)
}

// addEvents adds events that are known to be new. A statement that also looked for known events would
// first copy all rows aside, because it would read the table that it writes.
func addEvents(ctx context.Context, c store.Conn, events []placedEvent, now time.Time, xact int64) error {
	if _, err := c.Exec(ctx, store.SQLiteTakeXact); err != nil {
		return err
	}
	day, at := c.Date(now), c.Moment(now)
	columns := []string{"day", "account", "id", "type", "occurred_at", "payload", "received_at", "shipment", "place", "xact"}
	return c.Copy(ctx, tableEvents, columns, len(events), func(i int, values []any) []any {
		e := &events[i]
		return append(values, day, e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, at, envelope.Shipment(e.Account, e.Payload), e.place, xact)
	})
}

// countValues returns how many of the events each account has of each type.
func countValues(c store.Conn, events []placedEvent, now time.Time) []any {
	type group struct {
		account string
		kind    domain.EventType
	}
	counts := map[group]int{}
	for i := range events {
		counts[group{events[i].Account, events[i].Type}]++
	}
	values := make([]any, 0, len(counts)*4)
	minute := c.Moment(rollup.MinuteOf(now))
	for of, n := range counts {
		values = append(values, of.account, string(of.kind), minute, n)
	}
	return values
}

const (
	sqlTakePlaces = `UPDATE ordering_accounts SET last_place = last_place + ? WHERE account = ? RETURNING last_place`
	sqlSetPlace   = `UPDATE outbox SET place = ? WHERE received_at = ? AND account = ? AND id = ?`
)

// givePlaces gives places to the added events of accounts with ordering. There is one writer at a
// time, so the commits follow each other anyway.
func givePlaces(ctx context.Context, c store.Conn, in intake, result *intakeResult) error {
	if !in.ordering {
		return nil
	}
	submitted := slices.SortedFunc(slices.Values(in.events), func(a, b placedEvent) int { return cmp.Compare(a.place, b.place) })
	added := map[string][]string{}
	for _, e := range submitted {
		if ref := (eventRef{e.Account, e.ID}); result.added(ref) {
			added[ref.account] = append(added[ref.account], ref.id)
		}
	}
	now := c.Moment(in.now)
	for account, ids := range added {
		last, ordered, err := takePlaces(ctx, c, account, len(ids))
		if err != nil {
			return fmt.Errorf("take places: %w", err)
		}
		if !ordered {
			continue
		}
		if result.places == nil {
			result.places = map[string]int64{}
		}
		before := last - int64(len(ids))
		result.places[account] = before
		for i, id := range ids {
			if _, err := c.Exec(ctx, sqlSetPlace, before+int64(i)+1, now, account, id); err != nil {
				return fmt.Errorf("set place: %w", err)
			}
		}
	}
	return nil
}

// takePlaces returns the last of the next n places; false: the account has no ordering.
func takePlaces(ctx context.Context, c store.Conn, account string, n int) (last int64, ordered bool, err error) {
	err = c.Query(ctx, sqlTakePlaces, func(scan store.Scan) error {
		ordered = true
		return scan(&last)
	}, n, account)
	return last, ordered, err
}
