package metering

import (
	"context"
	"strconv"
	"strings"
	"time"

	"waybill.dev/shared/store"
)

// Conn is a connection or a transaction of either database, beneath any driver. Parameters are $1,
// $2 and so on.
type Conn interface {
	Exec(ctx context.Context, query string, args ...any) error
	// Query calls each for every row. Scan reads its columns.
	Query(ctx context.Context, query string, each func(scan func(into ...any) error) error, args ...any) error
	// Moment is a time as the database has it.
	Moment(at time.Time) any
	// Share is what a query ends with so that a row of a table doesn't change before the
	// transaction ends; empty: nobody else changes rows meanwhile.
	Share(table string) string
}

// raw is a Conn beneath gorm.
type raw struct {
	db   *store.Store
	conn store.Conn
}

// Exec implements Conn.
func (r raw) Exec(ctx context.Context, query string, args ...any) error {
	_, err := r.conn.ExecContext(ctx, query, args...)
	return err
}

// Query implements Conn.
func (r raw) Query(ctx context.Context, query string, each func(func(...any) error) error, args ...any) error {
	rows, err := r.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Moment implements Conn.
func (r raw) Moment(at time.Time) any { return r.db.Moment(at) }

// Share implements Conn. What reads by this connection locks by gorm.
func (raw) Share(string) string { return "" }

// marks returns the marks of n parameters, from the first on.
func marks(first, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "$" + strconv.Itoa(first+i)
	}
	return strings.Join(list, ", ")
}

func args[T any](texts []T, more ...any) []any {
	list := make([]any, 0, len(texts)+len(more))
	for _, text := range texts {
		list = append(list, text)
	}
	return append(list, more...)
}
