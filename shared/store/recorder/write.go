package recorder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
)

// recordLock orders the transactions of Record on Postgres.
const recordLock = 0x57617972 // "Wayr"

// errKnown means that a new delivery or event is in the log already.
var errKnown = errors.New("in the log already")

// errUsedUp means that the transaction has used up a quota. The alerts about that are events, and a
// transaction that adds events must hold store.FeedLock, or have a number, from its beginning. So the
// transaction starts over.
var errUsedUp = errors.New("a quota is used up")

// write first assumes that new rows are not in the log. That costs half of the cheapest INSERT that checks for
// conflicts, but fails as a whole at the first conflict. Then write starts over and writes all rows as changes.
// Measured on 2 cores, server CPU of Postgres for a delivery with its attempt: 16 µs as two upserts, 11 as one
// row, 7 as one row by COPY.
//
// Transactions that only add rows run in parallel, because each adds them in order. A transaction that changes
// rows runs alone: two transactions that change what the other has added would wait for each other until Postgres
// notices, a second later.
func (r *Recorder) write(ctx context.Context, w *recordWork) (RecordResult, error) {
	alone, known := w.hasChanges(), false
	for {
		t := &transaction{work: w}
		err := r.db.Write(ctx, w.beginStatements(alone), func(c store.Conn) error {
			t.Conn = c
			return t.write(ctx, r.owners)
		})
		switch {
		case errors.Is(err, errKnown) && !known:
			known = true
			w.bornToChanges()
		case errors.Is(err, errUsedUp):
			w.usedUp = true
		default:
			return RecordResult{Attempts: t.attempts, Jobs: t.jobs, Alerts: t.alerts, Disabled: t.disabled}, err
		}
		alone = true
	}
}

// beginStatements returns the statements with which Postgres begins a transaction.
func (w *recordWork) beginStatements(alone bool) string {
	// The outbox changes between empty and large within seconds, so its statistics would lead to a scan.
	lock := "SET LOCAL enable_seqscan = off; SELECT pg_advisory_xact_lock_shared(%d)"
	if alone {
		lock = "SET LOCAL enable_seqscan = off; SELECT pg_advisory_xact_lock(%d)"
	}
	if w.bringsEvents() {
		lock += fmt.Sprintf(", pg_advisory_xact_lock_shared(%d)", int64(store.FeedLock))
	}
	return fmt.Sprintf(lock, int64(recordLock))
}

// transaction is one try to write, and what it has actually added.
type transaction struct {
	store.Conn
	tally

	work *recordWork
	xact []any // on SQLite, the number of the commit among those that add events
}

func (t *transaction) write(ctx context.Context, o *owners) (err error) {
	if t.meter, err = newMeter(ctx, o, t.Conn, t.work); err != nil {
		return err
	}
	if t.SQLite() && t.work.bringsEvents() {
		xact, err := t.NextXact(ctx)
		if err != nil {
			return fmt.Errorf("number the commit: %w", err)
		}
		t.xact = []any{xact}
	}
	for _, at := range t.work.dayList() {
		if err := t.day(ctx, at, t.work.days[store.DateOf(at)]); err != nil {
			return err
		}
	}
	if err := t.alert(ctx); err != nil {
		return fmt.Errorf("tell of transitions: %w", err)
	}
	if t.disabled, err = t.meter.write(ctx); err != nil {
		return err
	}
	if len(t.disabled) > 0 && !t.work.usedUp {
		return errUsedUp
	}
	if err := t.tellUsedUp(ctx); err != nil {
		return fmt.Errorf("tell of a used up quota: %w", err)
	}
	return t.writeRest(ctx)
}

func (t *transaction) day(ctx context.Context, at time.Time, day *recordDay) error {
	if err := t.born(ctx, at, day.born); err != nil {
		return fmt.Errorf("add deliveries: %w", err)
	}
	day.countBorn(&t.tally)
	taken, err := t.fill(ctx, at, day.filled)
	if err != nil {
		return fmt.Errorf("fill deliveries: %w", err)
	}
	day.countFilled(&t.tally, taken)
	day = day.withoutTaken(taken)
	if err := t.change(ctx, at, day.changed); err != nil {
		return fmt.Errorf("change deliveries: %w", err)
	}
	added, err := t.addAttempts(ctx, at, day.attempts)
	if err != nil {
		return fmt.Errorf("insert attempts: %w", err)
	}
	day.countAttempts(&t.tally, added)
	if err := t.addEvents(ctx, at, day); err != nil {
		return fmt.Errorf("add events: %w", err)
	}
	return nil
}

// The columns of a delivery: its state, and its first attempt.
const (
	stateColumns = `day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, run_started_at, ` +
		`next_attempt_at, in_lane, reason, test, updated_at, last_class, last_status, sequence`
	stateTypes = `date,text,text,text,text,text,text,bigint,integer,integer,timestamptz,` +
		`timestamptz,boolean,text,boolean,timestamptz,text,integer,bigint`
	wholeColumns = stateColumns + `, attempt_id, attempt_number, attempt_started_at, attempt_us, attempt_status, attempt_class, ` +
		`attempt_error, attempt_body, attempt_transcript`
	attemptTypes = `,text,integer,timestamptz,bigint,integer,text,text,text,bytea`
	wholeWidth   = 28
)

// deliveryChange sets the columns of a delivery's row to a new state.
const deliveryChange = ` ON CONFLICT (account, id, day) DO UPDATE SET status = excluded.status, rev = excluded.rev, attempts = excluded.attempts,
	run_attempts = excluded.run_attempts, run_started_at = excluded.run_started_at,
	next_attempt_at = excluded.next_attempt_at, in_lane = excluded.in_lane, reason = excluded.reason,
	updated_at = excluded.updated_at, last_class = coalesce(excluded.last_class, d.last_class),
	last_status = coalesce(excluded.last_status, d.last_status), sequence = coalesce(excluded.sequence, d.sequence)`

// attemptChange puts an attempt into a delivery's row.
const attemptChange = `, attempt_id = excluded.attempt_id, attempt_number = excluded.attempt_number,
	attempt_started_at = excluded.attempt_started_at, attempt_us = excluded.attempt_us,
	attempt_status = excluded.attempt_status, attempt_class = excluded.attempt_class, attempt_error = excluded.attempt_error, attempt_body = excluded.attempt_body,
	attempt_transcript = excluded.attempt_transcript`

// newer is the condition that a state is greater than the stored one.
const newer = `(excluded.rev, excluded.updated_at) > (d.rev, d.updated_at)`

// born adds new deliveries; errKnown: one of them is in the log already.
func (t *transaction) born(ctx context.Context, at time.Time, outcomes []domain.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	day := t.Date(at)
	return t.copy(ctx, tableDeliveries, at, wholeColumns, len(outcomes), func(i int, values []any) []any {
		o := &outcomes[i]
		class, status := bornLast(o.Attempt)
		return t.appendAttempt(t.appendState(values, o, day, class, status), o.Attempt)
	})
}

func (t *transaction) copy(ctx context.Context, table string, at time.Time, columns string, n int, row func(i int, values []any) []any) error {
	err := t.Copy(ctx, t.Partition(table, at), strings.Split(columns, ", "), n, row)
	if errors.Is(err, domain.ErrConflict) {
		return errKnown
	}
	return err
}

// fill stores states that are greater than the stored ones, together with first attempts, in rows that
// have no attempt. It returns the ids of the attempts that it stored.
func (t *transaction) fill(ctx context.Context, at time.Time, outcomes []domain.Outcome) (map[string]struct{}, error) {
	day, values := t.Date(at), make([]any, 0, len(outcomes)*wholeWidth)
	for i := range outcomes {
		o := &outcomes[i]
		class, status := lastAttempt(o.Attempt)
		values = t.appendAttempt(t.appendState(values, o, day, class, status), o.Attempt)
	}
	return t.ids(ctx, store.MultiRow{
		Head:  "INSERT INTO " + t.Partition(tableDeliveries, at) + " AS d (" + wholeColumns + ") ",
		Tail:  deliveryChange + attemptChange + " WHERE d.attempt_id IS NULL AND " + newer + " RETURNING attempt_id",
		Types: stateTypes + attemptTypes,
	}, values)
}

// ids runs a statement over rows and returns the ids from its result.
func (t *transaction) ids(ctx context.Context, m store.MultiRow, values []any) (map[string]struct{}, error) {
	var ids map[string]struct{}
	err := t.Batch(ctx, t.Rows(m, values, func(scan store.Scan) error {
		var id string
		err := scan(&id)
		if ids == nil {
			ids = map[string]struct{}{}
		}
		ids[id] = struct{}{}
		return err
	})...)
	return ids, err
}

// change stores states that are greater than the stored ones.
func (t *transaction) change(ctx context.Context, at time.Time, outcomes []domain.Outcome) error {
	day, values := t.Date(at), make([]any, 0, len(outcomes)*wholeWidth)
	for i := range outcomes {
		class, status := lastAttempt(outcomes[i].Attempt)
		values = t.appendState(values, &outcomes[i], day, class, status)
	}
	return t.Batch(ctx, t.Rows(store.MultiRow{
		Head:  "INSERT INTO " + t.Partition(tableDeliveries, at) + " AS d (" + stateColumns + ") ",
		Tail:  deliveryChange + " WHERE " + newer,
		Types: stateTypes,
	}, values, nil)...)
}

func (t *transaction) appendState(values []any, o *domain.Outcome, day any, class *string, status *int) []any {
	return append(values, day, string(o.Delivery), o.Account, string(o.Webhook), o.EventID, string(o.EventType),
		string(o.Status), int64(o.Rev), o.Attempts, o.RunAttempts, t.Moment(o.RunStartedAt), t.Moment(o.NextAttemptAt),
		o.InLane, o.Reason, o.Test, t.Moment(o.UpdatedAt), class, status, sequenceOf(o))
}

func (t *transaction) appendAttempt(values []any, a *domain.Attempt) []any {
	if a == nil {
		return append(values, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	}
	return append(values, a.ID, a.Number, t.Moment(a.StartedAt), a.Duration.Microseconds(), a.Status, storedClass(a), a.Error, a.ResponseBody, a.Transcript)
}

// addAttempts adds the attempts that are neither in the table nor in their delivery's row, and returns
// their ids. The first columns identify the delivery.
func (t *transaction) addAttempts(ctx context.Context, at time.Time, attempts []deliveryAttempt) (map[string]struct{}, error) {
	day, values := t.Date(at), make([]any, 0, len(attempts)*12)
	for i := range attempts {
		a := &attempts[i]
		values = t.appendAttempt(append(values, day, a.account, string(a.delivery)), &a.Attempt)
	}
	return t.ids(ctx, store.MultiRow{
		Head: "INSERT INTO " + t.Partition(tableAttempts, at) + ` (day, delivery_id, id, number, started_at, duration_us, status, class, error, body, transcript)
			SELECT v.column1, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10, v.column11, v.column12 FROM (`,
		Tail: ") AS v WHERE NOT EXISTS (SELECT 1 FROM " + t.Partition(tableDeliveries, at) + ` d
			WHERE d.account = v.column2 AND d.id = v.column3 AND d.day = v.column1 AND d.attempt_id = v.column4)
			ON CONFLICT DO NOTHING RETURNING id`,
		Types: "date,text,text" + attemptTypes,
	}, values)
}

// addEvents adds events that were published on NATS. If an event's id is in the log for that day, only
// the time is kept, so that its deliveries are found.
func (t *transaction) addEvents(ctx context.Context, at time.Time, day *recordDay) error {
	if len(day.events) == 0 {
		return nil
	}
	columns := "day, account, id, type, occurred_at, payload, received_at, source, shipment"
	if t.SQLite() {
		columns += ", xact"
	}
	row := func(i int, values []any) []any {
		e := &day.events[i]
		values = append(values, t.Date(at), e.Account, e.ID, string(e.Type), e.Timestamp, e.Payload, t.Moment(e.ReceivedAt),
			string(domain.SourceNATS), envelope.Shipment(e.Account, e.Payload))
		return append(values, t.xact...)
	}
	if !day.known {
		for i := range day.events {
			t.event(&day.events[i])
		}
		return t.copy(ctx, tableEvents, at, columns, len(day.events), row)
	}
	query := "INSERT INTO " + t.Partition(tableEvents, at) + " AS e (" + columns + `) VALUES ($3, $4, $5, $6, $7, $8, $9, $10, $11` +
		strings.Repeat(", $12", len(t.xact)) + `) ON CONFLICT (account, id, day) DO UPDATE SET repeats = e.repeats || CAST($1 AS text)
		WHERE e.received_at <> excluded.received_at AND e.repeats NOT LIKE '%' || CAST($1 AS text) || '%' AND length(e.repeats) < $2
		RETURNING repeats = ''`
	list := make([]store.Statement, len(day.events))
	for i := range list {
		e := &day.events[i]
		list[i] = store.Statement{SQL: query, Args: row(i, []any{repeatText(e.ReceivedAt), maxRepeats}), Each: func(scan store.Scan) error {
			var added bool
			err := scan(&added)
			if added {
				t.event(e)
			}
			return err
		}}
	}
	return t.Batch(ctx, list...)
}

// writeRest settles events, answers requests, and stores health and the counts, on Postgres in one round trip.
func (t *transaction) writeRest(ctx context.Context) error {
	var list []store.Statement
	if !t.Empty() {
		list = append(list, store.Statement{SQL: rollup.InsertDelta, Args: []any{t.Moment(rollup.MinuteOf(t.work.now)), t.Encode()}})
	}
	list = append(list, t.settle()...)
	if len(t.work.requests) > 0 {
		list = append(list, store.Statement{SQL: "DELETE FROM requests WHERE id " + t.In(), Args: []any{t.List(t.work.requests)}})
	}
	list = append(list, t.sequences()...)
	for i := range t.work.health {
		list = append(list, t.health(&t.work.health[i])...)
	}
	if !t.SQLite() { // at the end, because a process that advances a job also locks its row at the end
		list = append(list, t.answers()...)
	}
	if err := t.Batch(ctx, list...); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if t.SQLite() {
		return t.answerOneByOne(ctx)
	}
	return nil
}

func (t *transaction) settle() []store.Statement {
	values := make([]any, 0, len(t.work.settled)*3)
	for _, key := range t.work.settled {
		values = append(values, t.Moment(key.ReceivedAt), key.Account, key.ID)
	}
	m := store.MultiRow{Head: "DELETE FROM outbox WHERE (received_at, account, id) IN (", Tail: ")", Types: "timestamptz,text,text"}
	if !t.SQLite() {
		m.Head, m.Tail = "DELETE FROM outbox o USING (", ") AS s WHERE o.received_at = s.column1 AND o.account = s.column2 AND o.id = s.column3"
	}
	return t.Rows(m, values, nil)
}

func (t *transaction) sequences() []store.Statement {
	values := make([]any, 0, len(t.work.sequences)*5)
	for _, last := range t.work.sequences {
		values = append(values, string(last.Webhook), last.Shipment, last.Last, last.Missed, t.Moment(t.work.now))
	}
	greatest := "greatest"
	if t.SQLite() {
		greatest = "max"
	}
	return t.Rows(store.MultiRow{
		Head: "INSERT INTO webhook_sequences AS s (webhook_id, shipment, sequence, missed, updated_at) ",
		Tail: ` ON CONFLICT (webhook_id, shipment) DO UPDATE SET sequence = ` + greatest + `(s.sequence, excluded.sequence),
			missed = ` + greatest + `(s.missed, excluded.missed), updated_at = excluded.updated_at
			WHERE excluded.sequence > s.sequence OR excluded.missed > s.missed`,
		Types: "text,bigint,bigint,bigint,timestamptz",
	}, values, nil)
}

// health stores a change of a webhook's health or circuit.
func (t *transaction) health(h *domain.HealthChange) (list []store.Statement) {
	say := func(query string, args ...any) { list = append(list, store.Statement{SQL: query, Args: args}) }
	now := t.Moment(t.work.now)
	if !h.FailingSince.IsZero() || h.Recovered {
		say(healthFailing, string(h.Webhook), t.Moment(h.FailingSince), t.Moment(h.At), now)
	}
	if h.DisabledVersion > 0 {
		say(healthDisabled, string(h.Webhook), h.DisabledVersion, string(h.DisabledReason), t.Moment(h.At), now)
	}
	if c := h.Certificate; c != nil {
		say(healthCertificate, string(h.Webhook), t.Moment(c.ExpiresAt), c.Version, now)
	}
	if c := h.Circuit; c != nil {
		last := domain.Answer{}
		if c.Last != nil {
			last = *c.Last
		}
		say(circuitSaid, string(h.Webhook), t.Moment(c.OpenSince), c.Failures, t.Moment(c.FailingSince), t.Moment(c.NextProbeAt), t.Moment(c.SaidAt),
			t.Moment(last.At), plainText(string(last.Class)), last.Status, plainText(last.Body))
	}
	return list
}

// answers counts the answers that jobs waited for, on Postgres.
func (t *transaction) answers() []store.Statement {
	values := make([]any, 0, len(t.work.answers)*3)
	for _, a := range t.work.answers {
		values = append(values, a.delivery, a.rev, a.delivered)
	}
	return t.Rows(store.MultiRow{
		Head: "WITH answered AS (DELETE FROM job_deliveries j USING (",
		Tail: `) AS s WHERE j.delivery_id = s.column1 AND j.rev < s.column2 RETURNING j.job_id, s.column3 AS delivered
			), counted AS (
				SELECT job_id, count(*) FILTER (WHERE delivered) AS delivered, count(*) FILTER (WHERE NOT delivered) AS failed
				FROM answered GROUP BY job_id
			)
			UPDATE jobs SET delivered = jobs.delivered + c.delivered, failed = jobs.failed + c.failed
			FROM counted c WHERE jobs.id = c.job_id RETURNING jobs.account, jobs.id`,
		Types: "text,bigint,boolean",
	}, values, t.job)
}

func (t *transaction) job(scan store.Scan) error {
	var key JobKey
	err := scan(&key.Account, &key.ID)
	t.jobs = append(t.jobs, key)
	return err
}

// sqliteAnswerJob removes the entries of jobs that wait for a delivery, and returns these jobs.
const sqliteAnswerJob = "DELETE FROM job_deliveries WHERE delivery_id = $1 AND rev < $2 RETURNING job_id"

// answerOneByOne does the same on SQLite, which can't use the result of one statement in another.
func (t *transaction) answerOneByOne(ctx context.Context) error {
	counts := map[string]*[2]int{} // delivered, failed
	for _, a := range t.work.answers {
		err := t.Query(ctx, sqliteAnswerJob, func(scan store.Scan) error {
			var job string
			err := scan(&job)
			if counts[job] == nil {
				counts[job] = &[2]int{}
			}
			if a.delivered {
				counts[job][0]++
			} else {
				counts[job][1]++
			}
			return err
		}, a.delivery, a.rev)
		if err != nil {
			return fmt.Errorf("answer jobs: %w", err)
		}
	}
	for job, n := range counts {
		// The job may be past the retention.
		err := t.Query(ctx, "UPDATE jobs SET delivered = delivered + $2, failed = failed + $3 WHERE id = $1 RETURNING account, id", t.job, job, n[0], n[1])
		if err != nil {
			return fmt.Errorf("answer jobs: %w", err)
		}
	}
	return nil
}
