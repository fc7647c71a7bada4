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

// dayLockTimeout bounds how long a process that makes or drops a partition may hold others up. A
// process that finds the lock taken tries again later.
const dayLockTimeout = "2s"

// prepareDays makes the partitions of the days that are not closed. A partition is made as a table
// of its own and then attached, so that it need not wait for readers and writers.
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

// lockedForDays runs f in a transaction. Only one such transaction at a time makes partitions, or
// drops tables that were partitions.
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

// addPartition makes the partition of table for the rows at or after from and before until.
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
			continue // not a partition that Waybill made
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
	// dropPatience is how long taking a partition out waits for transactions that use its table. No transaction waits
	// behind that. A transaction that uses the partition by its own name waits while an interrupted drop is finished.
	dropPatience = "10s"
)

// dropParts drops the partitions of a table with names that end with a mark and a time before floor, and returns their
// times. It uses a connection of its own and no transaction: a partition is first taken out of its table, which waits
// for the transactions that use the table and holds up none, and then dropped. If it was interrupted between the two,
// the next call goes on. If another process drops the same partitions at that time, there is nothing left to do.
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
			continue // not a partition that Waybill made, or one that is kept
		}
		if err := dropPart(ctx, conn, table, part); err != nil {
			return dropped, err
		}
		dropped = append(dropped, at)
	}
	return dropped, nil
}

// tablePart is a partition of a table, or a table that was one.
type tablePart struct {
	name    string
	pending *bool // nil: it was taken out; true: taking it out was interrupted
}

// partsOf returns the partitions of a table, and the tables that were taken out of it and are not dropped yet: they have
// names like partitions. Interrupted ones come first, because a table can have only one partition taken out at a time.
func partsOf(ctx context.Context, conn *pgxpool.Conn, table string) ([]tablePart, error) {
	rows, err := conn.Query(ctx, `SELECT c.relname, i.inhdetachpending FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = $1::text::regclass
		WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = $1::text::regclass)
			AND c.relname ~ ('^' || $1::text || '_[ph][0-9]+$')
		ORDER BY coalesce(i.inhdetachpending, false) DESC, c.relname`, table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p tablePart, err error) { return p, row.Scan(&p.name, &p.pending) })
}

func dropPart(ctx context.Context, conn *pgxpool.Conn, table string, p tablePart) error {
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
	// A process that makes partitions may have attached it again.
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
