package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"waybill.dev/shared/domain"
)

// The log is kept by day: on Postgres the rows of a day are partitions, which are dropped as a whole.

// partitionedTables returns the tables of the log. They have a column day, and the migrations
// partition them by it.
func partitionedTables() []string { return []string{"events", "deliveries", "attempts"} }

// Partitions are made from daysBehind days ago, which is how far acceptance looks for repeats, to
// DaysAhead days ahead. Older partitions are made when a record needs them.
const (
	daysBehind = 1
	DaysAhead  = 3
)

// Partition returns the name of the partition of table for a day, on Postgres. A statement that
// uses this name plans, locks and routes for one table instead of all of them.
func Partition(table string, day time.Time) string {
	return fmt.Sprintf("%s_p%s", table, day.UTC().Format("20060102"))
}

// logFloorRow has the floor: the first day that is not closed.
type logFloorRow struct {
	ID  int `gorm:"primaryKey;autoIncrement:false"`
	Day Date
}

func (logFloorRow) TableName() string { return "log_floor" }

// Floor returns the first day that is not closed.
func (s *Store) Floor(ctx context.Context) (Date, error) {
	var floor Date
	err := s.raw.QueryRowContext(ctx, "SELECT day FROM log_floor WHERE id = 1").Scan(&floor)
	return floor, err
}

// RaiseFloor closes the days before floor: records for these days are only counted from now on.
func (s *Store) RaiseFloor(ctx context.Context, floor time.Time) error {
	return s.Again(ctx, func() error {
		return s.Writing(ctx).Model(&logFloorRow{}).Where("id = 1 AND day < ?", DateOf(floor)).
			UpdateColumn("day", DateOf(floor)).Error
	})
}

// PrepareDays makes room for the rows of days, if these are not closed.
func (s *Store) PrepareDays(ctx context.Context, days ...time.Time) error {
	return s.dialect.prepareDays(ctx, days...)
}

// DropDays removes the log of every day before floor and returns these days, the earliest first.
func (s *Store) DropDays(ctx context.Context, floor time.Time) ([]time.Time, error) {
	return s.dialect.dropDays(ctx, floor)
}

// DaysAround lists the days that should have partitions at now.
func DaysAround(now time.Time) []time.Time {
	days := make([]time.Time, 0, daysBehind+DaysAhead+1)
	for i := -daysBehind; i <= DaysAhead; i++ {
		days = append(days, domain.Day(now).AddDate(0, 0, i))
	}
	return days
}

// sortedDays returns the days of a set, the earliest first.
func sortedDays(days map[time.Time]bool) []time.Time {
	return slices.SortedFunc(maps.Keys(days), time.Time.Compare)
}
