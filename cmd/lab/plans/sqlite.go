package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"waybill.dev/shared/store"
)

// sqlitePlanner plans on an empty file.
type sqlitePlanner struct {
	db    *sql.DB
	trees map[string]tree // by name: tables and indexes
	roots map[string]string
}

// tree is a table or an index.
type tree struct {
	name, table string
	key         []string // the columns that it is in the order of; none: rowids
	unique      bool     // each key is there once
	layout      []string // the columns as they lie in it
	partial     bool     // it has the rows that its condition is for
}

// openSQLite makes a file and migrates it. With statistics, it has those of a large one, as after an
// ANALYZE. Waybill does not run that: without is what it plans by.
func openSQLite(ctx context.Context, path string, statistics bool) (*sqlitePlanner, func() error, error) {
	s, err := store.Open(ctx, store.Options{URL: "sqlite:" + path})
	if err != nil {
		return nil, nil, err
	}
	db, _ := s.Handles()
	p := &sqlitePlanner{db: db}
	_, err = s.Migrate(ctx)
	if err == nil {
		err = p.load(ctx)
	}
	if err == nil && statistics {
		err = p.enlarge(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return p, s.Close, nil
}

const sqliteTrees = `SELECT m.type, m.name, tbl_name, rootpage, '',
	(SELECT group_concat(coalesce(name, '')) FROM (SELECT name FROM pragma_index_info(m.name) ORDER BY seqno)),
	l."unique", l.partial FROM sqlite_master m JOIN pragma_index_list(m.tbl_name) l ON l.name = m.name WHERE type = 'index'
UNION ALL SELECT type, name, tbl_name, rootpage, (SELECT group_concat(name) FROM pragma_table_info(m.name)),
	(SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info(m.name) WHERE pk > 0 ORDER BY pk)),
	sql LIKE '%WITHOUT ROWID%', 0 FROM sqlite_master m WHERE type = 'table'`

// load reads the schema.
func (p *sqlitePlanner) load(ctx context.Context) error {
	p.trees, p.roots = map[string]tree{}, map[string]string{}
	found, err := texts(ctx, p.db, sqliteTrees)
	if err != nil {
		return err
	}
	for _, row := range found {
		t := tree{name: row[1], table: row[2], key: strings.Split(row[5], ","), unique: row[6] == "1", partial: row[7] == "1"}
		t.layout = t.key
		if row[0] == "table" && !t.unique {
			t.key, t.layout = nil, strings.Split(row[4], ",")
		}
		p.trees[t.name], p.roots[row[3]] = t, t.name
	}
	return nil
}

// enlarge writes how many rows each index has, and how many of them on average have the same first
// column, the same first two, and so on.
func (p *sqlitePlanner) enlarge(ctx context.Context) error {
	if _, err := p.db.ExecContext(ctx, "ANALYZE"); err != nil { // makes the table
		return err
	}
	for _, t := range p.trees {
		if t.key == nil {
			continue
		}
		n, together := indexedRows(t.table, t.partial), 1.0
		counts := []string{strconv.Itoa(int(n))}
		for _, column := range t.key {
			together = math.Min(together*values(column, n), n)
			counts = append(counts, strconv.Itoa(int(n/together)))
		}
		if _, err := p.db.ExecContext(ctx, "INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", t.table, t.name, strings.Join(counts, " ")); err != nil {
			return err
		}
	}
	_, err := p.db.ExecContext(ctx, "ANALYZE sqlite_master") // reads it
	return err
}

func (p *sqlitePlanner) plan(ctx context.Context, text string) ([]access, string, error) {
	nothing := make([]any, strings.Count(text, "?")) // the driver wants a value for each parameter
	lines, err := texts(ctx, p.db, "EXPLAIN QUERY PLAN "+text, nothing...)
	if err != nil {
		return nil, "", err
	}
	program, err := texts(ctx, p.db, "EXPLAIN "+text, nothing...)
	if err != nil {
		return nil, "", err
	}
	whole, bounded := p.loops(program)
	var accesses []access
	var plan []string
	for _, line := range lines {
		plan = append(plan, line[3])
		a, ok, err := p.access(text, line[3])
		if err != nil {
			return nil, "", err
		}
		read := a.table
		if a.index != "" {
			read = a.index
		}
		if !ok || !a.search && !whole[read] { // what a query returned has an alias that a table has, too
			continue
		}
		a.bounded = a.bounded || bounded[read]
		accesses = append(accesses, a)
	}
	return accesses, strings.Join(plan, "\n"), nil
}

var (
	step = regexp.MustCompile(`^(SCAN|SEARCH) (\S+)(?: EXISTS)?(?: USING (AUTOMATIC )?(?:PARTIAL )?(?:COVERING )?(INDEX \S+|INTEGER PRIMARY KEY|PRIMARY KEY|ROWID SEARCH ON TABLE.*))?(?: \((.*)\))?(?: (?:LEFT|RIGHT|FULL)-JOIN)?$`)
	// Neither a table nor an index of one.
	elsewhere  = regexp.MustCompile(`^SCAN .*(CONSTANT ROWS?$|VIRTUAL TABLE INDEX )`)
	comparison = regexp.MustCompile(`ANY\(\w+\)|\(?([\w,<>]+)\)?(=|<|>| IS )\S*(?: AND |$)`)
)

// access reads a line of a plan; false: it tells nothing of a table.
func (p *sqlitePlanner) access(text, line string) (access, bool, error) {
	if !strings.HasPrefix(line, "SCAN ") && !strings.HasPrefix(line, "SEARCH ") || elsewhere.MatchString(line) {
		return access{}, false, nil
	}
	m := step.FindStringSubmatch(line)
	if m == nil {
		return access{}, false, fmt.Errorf("%s: %s", notUnderstood, line)
	}
	index, hasIndex := strings.CutPrefix(m[4], "INDEX ")
	a := access{text: line, search: m[1] == "SEARCH", temporary: m[3] != "", table: p.table(text, m[2])}
	t := p.trees[a.table]
	if hasIndex && !a.temporary {
		a.index, t = index, p.trees[index]
		a.table = t.table
	}
	switch {
	case a.table == "":
		return access{}, false, nil
	case t.key == nil:
		a.first, a.unique = "rowid", []string{"rowid"}
	default:
		a.first = t.key[0]
		if t.unique {
			a.unique = t.key
		}
	}
	a.bounded = a.search && m[5] == "" // the least or the greatest
	for _, c := range comparison.FindAllStringSubmatch(m[5], -1) {
		switch {
		case c[1] == "": // ANY: all values of a column, one after the other
		case c[2] == "=" || c[2] == " IS ":
			a.equal = append(a.equal, c[1])
		default:
			a.ranged = append(a.ranged, strings.Split(c[1], ",")...)
		}
	}
	return a, true, nil
}

// table returns the table that a plan calls so; empty: it is what a query returned.
func (p *sqlitePlanner) table(text, name string) string {
	if p.trees[name].table == name {
		return name
	}
	alias := regexp.MustCompile("(?i)[`\"]?(\\w+)[`\"]?(?: AS)? [`\"]?" + regexp.QuoteMeta(name) + "[`\"]?(?:\\W|$)")
	for _, m := range alias.FindAllStringSubmatch(text, -1) {
		if p.trees[m[1]].table == m[1] {
			return m[1]
		}
	}
	return ""
}

// texts returns the rows of a query.
func texts(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, args ...any) ([][]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list [][]string
	for rows.Next() {
		values, into, row := make([]sql.NullString, len(columns)), make([]any, len(columns)), make([]string, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, v := range values {
			row[i] = v.String
		}
		list = append(list, row)
	}
	return list, rows.Err()
}
