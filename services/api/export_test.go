package api

import (
	"net/http"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/system"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/shared/news"
)

// KeyHandler returns the handler of a process that makes and takes keys, and has neither
// publishers nor a relay.
func KeyHandler(o Options, keys *auth.Keys) http.Handler {
	o.complete()
	db := newTables(o.Store)
	p := &parts{db: db, news: news.NewPublisher(o.Bus), streams: live.NewStreams(o.Bus, o.Logger), keys: keys, refusals: audit.NewRefusals(db, o.Logger)}
	return handler(&o, p, families(&o, p))
}

// Observe has f told of every page of the console that was answered.
func (o *Options) Observe(f func(route console.Route, calls []console.Call)) { o.observe = f }

// ConsoleModules returns the groups of the console's pages.
func ConsoleModules() []console.Module { return modules(system.Options{}) }

// Pages adds a group of pages to the console.
func (o *Options) Pages(m console.Module) { o.pages = append(o.pages, m) }
