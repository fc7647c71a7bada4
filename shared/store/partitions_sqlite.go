package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// sortedDays returns the days of a set, the first one first.
func sortedDays(days map[time.Time]bool) []time.Time {
	return slices.SortedFunc(maps.Keys(days), time.Time.Compare)
}

// dropDays deletes the log of the days before floor from its old end, in small
// transactions, so that it never holds up the writer for long.
func (e *sqliteEngine) dropDays(ctx context.Context, floor time.Time) ([]time.Time, error) {
	seen := map[date]bool{}
	for _, table := range partitionedTables() {
		for {
			more, err := e.dropOldest(ctx, table, dateOf(floor), seen)
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
		days[day.time()] = true
	}
	return sortedDays(days), nil
}

// dropOldest looks at the rows that were inserted first, as there is no index by day,
// and deletes those of closed days. It tells whether there may be more.
func (e *sqliteEngine) dropOldest(ctx context.Context, table string, floor date, seen map[date]bool) (bool, error) {
	rows, err := e.reader.QueryContext(ctx, fmt.Sprintf(
		"SELECT rowid, day FROM %s ORDER BY rowid LIMIT %d", table, maintainBatch))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	looked, matched := 0, 0
	var last int64
	for rows.Next() {
		var id int64
		var day date
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
	_, err = e.writer.ExecContext(ctx, fmt.Sprintf("DELETE FROM %s WHERE rowid <= ? AND day < ?", table), last, int64(floor))
	return looked == maintainBatch, err
}
