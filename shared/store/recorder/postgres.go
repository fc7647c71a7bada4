package recorder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
)

// postgres has the statements that are written for Postgres.
type postgres struct {
	pool   *pgxpool.Pool
	owners *owners
}

// recordLock orders the transactions of Record.
const recordLock = 0x57617972 // "Wayr"

// errKnown says that a new delivery is in the log already.
var errKnown = errors.New("in the log already")

// errUsedUp says that the transaction has used up a quota. Alerts of that are events, and a transaction that
// adds events must hold store.FeedLock from its beginning. So it starts anew with the lock.
var errUsedUp = errors.New("a quota is used up")

// record writes new rows with COPY, which costs half of the cheapest INSERT that looks
// out for conflicts, but fails as a whole on one: then it starts anew and writes them
// like other changes. Measured on 2 cores, server CPU a delivery with its attempt: 16 µs
// as two upserts, 11 as one row, 7 as one row by COPY.
//
// Transactions that only add rows run side by side, as each adds them in order. One that
// changes rows has the log to itself: two that change what the other has added would
// wait for each other until Postgres finds out, a second later.
func (d postgres) record(ctx context.Context, w *recordWork) (RecordResult, error) {
	alone, known := w.changes(), false
	for {
		result, err := d.recordTx(ctx, w, alone)
		switch {
		case errors.Is(err, errKnown) && !known:
			known = true
			w.unborn()
		case errors.Is(err, errUsedUp):
			w.usedUp = true
		default:
			return result, err
		}
		alone = true
	}
}

func (d postgres) recordTx(ctx context.Context, w *recordWork, alone bool) (RecordResult, error) {
	// The outbox is empty or large within seconds: statistics would lead to a scan.
	begin := "BEGIN; SET LOCAL enable_seqscan = off; SELECT pg_advisory_xact_lock_shared(%d)"
	if alone {
		begin = "BEGIN; SET LOCAL enable_seqscan = off; SELECT pg_advisory_xact_lock(%d)"
	}
	if w.bringsEvents() {
		begin += fmt.Sprintf(", pg_advisory_xact_lock_shared(%d)", int64(store.FeedLock))
	}
	var counted tally
	options := pgx.TxOptions{BeginQuery: fmt.Sprintf(begin, int64(recordLock))}
	err := pgx.BeginTxFunc(ctx, d.pool, options, func(tx pgx.Tx) (err error) {
		if counted.meter, err = newMeter(ctx, d.owners, pgxAlerts{tx}, w); err != nil {
			return err
		}
		for _, at := range w.dayList() {
			if err := recordDayPostgres(ctx, tx, at, w.days[store.DateOf(at)], &counted); err != nil {
				return err
			}
		}
		if err := w.alert(ctx, pgxAlerts{tx}, &counted); err != nil {
			return fmt.Errorf("tell of transitions: %w", err)
		}
		if counted.disabled, err = counted.meter.write(ctx); err != nil {
			return err
		}
		if len(counted.disabled) > 0 && !w.usedUp {
			return errUsedUp
		}
		if err := w.tellUsedUp(ctx, pgxAlerts{tx}, &counted); err != nil {
			return fmt.Errorf("tell of a used up quota: %w", err)
		}
		return recordRestPostgres(ctx, tx, w, &counted)
	})
	return RecordResult{Attempts: counted.attempts, Jobs: counted.jobs, Alerts: counted.alerts, Disabled: counted.disabled}, err
}

func recordDayPostgres(ctx context.Context, tx pgx.Tx, at time.Time, day *recordDay, counted *tally) error {
	if len(day.born) > 0 {
		err := copyRows(ctx, tx, store.Partition(tableDeliveries, at), deliveryColumns(), &bornRows{day: at, rows: day.born})
		if err != nil {
			return fmt.Errorf("copy deliveries: %w", err)
		}
	}
	day.countBorn(counted)
	if len(day.filled) > 0 {
		taken, err := fillDeliveriesPostgres(ctx, tx, at, day.filled)
		if err != nil {
			return fmt.Errorf("fill deliveries: %w", err)
		}
		day.countFilled(counted, taken)
		day = day.unfilled(taken)
	}
	if len(day.changed) > 0 {
		if err := upsertDeliveriesPostgres(ctx, tx, at, day.changed); err != nil {
			return fmt.Errorf("change deliveries: %w", err)
		}
	}
	if len(day.attempts) > 0 {
		added, err := insertAttemptsPostgres(ctx, tx, at, day.attempts)
		if err != nil {
			return fmt.Errorf("insert attempts: %w", err)
		}
		day.countAttempts(counted, added)
	}
	if len(day.events) > 0 {
		if err := recordEventsPostgres(ctx, tx, at, day, counted); err != nil {
			return fmt.Errorf("add events: %w", err)
		}
	}
	return nil
}

// copyRows copies rows into a table; errKnown: one of them was there.
func copyRows(ctx context.Context, tx pgx.Tx, table string, columns []string, rows pgx.CopyFromSource) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, columns, rows)
	if errors.Is(store.Classify(err), domain.ErrConflict) {
		return errKnown
	}
	return err
}

func deliveryColumns() []string {
	return []string{
		"day", "id", "account", "webhook_id", "event_id", "event_type", "status", "rev", "attempts", "run_attempts",
		"run_started_at", "next_attempt_at", "in_lane", "reason", "test", "updated_at", "last_class", "last_status", "sequence",
		"attempt_id", "attempt_number", "attempt_started_at", "attempt_us", "attempt_status", "attempt_class", "attempt_error", "attempt_body", "attempt_transcript",
	}
}

// deliveryStateColumns is how many of deliveryColumns are the state, without an attempt.
const deliveryStateColumns = 19

// bornRows feeds new deliveries to COPY.
type bornRows struct {
	day    time.Time
	rows   []domain.Outcome
	next   int
	values [28]any
}

func (b *bornRows) Next() bool {
	b.next++
	return b.next <= len(b.rows)
}

func (b *bornRows) Values() ([]any, error) {
	o := &b.rows[b.next-1]
	lastClass, lastStatus := bornLast(o.Attempt)
	b.values = [28]any{
		b.day, string(o.Delivery), o.Account, string(o.Webhook), o.EventID, string(o.EventType), string(o.Status),
		int64(o.Rev), o.Attempts, o.RunAttempts, orNull(o.RunStartedAt), orNull(o.NextAttemptAt),
		o.InLane, o.Reason, o.Test, o.UpdatedAt, lastClass, lastStatus, sequenceOf(o),
	}
	if a := o.Attempt; a != nil {
		copy(b.values[deliveryStateColumns:], []any{a.ID, a.Number, a.StartedAt, a.Duration.Microseconds(), a.Status, storedClass(a), a.Error, a.ResponseBody, a.Transcript})
	}
	return b.values[:], nil
}

func (b *bornRows) Err() error { return nil }

func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// upsertDeliveriesPostgres stores states that are greater than the stored ones.
func upsertDeliveriesPostgres(ctx context.Context, tx pgx.Tx, at time.Time, outcomes []domain.Outcome) error {
	table := store.Partition(tableDeliveries, at)
	columns := strings.Join(deliveryColumns()[1:deliveryStateColumns], ", ")
	_, err := tx.Exec(ctx, `
		INSERT INTO `+table+` AS d (day, `+columns+`)
		SELECT $1::date, * FROM unnest(`+stateArrays+`)
		ON CONFLICT (account, id, day) DO UPDATE SET `+deliveryChange+`
		WHERE (excluded.rev, excluded.updated_at) > (d.rev, d.updated_at)`,
		stateValues(at, outcomes)...)
	return err
}

// fillDeliveriesPostgres does the same with the first attempts, in rows that have none. It
// returns the ids of the attempts that it stored.
func fillDeliveriesPostgres(ctx context.Context, tx pgx.Tx, at time.Time, outcomes []domain.Outcome) (map[string]struct{}, error) {
	n := len(outcomes)
	ids, numbers, starts, durations := make([]string, n), make([]int32, n), make([]time.Time, n), make([]int64, n)
	states, classes, faults, bodies := make([]int32, n), make([]*string, n), make([]string, n), make([]string, n)
	for i := range outcomes {
		a := outcomes[i].Attempt
		ids[i], numbers[i], starts[i], durations[i] = a.ID, int32(a.Number), a.StartedAt, a.Duration.Microseconds() // small
		states[i], classes[i], faults[i], bodies[i] = int32(a.Status), storedClass(a), a.Error, a.ResponseBody
	}
	transcripts := transcriptsOf(n, func(i int) *domain.Attempt { return outcomes[i].Attempt })
	columns := strings.Join(deliveryColumns()[1:], ", ")
	rows, err := tx.Query(ctx, `
		INSERT INTO `+store.Partition(tableDeliveries, at)+` AS d (day, `+columns+`)
		SELECT $1::date, * FROM unnest(`+stateArrays+`, $20::text[], $21::integer[], $22::timestamptz[],
			$23::bigint[], $24::integer[], $25::text[], $26::text[], $27::text[], $28::bytea[])
		ON CONFLICT (account, id, day) DO UPDATE SET `+deliveryChange+`, `+attemptChange+`
		WHERE d.attempt_id IS NULL AND (excluded.rev, excluded.updated_at) > (d.rev, d.updated_at)
		RETURNING d.attempt_id`,
		append(stateValues(at, outcomes), ids, numbers, starts, durations, states, classes, faults, bodies, transcripts)...)
	if err != nil {
		return nil, err
	}
	return idSet(rows, n)
}

// idSet returns the ids of a query's rows, of which there are up to n.
func idSet(rows pgx.Rows, n int) (map[string]struct{}, error) {
	ids := make(map[string]struct{}, n)
	var id string
	_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		ids[id] = struct{}{}
		return nil
	})
	return ids, err
}

// stateArrays are the parameters that stateValues gives, but for the first, the day.
const stateArrays = `$2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
	$8::bigint[], $9::integer[], $10::integer[], $11::timestamptz[], $12::timestamptz[],
	$13::boolean[], $14::text[], $15::boolean[], $16::timestamptz[], $17::text[], $18::integer[], $19::bigint[]`

// stateValues returns the day and the states' columns, in the order of deliveryColumns.
func stateValues(at time.Time, outcomes []domain.Outcome) []any {
	n := len(outcomes)
	ids, accounts, webhooks, events := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	types, states, reasons := make([]string, n), make([]string, n), make([]string, n)
	revs, attempts, runAttempts := make([]int64, n), make([]int32, n), make([]int32, n)
	runs, nexts := make([]*time.Time, n), make([]*time.Time, n)
	held, tests, updates := make([]bool, n), make([]bool, n), make([]time.Time, n)
	classes, answers, sequences := make([]*string, n), make([]*int, n), make([]*int64, n)
	for i := range outcomes {
		o := &outcomes[i]
		ids[i], accounts[i], webhooks[i], events[i] = string(o.Delivery), o.Account, string(o.Webhook), o.EventID
		types[i], states[i], reasons[i] = string(o.EventType), string(o.Status), o.Reason
		revs[i], attempts[i], runAttempts[i] = int64(o.Rev), int32(o.Attempts), int32(o.RunAttempts) // counts of attempts
		runs[i], nexts[i] = pointer(o.RunStartedAt), pointer(o.NextAttemptAt)
		held[i], tests[i], updates[i] = o.InLane, o.Test, o.UpdatedAt
		classes[i], answers[i] = last(o.Attempt)
		sequences[i] = sequenceOf(o)
	}
	return []any{at, ids, accounts, webhooks, events, types, states, revs, attempts, runAttempts, runs, nexts, held, reasons, tests, updates, classes, answers, sequences}
}

// deliveryChange is what a new state changes in a delivery's row.
const deliveryChange = `status = excluded.status, rev = excluded.rev, attempts = excluded.attempts,
	run_attempts = excluded.run_attempts, run_started_at = excluded.run_started_at,
	next_attempt_at = excluded.next_attempt_at, in_lane = excluded.in_lane, reason = excluded.reason,
	updated_at = excluded.updated_at, last_class = coalesce(excluded.last_class, d.last_class),
	last_status = coalesce(excluded.last_status, d.last_status), sequence = coalesce(excluded.sequence, d.sequence)`

// attemptChange puts an attempt into a delivery's row.
const attemptChange = `attempt_id = excluded.attempt_id, attempt_number = excluded.attempt_number,
	attempt_started_at = excluded.attempt_started_at, attempt_us = excluded.attempt_us,
	attempt_status = excluded.attempt_status, attempt_class = excluded.attempt_class, attempt_error = excluded.attempt_error, attempt_body = excluded.attempt_body,
	attempt_transcript = excluded.attempt_transcript`

func transcriptsOf(n int, attempt func(int) *domain.Attempt) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = attempt(i).Transcript
	}
	return list
}

func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// insertAttemptsPostgres adds the attempts that are neither there nor in their delivery, and
// returns the ids of those that it added.
func insertAttemptsPostgres(ctx context.Context, tx pgx.Tx, at time.Time, list []deliveryAttempt) (map[string]struct{}, error) {
	n := len(list)
	accounts, deliveries, ids := make([]string, n), make([]string, n), make([]string, n)
	numbers, states, durations := make([]int32, n), make([]int32, n), make([]int64, n)
	starts, classes, faults, bodies := make([]time.Time, n), make([]*string, n), make([]string, n), make([]string, n)
	for i := range list {
		a := &list[i]
		accounts[i], deliveries[i], ids[i] = a.account, string(a.delivery), a.ID
		numbers[i], states[i], durations[i] = int32(a.Number), int32(a.Status), a.Duration.Microseconds() // small
		starts[i], classes[i], faults[i], bodies[i] = a.StartedAt, storedClass(&a.Attempt), a.Error, a.ResponseBody
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO `+store.Partition(tableAttempts, at)+` (day, delivery_id, id, number, started_at, duration_us, status, class, error, body, transcript)
		SELECT $1::date, a.delivery_id, a.id, a.number, a.started_at, a.duration_us, a.status, a.class, a.error, a.body, a.transcript
		FROM unnest($2::text[], $3::text[], $4::text[], $5::integer[], $6::timestamptz[], $7::bigint[], $8::integer[], $9::text[], $10::text[], $11::text[], $12::bytea[])
			AS a (account, delivery_id, id, number, started_at, duration_us, status, class, error, body, transcript)
		WHERE NOT EXISTS (
			SELECT 1 FROM `+store.Partition(tableDeliveries, at)+` d
			WHERE d.account = a.account AND d.id = a.delivery_id AND d.attempt_id = a.id)
		ON CONFLICT DO NOTHING
		RETURNING id`,
		at, accounts, deliveries, ids, numbers, starts, durations, states, classes, faults, bodies,
		transcriptsOf(n, func(i int) *domain.Attempt { return &list[i].Attempt }))
	if err != nil {
		return nil, err
	}
	return idSet(rows, n)
}

// eventRows feeds events that came over the bus to COPY.
type eventRows struct {
	rows []domain.Event
	next int
}

func (r *eventRows) Next() bool {
	r.next++
	return r.next <= len(r.rows)
}

func (r *eventRows) Values() ([]any, error) {
	e := &r.rows[r.next-1]
	return []any{domain.Day(e.ReceivedAt), e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, e.ReceivedAt, string(domain.SourceNATS), envelope.Shipment(e.Account, e.Payload)}, nil
}

func (r *eventRows) Err() error { return nil }

// recordEventsPostgres adds events. Of one whose id is there for that day only the time
// is kept, so that its deliveries are found.
func recordEventsPostgres(ctx context.Context, tx pgx.Tx, at time.Time, day *recordDay, counted *tally) error {
	table := store.Partition(tableEvents, at)
	if !day.known {
		columns := []string{"day", "account", "id", "type", "occurred_at", "payload", "received_at", "source", "shipment"}
		for i := range day.events {
			counted.event(&day.events[i])
		}
		return copyRows(ctx, tx, table, columns, &eventRows{rows: day.events})
	}
	batch := &pgx.Batch{}
	for _, e := range day.events {
		batch.Queue(`
			INSERT INTO `+table+` AS e (day, account, id, type, occurred_at, payload, received_at, source, shipment)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $10, $11)
			ON CONFLICT (account, id, day) DO UPDATE SET repeats = e.repeats || $8::text
			WHERE e.received_at <> excluded.received_at AND strpos(e.repeats, $8::text) = 0 AND length(e.repeats) < $9
			RETURNING e.repeats = ''`,
			at, e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, e.ReceivedAt, repeatText(e.ReceivedAt), maxRepeats,
			string(domain.SourceNATS), envelope.Shipment(e.Account, e.Payload)).
			Query(func(rows pgx.Rows) error {
				var added bool
				_, err := pgx.ForEachRow(rows, []any{&added}, func() error {
					if added {
						counted.event(&e)
					}
					return nil
				})
				return err
			})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// recordRestPostgres settles events, answers requests, and stores health and the counts, in
// one round trip.
func recordRestPostgres(ctx context.Context, tx pgx.Tx, w *recordWork, counted *tally) error {
	batch := &pgx.Batch{}
	if !counted.Empty() {
		batch.Queue(rollup.InsertDelta, rollup.MinuteOf(w.now), counted.Encode())
	}
	if len(w.settled) > 0 {
		times, accounts, ids := splitKeys(w.settled)
		// Subqueries, as in insertEventsSQL: the plan is kept.
		batch.Queue(`DELETE FROM outbox o USING unnest((SELECT $1::timestamptz[]), (SELECT $2::text[]), (SELECT $3::text[])) AS s (received_at, account, id)
			WHERE o.received_at = s.received_at AND o.account = s.account AND o.id = s.id`, times, accounts, ids)
	}
	if len(w.requests) > 0 {
		batch.Queue("DELETE FROM requests WHERE id = ANY($1)", w.requests)
	}
	if len(w.sequences) > 0 {
		webhooks, shipments, last, missed := splitSequences(w.sequences)
		batch.Queue(`INSERT INTO webhook_sequences AS s (webhook_id, shipment, sequence, missed, updated_at)
			SELECT webhook_id, shipment, sequence, missed, $5::timestamptz FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS n (webhook_id, shipment, sequence, missed)`+
			laterSequence("greatest"), webhooks, shipments, last, missed, w.now)
	}
	for _, h := range w.health {
		if !h.FailingSince.IsZero() || h.Recovered {
			batch.Queue(healthFailing, string(h.Webhook), orNull(h.FailingSince), h.At, w.now)
		}
		if h.DisabledVersion > 0 {
			batch.Queue(healthDisabled, string(h.Webhook), h.DisabledVersion, string(h.DisabledReason), h.At, w.now)
		}
		if c := h.Certificate; c != nil {
			batch.Queue(healthCertificate, string(h.Webhook), orNull(c.ExpiresAt), c.Version, w.now)
		}
		if h.Circuit != nil {
			batch.Queue(circuitSaid, circuitValues(&h, orNull)...)
		}
	}
	queueAnswers(batch, w.answers, counted) // at the end: who advances a job has its row at the end, too
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// queueAnswers counts what jobs waited for.
func queueAnswers(batch *pgx.Batch, answers []jobAnswer, counted *tally) {
	if len(answers) == 0 {
		return
	}
	ids, revs, delivered := make([]string, len(answers)), make([]int64, len(answers)), make([]bool, len(answers))
	for i, a := range answers {
		ids[i], revs[i], delivered[i] = a.delivery, a.rev, a.delivered
	}
	batch.Queue(`
		WITH answered AS (
			DELETE FROM job_deliveries j
			USING unnest((SELECT $1::text[]), (SELECT $2::bigint[]), (SELECT $3::boolean[])) AS s (id, rev, delivered)
			WHERE j.delivery_id = s.id AND j.rev < s.rev RETURNING j.job_id, s.delivered
		), counted AS (
			SELECT job_id, count(*) FILTER (WHERE delivered) AS delivered, count(*) FILTER (WHERE NOT delivered) AS failed
			FROM answered GROUP BY job_id
		)
		UPDATE jobs SET delivered = jobs.delivered + c.delivered, failed = jobs.failed + c.failed
		FROM counted c WHERE jobs.id = c.job_id
		RETURNING jobs.account, jobs.id`, ids, revs, delivered).Query(func(rows pgx.Rows) (err error) {
		counted.jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[JobKey])
		return err
	})
}

func splitKeys(keys []domain.EventKey) (times []time.Time, accounts, ids []string) {
	times, accounts, ids = make([]time.Time, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		times[i], accounts[i], ids[i] = k.ReceivedAt, k.Account, k.ID
	}
	return times, accounts, ids
}

// revs looks each delivery up by the primary key. It is planned anew each time: a plan
// that was made while the partition was small, or one that names all ids at once and
// trusts the estimate that few rows have this account, reads the whole day: 30 ms and
// more where the look-up takes 0.1.
func (d postgres) revs(ctx context.Context, day time.Time, account string, ids []string, revs map[domain.DeliveryID]domain.Revision) error {
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)")
	batch.Queue(`SELECT d.id, d.rev FROM unnest($2::text[]) AS k (id) CROSS JOIN LATERAL (
		SELECT id, rev FROM `+store.Partition(tableDeliveries, day)+` WHERE account = $1 AND id = k.id AND day = $3 LIMIT 1) d`,
		account, ids, day).
		Query(func(rows pgx.Rows) error {
			var id string
			var rev int64
			_, err := pgx.ForEachRow(rows, []any{&id, &rev}, func() error {
				revs[domain.DeliveryID(id)] = domain.Revision(rev)
				return nil
			})
			return err
		})
	err := d.pool.SendBatch(ctx, batch).Close()
	if store.MissingPartition(err) {
		return nil
	}
	return err
}
