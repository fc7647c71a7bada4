package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill.dev/shared/domain"
)

// dayLockTimeout bounds how long making a partition, or dropping what was one, may stand in the
// way of others; a process that finds the lock taken tries again later.
const dayLockTimeout = "2s"

// prepareDays makes the partitions of those days that are not closed. A partition is
// made on its own and then attached: that does not wait for readers and writers.
func (d *postgresDialect) prepareDays(ctx context.Context, days ...time.Time) error {
	return lockedForDays(ctx, d.pool, func(tx pgx.Tx) error {
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

// lockedForDays runs f in a transaction that alone makes partitions, or drops what were some.
func lockedForDays(ctx context.Context, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, f func(tx pgx.Tx) error,
) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
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

// dropDays drops the partitions of the days before floor, each table by itself.
func (d *postgresDialect) dropDays(ctx context.Context, floor time.Time) ([]time.Time, error) {
	old := map[time.Time]bool{}
	for _, table := range partitionedTables() {
		days, err := d.dropParts(ctx, table, "p", "20060102", floor)
		if err != nil {
			return nil, err
		}
		for _, day := range days {
			old[day] = true
		}
	}
	return sortedDays(old), nil
}

const (
	dropLock = 0x57617972 // "Wayr"
	// dropPatience is how long taking a partition out waits for transactions that use its table. Nobody waits behind
	// that. Who still uses the partition itself, by its name, waits while what was broken off is finished.
	dropPatience = "10s"
)

// dropParts drops the partitions of a table whose names end with a mark and a time before floor, and returns their
// times. It does so on a connection of its own and outside a transaction: a partition is taken out of its table first,
// which waits for the transactions that use the table and holds nobody up, and dropped then. What was broken off
// between the two goes on the next time. Another process that drops at the moment does the same; then there is
// nothing to do.
func (d *postgresDialect) dropParts(ctx context.Context, table, mark, form string, floor time.Time) (dropped []time.Time, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var alone bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(dropLock)).Scan(&alone); err != nil || !alone {
		return nil, err
	}
	defer func() {
		last := context.WithoutCancel(ctx)
		_, reset := conn.Exec(last, "RESET lock_timeout")
		_, unlock := conn.Exec(last, "SELECT pg_advisory_unlock($1)", int64(dropLock))
		err = errors.Join(err, reset, unlock)
	}()
	parts, err := partsOf(ctx, conn, table)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		at, err := time.Parse(form, strings.TrimPrefix(part.name, table+"_"+mark))
		if err != nil || !at.Before(floor) {
			continue // not one of ours, or kept
		}
		if err := dropPart(ctx, conn, table, part); err != nil {
			return dropped, err
		}
		dropped = append(dropped, at)
	}
	return dropped, nil
}

// part is a partition of a table, or what was one.
type part struct {
	name    string
	pending *bool // nil: it was taken out; true: that was broken off
}

// partsOf returns the partitions of a table, and the tables that were taken out of it and are not dropped yet: those that
// are called like partitions. What was broken off comes first, for one is taken out of a table at a time.
func partsOf(ctx context.Context, conn *pgxpool.Conn, table string) ([]part, error) {
	rows, err := conn.Query(ctx, `SELECT c.relname, i.inhdetachpending FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = $1::text::regclass
		WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = $1::text::regclass)
			AND c.relname ~ ('^' || $1::text || '_[ph][0-9]+$')
		ORDER BY coalesce(i.inhdetachpending, false) DESC, c.relname`, table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) { return p, row.Scan(&p.name, &p.pending) })
}

func dropPart(ctx context.Context, conn *pgxpool.Conn, table string, p part) error {
	if p.pending != nil {
		how, patience := "CONCURRENTLY", dropPatience
		if *p.pending {
			how, patience = "FINALIZE", dayLockTimeout
		}
		for _, statement := range []string{"SET lock_timeout = '" + patience + "'", fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s %s", table, p.name, how)} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("take out partition: %w", err)
			}
		}
	}
	// A process that makes partitions may have put it back.
	return lockedForDays(ctx, conn, func(tx pgx.Tx) error {
		var back bool
		err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass($1::text))", p.name).Scan(&back)
		if err != nil || back {
			return err
		}
		_, err = tx.Exec(ctx, "DROP TABLE IF EXISTS "+p.name)
		return err
	})
}
