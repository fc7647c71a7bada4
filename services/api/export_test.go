package api

import (
	"net/http"

	"waybill.dev/services/api/internal/audit"
	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/live"
	"waybill.dev/shared/news"
)

// KeyHandler returns the handler of a process that makes and takes keys, and has neither
// publishers nor a relay.
func KeyHandler(o Options, keys *auth.Keys) http.Handler {
	o.complete()
	db := telling{newTables(o.Store), news.NewPublisher(o.Bus)}
	return handler(&o, &parts{db: db, streams: live.NewStreams(o.Bus, o.Logger), keys: keys, refusals: audit.NewRefusals(db, o.Logger)})
}
