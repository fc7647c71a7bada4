package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// hourForm is the time in the name of an hour's partition, after the table's name and _h.
const hourForm = "2006010215"

// PrepareHours makes the partitions of a table for hours, on Postgres. On SQLite it does nothing.
func (s *Store) PrepareHours(ctx context.Context, table string, hours ...time.Time) error {
	d, ok := s.dialect.(*postgresDialect)
	if !ok {
		return nil
	}
	err := lockedForDays(ctx, d.pool, func(tx pgx.Tx) error {
		existing, err := hourPartitions(ctx, tx, table)
		if err != nil {
			return err
		}
		for _, hour := range hours {
			hour = hour.UTC().Truncate(time.Hour)
			name := table + "_h" + hour.Format(hourForm)
			if existing[name] {
				continue
			}
			existing[name] = true
			if err := addPartition(ctx, tx, table, name, hour.Format(time.RFC3339), hour.Add(time.Hour).Format(time.RFC3339)); err != nil {
				return fmt.Errorf("add partition: %w", err)
			}
		}
		return nil
	})
	return Wrap("prepare hours of "+table, err)
}

// DropHours removes the rows of a table for hours that ended before floor. On Postgres it drops
// partitions; on SQLite it deletes rows by their column at, in small transactions.
func (s *Store) DropHours(ctx context.Context, table, key string, floor time.Time) error {
	floor = floor.UTC().Truncate(time.Hour)
	d, ok := s.dialect.(*postgresDialect)
	if !ok {
		_, err := s.Purge(ctx, table, key, "at < ?", InstantOf(floor))
		return Wrap("drop hours of "+table, err)
	}
	_, err := d.dropParts(ctx, table, "h", hourForm, floor)
	return Wrap("drop hours of "+table, err)
}

func hourPartitions(ctx context.Context, tx pgx.Tx, table string) (map[string]bool, error) {
	rows, err := tx.Query(ctx, `SELECT child.relname FROM pg_inherits
		JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = $1::text::regclass`, table)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	existing := make(map[string]bool, len(names))
	for _, name := range names {
		existing[name] = true
	}
	return existing, err
}
