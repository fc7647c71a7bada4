package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
)

// postgresPlanner plans on empty tables that look large.
type postgresPlanner struct {
	conn    *sql.Conn
	indexes map[string]tree
	n       int // of statements that were prepared
}

// openPostgres starts a server, whose tables it enlarges. Close ends it.
func openPostgres(ctx context.Context) (_ *postgresPlanner, end func() error, err error) {
	cluster, err := pgtest.Start(ctx, "", "fsync=off", "autovacuum=off")
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(ctx, store.Options{URL: cluster.URL("postgres"), Now: func() time.Time { return today }})
	if err != nil {
		return nil, nil, errors.Join(err, cluster.Stop())
	}
	p := &postgresPlanner{}
	if err := p.load(ctx, s, filepath.Join(cluster.Dir(), "data")); err != nil {
		return nil, nil, errors.Join(err, s.Close(), cluster.Stop())
	}
	return p, func() error { return errors.Join(p.conn.Close(), s.Close(), cluster.Stop()) }, nil
}

func (p *postgresPlanner) load(ctx context.Context, s *store.Store, data string) error {
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	var days, hours []time.Time
	for i := range keptDays {
		days, hours = append(days, today.AddDate(0, 0, -i)), append(hours, today.Add(-time.Duration(i)*time.Hour))
	}
	if err := errors.Join(s.PrepareDays(ctx, days...), s.PrepareHours(ctx, "gateway_requests", hours...)); err != nil {
		return err
	}
	db, _ := s.Handles()
	var err error
	if p.indexes, err = enlarge(ctx, db, data); err != nil {
		return err
	}
	if p.conn, err = db.Conn(ctx); err != nil {
		return err
	}
	// The product's statements stay prepared, and after five runs Postgres plans one without its
	// values, if that looks no dearer.
	_, err = p.conn.ExecContext(ctx, "SET plan_cache_mode = force_generic_plan")
	return err
}

func (p *postgresPlanner) plan(ctx context.Context, text string) ([]access, string, error) {
	p.n++
	name := "s" + strconv.Itoa(p.n)
	if _, err := p.conn.ExecContext(ctx, "PREPARE "+name+" AS "+text); err != nil {
		return nil, "", err
	}
	kinds, err := texts(ctx, p.conn, "SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = $1", name)
	if err != nil {
		return nil, "", err
	}
	execute := name
	if len(kinds) > 0 {
		list := make([]string, len(kinds))
		for i, kind := range kinds {
			list[i] = value(kind[0])
		}
		execute += "(" + strings.Join(list, ", ") + ")"
	}
	explained, err := texts(ctx, p.conn, "EXPLAIN (FORMAT JSON) EXECUTE "+execute)
	if err != nil {
		return nil, "", err
	}
	var plans []struct {
		Plan node `json:"Plan"`
	}
	if err := json.Unmarshal([]byte(explained[0][0]), &plans); err != nil {
		return nil, "", err
	}
	lines, err := texts(ctx, p.conn, "EXPLAIN (COSTS off) EXECUTE "+execute)
	if err != nil {
		return nil, "", err
	}
	var accesses []access
	if err := p.walk(&plans[0].Plan, false, &accesses); err != nil {
		return nil, "", err
	}
	return accesses, tableOf(strings.Join(slices.Concat(lines...), "\n")), nil
}

// value returns a value for a parameter. Days are today, so that the partition of today is in the plan.
func value(kind string) string {
	switch kind {
	case "date", "timestamp with time zone":
		return "'" + today.Format(time.RFC3339) + "'"
	case "date[]":
		return "'{" + today.Format(time.DateOnly) + "}'"
	default:
		return "NULL"
	}
}

// node is a step of a plan.
type node struct {
	Type   string `json:"Node Type"`
	Table  string `json:"Relation Name"`
	Index  string `json:"Index Name"`
	Cond   string `json:"Index Cond"`
	Filter string `json:"Filter"`
	Join   string `json:"Join Filter"`
	Parent string `json:"Parent Relationship"`
	Plans  []node `json:"Plans"`
}

// walk collects what a plan reads. Bounded: a LIMIT ends it, and each row that it reads counts.
func (p *postgresPlanner) walk(n *node, bounded bool, accesses *[]access) error {
	bounded = bounded && n.Join == "" && passesNone(n.Filter)
	switch n.Type {
	case "Limit":
		bounded = true
	case "Seq Scan":
		if !strings.HasPrefix(n.Table, "pg_") {
			table := tableOf(n.Table)
			*accesses = append(*accesses, access{table: table, bounded: bounded, text: n.says(table)})
		}
	case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
		if index, ok := p.indexes[n.Index]; ok { // else it is of the catalog
			a := access{table: index.table, index: index.name, first: index.key[0], search: n.Cond != "", text: n.says(index.name)}
			a.bounded = bounded && n.Type != "Bitmap Index Scan"
			if index.unique {
				a.unique = index.key
			}
			a.equal, a.ranged = compared(n.Cond)
			*accesses = append(*accesses, a)
		}
	case "Append", "LockRows", "Memoize", "Merge Append", "Nested Loop", "ProjectSet", "Result", "Subquery Scan":
	case "Bitmap Heap Scan", "ModifyTable", "Tid Scan":
		bounded = false
	default:
		if n.Table != "" {
			return errors.New(notUnderstood + ": " + n.Type)
		}
		bounded = false
	}
	for i := range n.Plans {
		child := &n.Plans[i]
		if err := p.walk(child, bounded && child.Parent != "SubPlan" && child.Parent != "InitPlan", accesses); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) says(of string) string {
	text := n.Type + " of " + of
	if n.Cond != "" {
		text += ", condition " + n.Cond
	}
	if n.Filter != "" {
		text += ", filter " + n.Filter
	}
	return text
}

var (
	ofDay     = regexp.MustCompile(`\(day [<>=]+ [^()]+\)|AND|[() ]`)
	condition = regexp.MustCompile(`(?:ROW\(([^()]*)\)|\(?(\w+)\)?(?:::\w+)?) (=|<=|>=|<|>|IS NOT NULL|IS NULL)`)
)

// passesNone reports whether a filter passes over no rows but those that are not inOrder.
func passesNone(filter string) bool { return ofDay.ReplaceAllString(filter, "") == "" }

// compared returns the columns that an index condition compares with one value or several, and those
// that it bounds.
func compared(text string) (equal, ranged []string) {
	for _, m := range condition.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "":
			ranged = append(ranged, strings.Split(m[1], ", ")...)
		case m[3] == "=" || m[3] == "IS NULL":
			equal = append(equal, m[2])
		default:
			ranged = append(ranged, m[2])
		}
	}
	return equal, ranged
}
