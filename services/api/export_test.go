package api

import (
	"net/http"

	"waybill.dev/services/api/internal/audit"
	"waybill.dev/services/api/internal/auth"
)

// KeyHandler returns the handler of a process that makes and takes keys, and has neither
// publishers nor a relay.
func KeyHandler(o Options, keys *auth.Keys) http.Handler {
	o.complete()
	db := newTables(o.Store)
	return handler(&o, &parts{db: db, keys: keys, refusals: audit.NewRefusals(db, o.Logger)})
}
