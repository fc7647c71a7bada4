package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/metering"
)

// The steps that calls are counted by, in minutes.
const (
	stepMinute = 1
	stepHour   = 60
	stepDay    = 24 * 60
)

// How many rows one statement writes: SQLite takes 32,766 values, Postgres 65,535.
const (
	countsAtATime   = 1000
	requestsAtATime = 250
)

// deploymentDay is a day of a deployment, in days of Unix time.
type deploymentDay struct {
	deployment string
	day        int64
}

// Write adds a batch, in one transaction. A batch is skipped if its writer has written its number,
// or a higher one, before.
func (t *Traffic) Write(ctx context.Context, b *Batch) error {
	rows := make([]requestRow, len(b.Rows))
	hours := map[int64]time.Time{}
	for i := range b.Rows {
		rows[i] = rowOf(&b.Rows[i])
		hours[hourOf(b.Rows[i].At)] = b.Rows[i].At
	}
	err := t.writeIn(ctx, b, rows, hours)
	if store.MissingPartition(err) {
		// A process whose clock is ahead has dropped the partition.
		t.forgetHours()
		err = t.writeIn(ctx, b, rows, hours)
	}
	return store.Wrap("write traffic", err)
}

// writeIn writes rows of some hours, and makes room for these hours first.
func (t *Traffic) writeIn(ctx context.Context, b *Batch, rows []requestRow, hours map[int64]time.Time) error {
	for hour, at := range hours {
		if !t.isPrepared(hour) {
			if err := t.prepare(ctx, at); err != nil {
				return err
			}
		}
	}
	return t.db.Tx(ctx, func(tx *gorm.DB) error { return t.write(tx, b, rows) })
}

func (t *Traffic) forgetHours() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.hours)
}

func hourOf(at time.Time) int64 { return at.Unix() / 3600 }

func (t *Traffic) isPrepared(hour int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.hours[hour]
	return ok
}

// prepare makes room for rows of the hours of these times.
func (t *Traffic) prepare(ctx context.Context, times ...time.Time) error {
	if err := t.db.PrepareHours(ctx, tableRequests, times...); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range times {
		t.hours[hourOf(at)] = struct{}{}
	}
	return nil
}

func (t *Traffic) write(tx *gorm.DB, b *Batch, rows []requestRow) error {
	number := tx.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "writer"}},
		DoUpdates: clause.AssignmentColumns([]string{"batch", "written_at"}),
		Where:     clause.Where{Exprs: []clause.Expression{gorm.Expr("gateway_writers.batch < excluded.batch")}},
	}).Create(&writerRow{Writer: b.Writer, Batch: b.Number, WrittenAt: store.InstantOf(t.db.Now())})
	if number.Error != nil || number.RowsAffected == 0 {
		return number.Error
	}
	counts, err := t.counts(tx, b.Calls)
	if err != nil {
		return err
	}
	if len(counts) > 0 {
		err := tx.Clauses(addOnConflict("gateway_calls", []string{"deployment", "step", "start", "consumer", "status"}, "calls", "micros")).
			CreateInBatches(counts, countsAtATime).Error
		if err != nil {
			return err
		}
	}
	if notKept := notKeptRows(b.NotKept); len(notKept) > 0 {
		err := tx.Clauses(addOnConflict("gateway_not_kept", []string{"deployment", "start"}, "requests")).CreateInBatches(notKept, countsAtATime).Error
		if err != nil {
			return err
		}
	}
	if err := metering.Add(tx.Statement.Context, t.db.Beneath(tx), b.Meters); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	return tx.CreateInBatches(rows, requestsAtATime).Error
}

// addOnConflict returns a clause that adds the inserted values to existing rows.
func addOnConflict(table string, key []string, columns ...string) clause.OnConflict {
	conflict := clause.OnConflict{}
	for _, name := range key {
		conflict.Columns = append(conflict.Columns, clause.Column{Name: name})
	}
	for _, name := range columns {
		conflict.DoUpdates = append(conflict.DoUpdates, clause.Assignment{
			Column: clause.Column{Name: name}, Value: gorm.Expr(table + "." + name + " + excluded." + name),
		})
	}
	return conflict
}

// counts returns the rows to which calls are added. All writers keep the same order, so that two
// writers of the same rows don't deadlock.
func (t *Traffic) counts(tx *gorm.DB, calls map[CallKey]*Calls) ([]callRow, error) {
	sums := make(map[callRow]Calls, 3*len(calls)) // the keys have no counts
	for key, more := range calls {
		consumer, err := t.consumer(tx, key)
		if err != nil {
			return nil, err
		}
		for _, step := range []int{stepMinute, stepHour, stepDay} {
			start := key.Minute - key.Minute%int64(step)
			at := callRow{Deployment: key.Deployment, Step: step, Start: store.InstantOf(timeOf(start)), Consumer: consumer, Status: key.Status}
			sum := sums[at]
			sum.Calls += more.Calls
			sum.Micros += more.Micros
			sums[at] = sum
		}
	}
	rows := make([]callRow, 0, len(sums))
	for row, sum := range sums {
		row.Calls, row.Micros = sum.Calls, sum.Micros
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b callRow) int {
		return cmp.Or(cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Status, b.Status))
	})
	return rows, nil
}

func timeOf(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }

// consumer returns the consumer as which calls are counted: itself or, beyond the number of
// consumers that are counted separately on a day, ConsumerOther. Processes that meet new consumers
// at the same time may together exceed that number.
func (t *Traffic) consumer(tx *gorm.DB, key CallKey) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := deploymentDay{key.Deployment, key.Minute / stepDay}
	known, ok := t.consumers[at]
	if !ok {
		var there []string
		err := tx.Model(&callRow{}).Distinct().Where("deployment = ? AND step = ? AND start = ?", key.Deployment, stepDay, store.InstantOf(timeOf(at.day*stepDay))).
			Limit(t.most+1).Pluck("consumer", &there).Error
		if err != nil {
			return "", err
		}
		known = make(map[string]struct{}, len(there))
		for _, consumer := range there {
			known[consumer] = struct{}{}
		}
		for old := range t.consumers {
			if old.day < at.day-1 {
				delete(t.consumers, old)
			}
		}
		t.consumers[at] = known
	}
	if _, ok := known[key.Consumer]; ok {
		return key.Consumer, nil
	}
	if len(known) >= t.most {
		return domain.ConsumerOther, nil
	}
	known[key.Consumer] = struct{}{}
	return key.Consumer, nil
}

func notKeptRows(notKept map[DeploymentMinute]int64) []notKeptRow {
	rows := make([]notKeptRow, 0, len(notKept))
	for key, requests := range notKept {
		rows = append(rows, notKeptRow{Deployment: key.Deployment, Start: store.InstantOf(timeOf(key.Minute)), Requests: requests})
	}
	slices.SortFunc(rows, func(a, b notKeptRow) int {
		return cmp.Or(cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Start, b.Start))
	})
	return rows
}

// storedEntry is an entry as a row has it.
type storedEntry struct {
	At         int64           `json:"t"` // in microseconds
	Severity   domain.Severity `json:"s"`
	Source     string          `json:"o"`
	Message    string          `json:"m"`
	Attributes json.RawMessage `json:"a,omitzero"`
}

func rowOf(r *Request) requestRow {
	row := requestRow{
		Deployment: r.Deployment, At: store.InstantOf(r.At), ID: r.ID, RequestID: clean(r.RequestID), ClientRequestID: clean(r.ClientRequestID),
		BuildID: r.BuildID, Method: clean(r.Method), Host: clean(r.Host), Path: clean(r.Path), RoutePath: clean(r.RoutePath),
		Status: r.Status, Micros: r.Took.Microseconds(), Consumer: clean(r.Consumer), Severity: string(r.Severity), Network: r.Network,
		BytesIn: r.BytesIn, BytesOut: r.BytesOut, BackEndHost: clean(r.BackEnd.Host), BackEndStatus: r.BackEnd.Status,
		BackEndMicros: r.BackEnd.Took.Microseconds(), MCPMethod: clean(r.MCPMethod), MCPTool: clean(r.MCPTool),
		EntryCount: len(r.Entries) + 1, Truncated: r.Truncated,
	}
	if len(r.Entries) == 0 {
		return row
	}
	entries := make([]storedEntry, len(r.Entries))
	messages := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		messages[i] = clean(e.Message)
		entries[i] = storedEntry{At: e.At.UnixMicro(), Severity: e.Severity, Source: clean(e.Source), Message: messages[i], Attributes: e.Attributes}
	}
	row.Messages = strings.Join(messages, "\n")
	text, err := json.Marshal(entries)
	if err != nil {
		// The attributes are not valid JSON. The texts of the entries are in Messages.
		row.Truncated = true
		return row
	}
	row.Entries = clean(string(text))
	return row
}

// clean returns text in a form that both databases can store.
func clean(text string) string {
	if store.Storable(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
