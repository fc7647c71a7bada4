package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill.dev/shared/domain"
)

// dayLockTimeout bounds how long making or dropping a partition may stand in the way of
// others; who runs into it tries again later.
const dayLockTimeout = "2s"

// prepareDays makes the partitions of those days that are not closed. A partition is
// made on its own and then attached: that does not wait for readers and writers.
func (d *postgresDialect) prepareDays(ctx context.Context, days ...time.Time) error {
	return d.lockedForDays(ctx, func(tx pgx.Tx) error {
		var floor time.Time
		if err := tx.QueryRow(ctx, "SELECT day FROM log_floor WHERE id = 1").Scan(&floor); err != nil {
			return err
		}
		existing, err := partitionDays(ctx, tx)
		if err != nil {
			return err
		}
		for _, day := range days {
			day = domain.Day(day)
			if existing[day] || day.Before(floor) {
				continue
			}
			existing[day] = true
			for _, table := range partitionedTables() {
				if err := addPartition(ctx, tx, table, Partition(table, day), day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)); err != nil {
					return fmt.Errorf("add partition: %w", err)
				}
			}
		}
		return nil
	})
}

// lockedForDays runs f in a transaction that alone makes and drops partitions.
func (d *postgresDialect) lockedForDays(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+dayLockTimeout+"'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(dayLock)); err != nil {
			return err
		}
		return f(tx)
	})
}

// addPartition makes the partition of table for what is not before from and is before until.
func addPartition(ctx context.Context, tx pgx.Tx, table, name, from, until string) error {
	_, err := tx.Exec(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (LIKE %s INCLUDING ALL)", name, table))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", table, name, from, until))
	return err
}

// partitionDays returns the days that have partitions.
func partitionDays(ctx context.Context, tx pgx.Tx) (map[time.Time]bool, error) {
	rows, err := tx.Query(ctx, `SELECT child.relname FROM pg_inherits
		JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = 'attempts'::regclass`)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	days := make(map[time.Time]bool, len(names))
	for _, name := range names {
		day, err := time.Parse("20060102", strings.TrimPrefix(name, "attempts_p"))
		if err != nil {
			continue // not one of ours
		}
		days[day] = true
	}
	return days, nil
}

// dropDays drops the partitions of the days before floor, each day in a transaction.
func (d *postgresDialect) dropDays(ctx context.Context, floor time.Time) ([]time.Time, error) {
	var days map[time.Time]bool
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) (err error) {
		days, err = partitionDays(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var dropped []time.Time
	for _, day := range sortedDays(days) {
		if !day.Before(floor) {
			break
		}
		if err := d.dropDay(ctx, day); err != nil {
			return dropped, err
		}
		dropped = append(dropped, day)
	}
	return dropped, nil
}

func (d *postgresDialect) dropDay(ctx context.Context, day time.Time) error {
	return d.lockedForDays(ctx, func(tx pgx.Tx) error {
		for _, table := range partitionedTables() {
			if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+Partition(table, day)); err != nil {
				return err
			}
		}
		return nil
	})
}
