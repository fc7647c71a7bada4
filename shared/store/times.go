package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// instant is a time in a row: Unix microseconds, a timestamptz in Postgres and an
// integer in SQLite; 0 is NULL and the zero time.
type instant int64 //nolint:recvcheck // Scan alone changes it

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixMicro())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(i)).UTC()
}

// Scan takes what either database gives.
func (i *instant) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*i = 0
	case int64:
		*i = instant(v)
	case time.Time:
		*i = instantOf(v)
	default:
		return fmt.Errorf("a time can't be read from %T", value)
	}
	return nil
}

// GormValue writes the instant as the database at hand wants it.
func (i instant) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	switch {
	case i == 0:
		return clause.Expr{SQL: "NULL"}
	case db.Name() == sqliteName:
		return clause.Expr{SQL: "?", Vars: []any{int64(i)}}
	}
	return clause.Expr{SQL: "?", Vars: []any{i.time()}}
}

// GormDataType names the kind of column.
func (instant) GormDataType() string { return string(schema.Time) }

// date is a UTC day in a row: days since 1970, a date in Postgres and an integer in
// SQLite.
type date int32 //nolint:recvcheck // Scan alone changes it

const secondsPerDay = 24 * 60 * 60

func dateOf(t time.Time) date {
	seconds := t.Unix()
	if seconds < 0 {
		seconds -= secondsPerDay - 1
	}
	return date(seconds / secondsPerDay)
}

func (d date) time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// Scan takes what either database gives.
func (d *date) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*d = date(v)
	case time.Time:
		*d = dateOf(v)
	default:
		return fmt.Errorf("a day can't be read from %T", value)
	}
	return nil
}

// GormValue writes the day as the database at hand wants it.
func (d date) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	if db.Name() == sqliteName {
		return clause.Expr{SQL: "?", Vars: []any{int64(d)}}
	}
	return clause.Expr{SQL: "?", Vars: []any{d.time()}}
}

// GormDataType names the kind of column.
func (date) GormDataType() string { return string(schema.Time) }
