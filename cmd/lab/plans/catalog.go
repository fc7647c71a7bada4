package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Postgres takes the rows of a table to be as dense in its file as the catalog says, and asks the file
// for its length. So a large table is one whose file was made longer without writing to it, and whose
// statistics say what ANALYZE would.

const (
	pageBytes = 8192
	rowBytes  = 400
	keyBytes  = 50
	// A table is never longer than the largest file that Postgres makes for one: more pages are in
	// further files. Its rows are denser then.
	mostPages = 1<<30/pageBytes - 1
)

const postgresRelations = `SELECT c.oid, c.relname, c.relkind, coalesce(pg_relation_filepath(c.oid), ''), coalesce(t.relname, c.relname),
	coalesce((SELECT string_agg(pg_get_indexdef(c.oid, n, true), ',' ORDER BY n) FROM generate_series(1, i.indnkeyatts) n), ''),
	coalesce(i.indisunique, false), coalesce(h.inhparent::regclass::text, c.relname), (SELECT count(*) FROM pg_inherits WHERE inhparent = h.inhparent),
	i.indpred IS NOT NULL
	FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid LEFT JOIN pg_inherits h ON h.inhrelid = c.oid
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'i', 'I')`

// enlarge makes all tables and indexes look large, and returns the indexes by name.
func enlarge(ctx context.Context, db *sql.DB, data string) (map[string]tree, error) {
	relations, err := texts(ctx, db, postgresRelations)
	if err != nil {
		return nil, err
	}
	indexes := map[string]tree{}
	for _, r := range relations {
		oid, kind, path, table := r[0], r[2], r[3], tableOf(r[4])
		partitioned, index := kind == "p" || kind == "I", kind == "i" || kind == "I"
		n, bytes := indexedRows(table, r[9] == "true"), rowBytes
		if siblings := number(r[8]); siblings > 0 {
			n /= float64(siblings)
		}
		if index {
			bytes = keyBytes
			indexes[r[1]] = tree{name: r[7], table: table, key: strings.Split(r[5], ","), unique: r[6] == "true"}
		}
		pages := min(int(n)*bytes/pageBytes+1, mostPages)
		if !partitioned {
			if err := lengthen(filepath.Join(data, path), int64(pages*pageBytes)); err != nil {
				return nil, err
			}
		}
		if _, err := db.ExecContext(ctx, "UPDATE pg_class SET reltuples = $1, relpages = $2 WHERE oid = $3", n, pages, oid); err != nil {
			return nil, err
		}
		if !index {
			if err := describe(ctx, db, oid, table, partitioned, n); err != nil {
				return nil, fmt.Errorf("statistics of %s: %w", r[1], err)
			}
		}
	}
	return indexes, nil
}

// lengthen makes a file at least so long. What is added takes no space.
func lengthen(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() >= size {
		return err
	}
	return os.Truncate(path, size)
}

// describe writes how many values each column of a table has, and what nearly all rows have. A column
// that may be NULL is so in most rows.
func describe(ctx context.Context, db *sql.DB, oid, table string, partitioned bool, n float64) error {
	columns, err := texts(ctx, db, `SELECT attnum, attname, attnotnull, format_type(atttypid, NULL), attcollation
		FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = $1`, oid)
	if err != nil {
		return err
	}
	for _, c := range columns {
		number, name, kind, collation := c[0], c[1], c[3], c[4]
		distinct, nulls := values(name, n), 0.0
		if distinct == n {
			distinct = -1 // another one in each row
		}
		if c[2] != "true" {
			nulls = 0.9
		}
		most := "0, 0, 0, NULL, NULL"
		if value, ok := usual[table+"."+name]; ok {
			most = fmt.Sprintf("1, '=(%[1]s,%[1]s)'::regoperator, %[2]s, '{0.99}', array_in('{%[3]s}', '%[1]s'::regtype, -1)", kind, collation, value)
		}
		if _, err := db.ExecContext(ctx, `INSERT INTO pg_statistic (starelid, staattnum, stainherit, stanullfrac, stawidth, stadistinct,
			stakind1, staop1, stacoll1, stanumbers1, stavalues1, stakind2, stakind3, stakind4, stakind5, staop2, staop3, staop4, staop5,
			stacoll2, stacoll3, stacoll4, stacoll5) VALUES ($1, $2, $3, $4, 16, $5, `+most+`, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)`,
			oid, number, partitioned, nulls, distinct); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// tableOf returns the table that a partition is of.
func tableOf(name string) string { return partition.ReplaceAllString(name, "") }
