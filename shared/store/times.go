package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// Instant is a time in a row: Unix microseconds, a timestamptz in Postgres and an
// integer in SQLite; 0 is NULL and the zero time.
type Instant int64 //nolint:recvcheck // Scan alone changes it

// InstantOf returns t as an Instant, cut to microseconds.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixMicro())
}

// Time returns the Instant in UTC.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(i)).UTC()
}

// Scan reads the value that either database returns.
func (i *Instant) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*i = 0
	case int64:
		*i = Instant(v)
	case time.Time:
		*i = InstantOf(v)
	default:
		return fmt.Errorf("a time can't be read from %T", value)
	}
	return nil
}

// GormValue returns the Instant in the form that the database needs.
func (i Instant) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	switch {
	case i == 0:
		return clause.Expr{SQL: "NULL"}
	case db.Name() == sqliteName:
		return clause.Expr{SQL: "?", Vars: []any{int64(i)}}
	}
	return clause.Expr{SQL: "?", Vars: []any{i.Time()}}
}

// GormDataType names the kind of column.
func (Instant) GormDataType() string { return string(schema.Time) }

// Date is a UTC day in a row: days since 1970, a date in Postgres and an integer in
// SQLite.
type Date int32 //nolint:recvcheck // Scan alone changes it

const secondsPerDay = 24 * 60 * 60

// DateOf returns the UTC day of t.
func DateOf(t time.Time) Date {
	seconds := t.Unix()
	if seconds < 0 {
		seconds -= secondsPerDay - 1
	}
	return Date(seconds / secondsPerDay)
}

// Time returns the first moment of the day, in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// Scan reads the value that either database returns.
func (d *Date) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*d = Date(v)
	case time.Time:
		*d = DateOf(v)
	default:
		return fmt.Errorf("a day can't be read from %T", value)
	}
	return nil
}

// GormValue returns the day in the form that the database needs.
func (d Date) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	if db.Name() == sqliteName {
		return clause.Expr{SQL: "?", Vars: []any{int64(d)}}
	}
	return clause.Expr{SQL: "?", Vars: []any{d.Time()}}
}

// GormDataType names the kind of column.
func (Date) GormDataType() string { return string(schema.Time) }
