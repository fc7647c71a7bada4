package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

func (e *sqliteEngine) record(ctx context.Context, w *recordWork) (RecordResult, error) {
	var result RecordResult
	tx, err := e.begin(ctx)
	if err != nil {
		return result, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	for _, at := range w.dayList() {
		day := *w.days[dateOf(at)]
		n, err := e.recordDay(ctx, tx, at, &day)
		if err != nil {
			return result, err
		}
		result.Attempts += n
	}
	if err := e.recordRest(ctx, tx, w); err != nil {
		return result, err
	}
	return result, tx.Commit()
}

func (e *sqliteEngine) recordDay(ctx context.Context, c conn, at time.Time, day *recordDay) (int, error) {
	if err := e.insertBorn(ctx, c, at, day); err != nil {
		return 0, fmt.Errorf("insert deliveries: %w", err)
	}
	attempts := day.bornAttempts()
	taken, err := e.fillDeliveries(ctx, c, at, day.filled)
	if err != nil {
		return 0, fmt.Errorf("fill deliveries: %w", err)
	}
	attempts += len(taken)
	day = day.unfilled(taken)
	if _, err := e.execRows(ctx, c, sqliteUpsertDeliveries(), e.stateValues(at, day.changed)); err != nil {
		return 0, fmt.Errorf("change deliveries: %w", err)
	}
	n, err := e.execRows(ctx, c, sqliteInsertAttempts(), e.attemptValues(at, day.attempts))
	if err != nil {
		return 0, fmt.Errorf("insert attempts: %w", err)
	}
	for _, event := range day.events {
		_, err := e.exec(ctx, c, sqliteRecordEvent, e.date(at), event.Account, event.ID, string(event.Type),
			event.Timestamp, event.Payload, e.moment(event.ReceivedAt), repeatText(event.ReceivedAt), maxRepeats)
		if err != nil {
			return 0, fmt.Errorf("insert events: %w", err)
		}
	}
	return attempts + n, nil
}

// insertBorn adds new deliveries with their attempt; when one of them was known, all
// are written like other changes instead.
func (e *sqliteEngine) insertBorn(ctx context.Context, c conn, at time.Time, day *recordDay) error {
	if len(day.born) == 0 {
		return nil
	}
	if _, err := c.ExecContext(ctx, "SAVEPOINT born"); err != nil {
		return err
	}
	_, err := e.execRows(ctx, c, sqliteInsertDeliveries(), e.wholeValues(at, day.born))
	if errors.Is(classify(err), domain.ErrConflict) {
		_, err = c.ExecContext(ctx, "ROLLBACK TO born")
		day.unborn()
	}
	if err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, "RELEASE born")
	return err
}

// fillDeliveries stores states that are greater than the stored ones, with the first
// attempts, in rows that have none. It returns the ids of the attempts that it stored.
func (e *sqliteEngine) fillDeliveries(ctx context.Context, c conn, at time.Time, outcomes []domain.Outcome) (map[string]struct{}, error) {
	taken := make(map[string]struct{}, len(outcomes))
	m := sqliteFillDeliveries()
	for len(outcomes) > 0 {
		size := chunkSize(len(outcomes))
		rows, err := e.query(ctx, c, m.sql(size), e.wholeValues(at, outcomes[:size])...)
		if err != nil {
			return nil, err
		}
		if err := eachText(rows, func(id string) { taken[id] = struct{}{} }); err != nil {
			return nil, err
		}
		outcomes = outcomes[size:]
	}
	return taken, nil
}

// eachText hands out the texts of a single column.
func eachText(rows *sql.Rows, each func(string)) error {
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		each(text)
	}
	return rows.Err()
}

func (e *sqliteEngine) wholeValues(at time.Time, outcomes []domain.Outcome) []any {
	values := make([]any, 0, len(outcomes)*len(deliveryColumns()))
	for i := range outcomes {
		values = e.appendState(values, at, &outcomes[i])
		if a := outcomes[i].Attempt; a != nil {
			values = append(values, a.ID, a.Number, e.moment(a.StartedAt), a.Duration.Microseconds(), a.Status, a.Error, a.ResponseBody)
		} else {
			values = append(values, nil, nil, nil, nil, nil, nil, nil)
		}
	}
	return values
}

func (e *sqliteEngine) stateValues(at time.Time, outcomes []domain.Outcome) []any {
	values := make([]any, 0, len(outcomes)*deliveryStateColumns)
	for i := range outcomes {
		values = e.appendState(values, at, &outcomes[i])
	}
	return values
}

func (e *sqliteEngine) appendState(values []any, at time.Time, o *domain.Outcome) []any {
	return append(values, e.date(at), string(o.Delivery), o.Account, string(o.Webhook), o.EventID, string(o.EventType),
		string(o.Status), int64(o.Rev), o.Attempts, o.RunAttempts, e.moment(o.RunStartedAt), e.moment(o.NextAttemptAt),
		o.InLane, o.Reason, o.Test, e.moment(o.UpdatedAt))
}

func (e *sqliteEngine) attemptValues(at time.Time, attempts []deliveryAttempt) []any {
	values := make([]any, 0, len(attempts)*10)
	for i := range attempts {
		a := &attempts[i]
		values = append(values, e.date(at), string(a.delivery), a.ID, a.Number, e.moment(a.StartedAt),
			a.Duration.Microseconds(), a.Status, a.Error, a.ResponseBody, a.account)
	}
	return values
}

// recordRest settles events, answers requests and stores health.
func (e *sqliteEngine) recordRest(ctx context.Context, c conn, w *recordWork) error {
	values := make([]any, 0, len(w.settled)*3)
	for _, key := range w.settled {
		values = append(values, e.moment(key.ReceivedAt), key.Account, key.ID)
	}
	if _, err := e.execRows(ctx, c, sqliteSettle(), values); err != nil {
		return fmt.Errorf("settle events: %w", err)
	}
	for _, id := range w.requests {
		if _, err := c.ExecContext(ctx, "DELETE FROM requests WHERE id = $1", id); err != nil {
			return fmt.Errorf("answer requests: %w", err)
		}
	}
	for _, h := range w.health {
		if !h.FailingSince.IsZero() || h.Recovered {
			_, err := c.ExecContext(ctx, healthFailing, string(h.Webhook), e.moment(h.FailingSince), e.moment(h.At), e.moment(w.now))
			if err != nil {
				return fmt.Errorf("store health: %w", err)
			}
		}
		if h.DisabledVersion > 0 {
			_, err := c.ExecContext(ctx, healthDisabled, string(h.Webhook), h.DisabledVersion, string(h.DisabledReason), e.moment(h.At), e.moment(w.now))
			if err != nil {
				return fmt.Errorf("store health: %w", err)
			}
		}
	}
	return nil
}

func (e *sqliteEngine) markRelayed(ctx context.Context, c conn, keys []outboxKey, at time.Time) error {
	for _, key := range keys {
		_, err := c.ExecContext(ctx, `UPDATE outbox SET relayed_at = $1, relayed = relayed + 1
			WHERE received_at = $2 AND account = $3 AND id = $4`, e.moment(at), e.moment(key.ReceivedAt), key.Account, key.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func sqliteInsertDeliveries() multiRow {
	columns := deliveryColumns()
	return multiRow{
		head:    "INSERT INTO deliveries (" + strings.Join(columns, ", ") + ") VALUES ",
		columns: len(columns),
	}
}

func sqliteUpsertDeliveries() multiRow {
	return multiRow{
		head: "INSERT INTO deliveries (" + strings.Join(deliveryColumns()[:deliveryStateColumns], ", ") + ") VALUES ",
		tail: " ON CONFLICT (account, id, day) DO UPDATE SET " + deliveryChange +
			" WHERE (excluded.rev, excluded.updated_at) > (deliveries.rev, deliveries.updated_at)",
		columns: deliveryStateColumns,
	}
}

func sqliteFillDeliveries() multiRow {
	m := sqliteInsertDeliveries()
	m.tail = " ON CONFLICT (account, id, day) DO UPDATE SET " + deliveryChange + ", " + attemptChange +
		" WHERE deliveries.attempt_id IS NULL AND (excluded.rev, excluded.updated_at) > (deliveries.rev, deliveries.updated_at)" +
		" RETURNING attempt_id"
	return m
}

// sqliteInsertAttempts adds the attempts that are neither there nor in their delivery;
// the last column is the account, which leads to the delivery.
func sqliteInsertAttempts() multiRow {
	return multiRow{
		head: `INSERT INTO attempts (day, delivery_id, id, number, started_at, duration_us, status, error, body)
			SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9 FROM (VALUES `,
		tail: `) AS v WHERE NOT EXISTS (SELECT 1 FROM deliveries d
			WHERE d.account = v.column10 AND d.id = v.column2 AND d.day = v.column1 AND d.attempt_id = v.column3)
			ON CONFLICT DO NOTHING`,
		columns: 10,
	}
}

func sqliteSettle() multiRow {
	return multiRow{
		head:    "DELETE FROM outbox WHERE (received_at, account, id) IN (VALUES ",
		tail:    ")",
		columns: 3,
	}
}

// sqliteRecordEvent adds an event; of one whose id is there for that day only the time
// is kept, so that its deliveries are found.
const sqliteRecordEvent = `INSERT INTO events (day, account, id, type, occurred_at, payload, received_at)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
	ON CONFLICT (account, id, day) DO UPDATE SET repeats = events.repeats || ?8
	WHERE events.received_at <> excluded.received_at AND instr(events.repeats, ?8) = 0 AND length(events.repeats) < ?9`

func (e *sqliteEngine) revs(ctx context.Context, day time.Time, account string, ids []string, revs map[domain.DeliveryID]domain.Revision) error {
	args := make([]any, 0, len(ids)+2)
	args = append(args, e.date(day), account)
	for _, id := range ids {
		args = append(args, id)
	}
	rows, err := e.reader.QueryContext(ctx, "SELECT id, rev FROM deliveries WHERE day = ? AND account = ? AND id IN (?"+strings.Repeat(", ?", len(ids)-1)+")", args...) //nolint:gosec // the marks of the arguments alone
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var rev int64
		if err := rows.Scan(&id, &rev); err != nil {
			return err
		}
		revs[domain.DeliveryID(id)] = domain.Revision(rev)
	}
	return rows.Err()
}
