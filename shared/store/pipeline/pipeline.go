// Package pipeline has the tables of an event's way that both services work on: webhooks
// and their health, events, outbox, requests, deliveries, attempts, idempotency keys, and
// the marks of the bus's streams. What dispatchers write into them, recorder writes.
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
