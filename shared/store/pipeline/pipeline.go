// Package pipeline has the tables that both services use on an event's way: webhooks and their
// health, events, outbox, requests, deliveries, attempts, idempotency keys, and the marks of the
// bus's streams. Package recorder writes what dispatchers add to them.
package pipeline

import (
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Pipeline reads and writes the tables.
type Pipeline struct {
	db     *store.Store
	audit  *auditlog.Log
	places places
}

// New returns the tables of an open database.
func New(db *store.Store) *Pipeline {
	db.Prepare(sqliteBeforeEvents, store.SQLiteTakeXact, sqliteInsertOutbox, sqlTakePlaces, sqlSetPlace)
	return &Pipeline{db: db, audit: auditlog.New(db)}
}
