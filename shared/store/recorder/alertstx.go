package recorder

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// alertsTx is a transaction of either database, for the few statements that alerts need.
type alertsTx interface {
	exec(ctx context.Context, query string, args ...any) (rows int64, err error)
	query(ctx context.Context, query string, each func(scanner) error, args ...any) error
	// in is the condition on a text column to be among the first parameter, made by list.
	in() string
	list(texts []string) any
	moment(t time.Time) any
	date(t time.Time) any
	// xact is the number of the commit among those that add events.
	xact() string
}

// scanner reads the columns of a row.
type scanner func(into ...any) error

// rows are those of either database.
type rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

func eachRow(rows rows, each func(scanner) error) error {
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// pgxAlerts is one of Postgres.
type pgxAlerts struct{ tx pgx.Tx }

func (p pgxAlerts) exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := p.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (p pgxAlerts) query(ctx context.Context, query string, each func(scanner) error, args ...any) error {
	rows, err := p.tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return eachRow(rows, each)
}

func (pgxAlerts) in() string              { return "= ANY($1)" }
func (pgxAlerts) list(texts []string) any { return texts }
func (pgxAlerts) moment(t time.Time) any  { return orNull(t) }
func (pgxAlerts) date(t time.Time) any    { return domain.Day(t) }
func (pgxAlerts) xact() string            { return "DEFAULT" }

// sqliteAlerts is one of SQLite.
type sqliteAlerts struct {
	db *store.Store
	c  store.Conn
}

func (s sqliteAlerts) exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := s.c.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqliteAlerts) query(ctx context.Context, query string, each func(scanner) error, args ...any) error {
	rows, err := s.c.QueryContext(ctx, query, args...) //nolint:rowserrcheck // eachRow does
	if err != nil {
		return err
	}
	defer rows.Close()
	return eachRow(rows, each)
}

func (sqliteAlerts) in() string { return "IN (SELECT value FROM json_each($1))" }

func (sqliteAlerts) list(texts []string) any {
	text, _ := json.Marshal(texts) // texts can't fail
	return string(text)
}

func (s sqliteAlerts) moment(t time.Time) any { return s.db.Moment(t) }
func (s sqliteAlerts) date(t time.Time) any   { return s.db.Date(t) }
func (sqliteAlerts) xact() string             { return "(SELECT xact FROM feed_order WHERE id = 1)" }
