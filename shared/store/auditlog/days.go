package auditlog

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The number of entries is kept by day, so that a list can show it without reading all entries. Entries that came
// since the last Purge are counted each time, and so are entries of days of which the list has only a part. In one
// snapshot both numbers are exact.

type dayRow struct {
	Account string     `gorm:"primaryKey"`
	Day     store.Date `gorm:"primaryKey"`
	Action  string     `gorm:"primaryKey"`
	Sub     string     `gorm:"primaryKey"`
	Success bool       `gorm:"primaryKey"`
	Entries int64
}

func (dayRow) TableName() string { return "audit_days" }

// total returns how many entries the filter selects.
func (f AuditFilter) total(tx *gorm.DB) (int64, error) {
	var first, last time.Time // the whole days from first on and before last
	if !f.Since.IsZero() {
		if first = domain.Day(f.Since); first.Before(f.Since) {
			first = first.AddDate(0, 0, 1)
		}
	}
	if !f.Until.IsZero() {
		last = domain.Day(f.Until)
	}
	if !last.IsZero() && !first.Before(last) {
		return count(f.narrow(tx.Model(&auditRow{})))
	}
	days := f.where(tx.Model(&dayRow{}), "%s")
	if !first.IsZero() {
		days = days.Where("day >= ?", store.DateOf(first))
	}
	if !last.IsZero() {
		days = days.Where("day < ?", store.DateOf(last))
	}
	var total int64
	if err := days.Select("coalesce(sum(entries), 0)").Scan(&total).Error; err != nil {
		return 0, fmt.Errorf("sum entries of days: %w", err)
	}
	// IS TRUE: the index of entries that are not counted yet has the fewest, whatever else the filter says.
	parts := []*gorm.DB{f.withinTimes(f.where(tx.Model(&auditRow{}).Where("NOT counted"), "(%s) IS TRUE"))}
	for _, edge := range []AuditFilter{{Since: f.Since, Until: first}, {Since: last, Until: f.Until}} {
		if edge.Since.Before(edge.Until) {
			parts = append(parts, edge.withinTimes(f.where(tx.Model(&auditRow{}).Where("counted"), "%s")))
		}
	}
	for _, part := range parts {
		n, err := count(part)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func count(query *gorm.DB) (n int64, err error) {
	if err := query.Count(&n).Error; err != nil {
		return 0, fmt.Errorf("count entries: %w", err)
	}
	return n, nil
}

// Purge removes the entries that are older than domain.AuditRetention, and counts the entries that came since the last Purge.
func (l *Log) Purge(ctx context.Context, now time.Time) error {
	floor := now.Add(-domain.AuditRetention)
	err := l.eachBatch(ctx, -1, `DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE at < ? ORDER BY at LIMIT ?)
		RETURNING account, at, action, sub, success, counted`, store.InstantOf(floor), store.BatchRows)
	if err != nil {
		return store.Wrap("purge audit log", err)
	}
	// The counts of days that are over are removed as a whole, because an earlier version removes
	// entries and leaves their counts.
	if _, err := l.db.Purge(ctx, "audit_days", "(account, day, action, sub, success)", "day < ?", store.DateOf(floor)); err != nil {
		return store.Wrap("purge counts of audit log", err)
	}
	err = l.eachBatch(ctx, 1, `UPDATE audit_log SET counted = ? WHERE id IN (SELECT id FROM audit_log WHERE NOT counted LIMIT ?) AND NOT counted
		RETURNING account, at, action, sub, success, counted`, true, store.BatchRows)
	return store.Wrap("count audit log", err)
}

// eachBatch repeats a statement until it returns less than a batch of entries. It adds the entries that are counted
// to the counts of their days, multiplied by times.
func (l *Log) eachBatch(ctx context.Context, times int64, statement string, args ...any) error {
	for {
		touched := 0
		err := l.db.Tx(ctx, func(tx *gorm.DB) error {
			var rows []auditRow
			if err := tx.Raw(statement, args...).Scan(&rows).Error; err != nil {
				return fmt.Errorf("take entries: %w", err)
			}
			touched = len(rows)
			return addToDays(tx, rows, times)
		})
		if err != nil || touched < store.BatchRows {
			return err
		}
	}
}

func addToDays(tx *gorm.DB, entries []auditRow, times int64) error {
	sums := map[dayRow]int64{} // the keys have no number of entries
	for i := range entries {
		if e := &entries[i]; e.Counted {
			sums[dayRow{Account: e.Account, Day: store.DateOf(e.At.Time()), Action: e.Action, Sub: e.Sub, Success: e.Success}] += times
		}
	}
	if len(sums) == 0 {
		return nil
	}
	rows := make([]dayRow, 0, len(sums))
	for row, n := range sums {
		row.Entries = n
		rows = append(rows, row)
	}
	key := []clause.Column{{Name: "account"}, {Name: "day"}, {Name: "action"}, {Name: "sub"}, {Name: "success"}}
	added := clause.OnConflict{Columns: key, DoUpdates: clause.Assignments(map[string]any{"entries": gorm.Expr("audit_days.entries + excluded.entries")})}
	if err := tx.Clauses(added).CreateInBatches(rows, auditBatch).Error; err != nil {
		return fmt.Errorf("count entries of days: %w", err)
	}
	return nil
}
