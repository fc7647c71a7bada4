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

// sqlite has the statements that are written for SQLite.
type sqlite struct {
	db         *store.Store
	statements *store.Statements
}

func (sqlite) eventsTable(time.Time) string { return tableEvents }

// sqliteInsertEvents adds the rows whose id was not accepted within the window, which
// is its last argument. The plus keeps SQLite from looking through the day by time.
func sqliteInsertEvents() store.MultiRow {
	return store.MultiRow{
		Head: `INSERT INTO events (day, account, id, type, occurred_at, payload, received_at, shipment, place, xact) SELECT v.* FROM (VALUES `,
		Tail: `) AS v WHERE NOT EXISTS (SELECT 1 FROM events e
			WHERE e.account = v.column2 AND e.id = v.column3 AND +e.received_at > ?) ON CONFLICT DO NOTHING`,
		Columns: 10,
	}
}

// sqliteInsertOutbox queues what was added to events in this transaction: the rows
// after the last one from before, as a new row's id is one above the greatest.
const sqliteInsertOutbox = `INSERT INTO outbox (received_at, account, id, version)
	SELECT received_at, account, id, ? FROM events WHERE rowid > ?`

// sqliteCountEvents counts the same. Without NOT INDEXED, SQLite reads all of events_by_commit, which
// has the groups in order, at each commit: 450 ms with a million events.
const sqliteCountEvents = rollup.InsertAccepted + `SELECT account, type, ?, count(*) FROM events NOT INDEXED WHERE rowid > ? GROUP BY account, type`

func (s sqlite) insertEvents(ctx context.Context, c store.Conn, in intake) (intakeResult, error) {
	var result intakeResult
	var last int64
	err := c.QueryRowContext(ctx, `SELECT version, (SELECT coalesce(max(rowid), 0) FROM events) FROM config_version`).
		Scan(&result.version, &last)
	if err != nil {
		return result, err
	}
	xact, err := s.statements.NextXact(ctx, c)
	if err != nil {
		return result, err
	}
	values := make([]any, 0, len(in.events)*10)
	day, now := s.db.Date(in.now), s.db.Moment(in.now)
	for _, event := range in.events {
		values = append(values, day, event.Account, event.ID, string(event.Type), event.Timestamp, event.Payload, now, envelope.Shipment(event.Account, event.Payload), event.place, xact)
	}
	n, err := s.statements.ExecRows(ctx, c, sqliteInsertEvents(), values, s.db.Moment(in.now.Add(-domain.DedupeWindow)))
	if err != nil {
		return result, err
	}
	if n == 0 {
		result.fresh = map[eventRef]struct{}{}
		return result, nil
	}
	if _, err := s.statements.Exec(ctx, c, sqliteInsertOutbox, result.version, last); err != nil {
		return result, err
	}
	if _, err := s.statements.Exec(ctx, c, sqliteCountEvents, s.db.Moment(rollup.MinuteOf(in.now)), last); err != nil {
		return result, err
	}
	if n < len(in.events) {
		if result.fresh, err = freshSince(ctx, c, last, n); err != nil {
			return result, err
		}
	}
	err = s.givePlaces(ctx, c, in, &result)
	return result, err
}

// freshSince returns the n events that were added after a row.
func freshSince(ctx context.Context, c store.Conn, last int64, n int) (map[eventRef]struct{}, error) {
	rows, err := c.QueryContext(ctx, `SELECT account, id FROM events WHERE rowid > $1`, last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	fresh := make(map[eventRef]struct{}, n)
	for rows.Next() {
		var ref eventRef
		if err := rows.Scan(&ref.account, &ref.id); err != nil {
			return nil, err
		}
		fresh[ref] = struct{}{}
	}
	return fresh, rows.Err()
}

const (
	sqliteTakePlaces = `UPDATE ordering_accounts SET last_place = last_place + ? WHERE account = ? RETURNING last_place`
	sqliteSetPlace   = `UPDATE outbox SET place = ? WHERE received_at = ? AND account = ? AND id = ?`
)

// givePlaces gives what was added to accounts with ordering its places. There is one writer at
// a time, so the commits are in a row as they are.
func (s sqlite) givePlaces(ctx context.Context, c store.Conn, in intake, result *intakeResult) error {
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
	now := s.db.Moment(in.now)
	for account, ids := range added {
		last, ordered, err := s.takePlaces(ctx, c, account, len(ids))
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
			if _, err := s.statements.Exec(ctx, c, sqliteSetPlace, before+int64(i)+1, now, account, id); err != nil {
				return fmt.Errorf("set place: %w", err)
			}
		}
	}
	return nil
}

// takePlaces returns the last of the next n places; false: the account has no ordering.
func (s sqlite) takePlaces(ctx context.Context, c store.Conn, account string, n int) (last int64, ordered bool, err error) {
	rows, err := s.statements.Query(ctx, c, sqliteTakePlaces, n, account)
	if err != nil {
		return 0, false, err
	}
	defer rows.Close()
	for rows.Next() {
		ordered = true
		if err := rows.Scan(&last); err != nil {
			return 0, false, err
		}
	}
	return last, ordered, rows.Err()
}

func (s sqlite) markRelayed(ctx context.Context, c store.Conn, keys []domain.EventKey, at time.Time) error {
	for _, key := range keys {
		_, err := c.ExecContext(ctx, `UPDATE outbox SET relayed_at = $1, relayed = relayed + 1
			WHERE received_at = $2 AND account = $3 AND id = $4`, s.db.Moment(at), s.db.Moment(key.ReceivedAt), key.Account, key.ID)
		if err != nil {
			return err
		}
	}
	return nil
}
