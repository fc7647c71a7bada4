// Package pipeline has the tables of an event's way that both services work on: webhooks
// and their health, events, outbox, requests, deliveries, attempts, idempotency keys, and
// the marks of the bus's streams. What dispatchers write into them, recorder writes.
package pipeline

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Pipeline reads and writes the tables.
type Pipeline struct {
	db      *store.Store
	audit   *auditlog.Log
	dialect dialect
	places  places
}

// dialect is where the statements on Postgres and SQLite differ.
type dialect interface {
	// insertEvents adds the events that are not repeats, with an outbox row each; c is nil where
	// that is a transaction of its own.
	insertEvents(ctx context.Context, c store.Conn, in intake) (intakeResult, error)
	markRelayed(ctx context.Context, c store.Conn, keys []domain.EventKey, at time.Time) error
	eventsTable(day time.Time) string
}

// New returns the tables of an open database.
func New(db *store.Store) *Pipeline {
	p := &Pipeline{db: db, audit: auditlog.New(db), dialect: postgres{db.Postgres()}}
	if statements := db.Statements(); statements != nil {
		statements.Add(sqliteBeforeEvents, store.SQLiteTakeXact, sqliteInsertOutbox, sqlTakePlaces, sqlSetPlace)
		p.dialect = sqlite{db: db, statements: statements}
	}
	return p
}
