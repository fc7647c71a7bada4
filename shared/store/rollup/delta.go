package rollup

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// InsertDelta appends the counts of a transaction that recorded attempts. Its parameters are the
// minute, which only says how old the delta is, and the result of Encode.
const InsertDelta = `INSERT INTO rollup_deltas (account, event_type, minute, events, counts) VALUES ('', '', $1, 0, $2)`

// InsertAccepted appends the counts of a transaction that accepted events, in SQL. A query for
// account, type, minute and number follows it.
const InsertAccepted = `INSERT INTO rollup_deltas (account, event_type, minute, events) `

// MinuteOf returns the minute in which an event at t is counted.
func MinuteOf(t time.Time) time.Time { return timeOf(minuteOf(t)) }

// delta is a row that is not merged yet.
type delta deltaRow

// each calls f for the counts of an account; empty: of all accounts.
func (d *delta) each(account string, f func(Key, *Counts)) error {
	if d.Events > 0 {
		f(Key{Account: d.Account, Type: domain.EventType(d.EventType), Minute: minuteOf(d.Minute.Time())}, &Counts{Events: d.Events})
	}
	if d.Counts == nil {
		return nil
	}
	return decode(d.Counts, account, f)
}

// Backlog describes the deltas that are not merged yet.
type Backlog struct {
	Deltas, Bytes int64
	Oldest        time.Time // the minute of the oldest; zero: there is none
}

// Backlog returns the state of the deltas that are not merged yet.
func (r *Rollups) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	var oldest store.Instant
	err := r.db.Conn().QueryRow(ctx, `SELECT count(*), coalesce(sum(length(counts)), 0), min(minute) FROM rollup_deltas`).
		Scan(&b.Deltas, &b.Bytes, &oldest)
	b.Oldest = oldest.Time()
	return b, store.Wrap("measure rollup deltas", err)
}
