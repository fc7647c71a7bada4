package pipeline

import (
	"cmp"
	"context"
	"database/sql"
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

// sqliteBeforeEvents reads what a commit begins with: the configuration's version, the commit's number
// and the last row of events.
const sqliteBeforeEvents = `SELECT version, ` + store.SQLiteXact + `, (SELECT coalesce(max(rowid), 0) FROM events) FROM config_version`

// sqliteKnownEvents returns the keys whose id was accepted within the window, which is its last
// argument. The plus keeps SQLite from looking through the day by time.
func sqliteKnownEvents() store.MultiRow {
	return store.MultiRow{
		Head: `SELECT v.column1, v.column2 FROM (VALUES `,
		Tail: `) AS v WHERE EXISTS (SELECT 1 FROM events e
			WHERE e.account = v.column1 AND e.id = v.column2 AND +e.received_at > ?)`,
		Columns: 2,
	}
}

// sqliteInsertEvents adds events that are not known. With OR FAIL, SQLite does not prepare to undo this
// statement alone, as with deliveries. A statement that looked for the known ones as well would first
// copy all rows aside, because it reads the table that it writes.
func sqliteInsertEvents() store.MultiRow {
	return store.MultiRow{
		Head:    `INSERT OR FAIL INTO events (day, account, id, type, occurred_at, payload, received_at, shipment, place, xact) VALUES `,
		Columns: 10,
	}
}

// sqliteInsertOutbox queues what was added to events in this transaction: the rows
// after the last one from before, as a new row's id is one above the greatest.
const sqliteInsertOutbox = `INSERT INTO outbox (received_at, account, id, version)
	SELECT received_at, account, id, ? FROM events WHERE rowid > ?`

// sqliteCountEvents appends the counts of what was added, by account and type.
func sqliteCountEvents() store.MultiRow {
	return store.MultiRow{Head: rollup.InsertAccepted + "VALUES ", Columns: 4}
}

func (s sqlite) insertEvents(ctx context.Context, c store.Conn, in intake) (intakeResult, error) {
	var result intakeResult
	var xact, last int64
	if err := s.before(ctx, c, &result.version, &xact, &last); err != nil {
		return result, err
	}
	known, err := s.knownEvents(ctx, c, in)
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
	if err := s.addEvents(ctx, c, fresh, in.now, xact); err != nil {
		return result, err
	}
	if _, err := s.statements.Exec(ctx, c, sqliteInsertOutbox, result.version, last); err != nil {
		return result, err
	}
	if _, err := s.statements.ExecRows(ctx, c, sqliteCountEvents(), s.countValues(fresh, in.now)); err != nil {
		return result, err
	}
	err = s.givePlaces(ctx, c, in, &result)
	return result, err
}

func (s sqlite) before(ctx context.Context, c store.Conn, version, xact, last *int64) error {
	rows, err := s.statements.Query(ctx, c, sqliteBeforeEvents)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(version, xact, last); err != nil {
			return err
		}
	}
	return rows.Err()
}

// knownEvents returns those of the events that were accepted within the window.
func (s sqlite) knownEvents(ctx context.Context, c store.Conn, in intake) (map[eventRef]struct{}, error) {
	known := map[eventRef]struct{}{}
	values := make([]any, 0, len(in.events)*2)
	for i := range in.events {
		values = append(values, in.events[i].Account, in.events[i].ID)
	}
	err := s.statements.QueryRows(ctx, c, sqliteKnownEvents(), func(rows *sql.Rows) error {
		defer rows.Close()
		for rows.Next() {
			var ref eventRef
			if err := rows.Scan(&ref.account, &ref.id); err != nil {
				return err
			}
			known[ref] = struct{}{}
		}
		return rows.Err()
	}, values, s.db.Moment(in.now.Add(-domain.DedupeWindow)))
	return known, err
}

func (s sqlite) addEvents(ctx context.Context, c store.Conn, events []placedEvent, now time.Time, xact int64) error {
	if _, err := s.statements.Exec(ctx, c, store.SQLiteTakeXact); err != nil {
		return err
	}
	values := make([]any, 0, len(events)*sqliteInsertEvents().Columns)
	day, at := s.db.Date(now), s.db.Moment(now)
	for i := range events {
		e := &events[i]
		values = append(values, day, e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, at, envelope.Shipment(e.Account, e.Payload), e.place, xact)
	}
	_, err := s.statements.ExecRows(ctx, c, sqliteInsertEvents(), values)
	return err
}

// countValues returns how many of the events each account has of each type.
func (s sqlite) countValues(events []placedEvent, now time.Time) []any {
	type group struct {
		account string
		kind    domain.EventType
	}
	counts := map[group]int{}
	for i := range events {
		counts[group{events[i].Account, events[i].Type}]++
	}
	values := make([]any, 0, len(counts)*sqliteCountEvents().Columns)
	minute := s.db.Moment(rollup.MinuteOf(now))
	for of, n := range counts {
		values = append(values, of.account, string(of.kind), minute, n)
	}
	return values
}

const (
	sqlTakePlaces = `UPDATE ordering_accounts SET last_place = last_place + ? WHERE account = ? RETURNING last_place`
	sqlSetPlace   = `UPDATE outbox SET place = ? WHERE received_at = ? AND account = ? AND id = ?`
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
			if _, err := s.statements.Exec(ctx, c, sqlSetPlace, before+int64(i)+1, now, account, id); err != nil {
				return fmt.Errorf("set place: %w", err)
			}
		}
	}
	return nil
}

// takePlaces returns the last of the next n places; false: the account has no ordering.
func (s sqlite) takePlaces(ctx context.Context, c store.Conn, account string, n int) (last int64, ordered bool, err error) {
	rows, err := s.statements.Query(ctx, c, sqlTakePlaces, n, account)
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
