package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// dropDays deletes the log of the days before floor, from the oldest rows on, in small
// transactions, so that it never holds up the writer for long.
func (d *sqliteDialect) dropDays(ctx context.Context, floor time.Time) ([]time.Time, error) {
	seen := map[Date]bool{}
	for _, table := range partitionedTables() {
		for p := turnBatches(); ; {
			more, err := d.dropOldest(ctx, table, DateOf(floor), seen, &p)
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
		}
	}
	days := map[time.Time]bool{}
	for day := range seen {
		days[day.Time()] = true
	}
	return sortedDays(days), nil
}

// dropOldest checks the rows that were inserted first, because there is no index by day, and deletes those
// of closed days. It reports whether there may be more. Rows that were inserted one after the other are
// close together, in the table and in the indexes by account and id.
func (d *sqliteDialect) dropOldest(ctx context.Context, table string, floor Date, seen map[Date]bool, p *batchSizer) (bool, error) {
	rows, err := d.reader.QueryContext(ctx, fmt.Sprintf(
		"SELECT rowid, day FROM %s ORDER BY rowid LIMIT %d", table, p.rows))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	looked, matched := 0, 0
	var last int64
	for rows.Next() {
		var id int64
		var day Date
		if err := rows.Scan(&id, &day); err != nil {
			return false, err
		}
		looked++
		if day < floor {
			seen[day] = true
			matched, last = matched+1, id
		}
	}
	if err := rows.Err(); err != nil || matched == 0 {
		return false, err
	}
	writer, err := d.writer.Conn(ctx)
	if err != nil {
		return false, err
	}
	began := time.Now()
	_, err = writer.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE rowid <= ? AND day < ?", table), last, int64(floor))
	took := time.Since(began)
	if err := errors.Join(err, writer.Close()); err != nil || looked < p.rows {
		return false, err
	}
	return true, p.next(ctx, took)
}
