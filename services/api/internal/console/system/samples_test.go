package system

import (
	"net/http"
	"testing"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/health"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/store"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(Options{}), samples())
}

// samples are data to try the templates with: empty, full and hostile, and with faults.
func samples() map[string][]any {
	const hostile = "<script>alert(1)</script>\u202e\x00 مرحبا"
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	down := systemView{NoDatabase: true, NotReady: &console.Problem{Status: http.StatusServiceUnavailable, Detail: hostile}, Streams: []stream{{Name: "EVENTS", Problem: true}}}
	c := audit.Entry{Action: hostile, Timestamp: web.Stamp(at)}
	return map[string][]any{
		"system.html": {systemView{}, down, systemView{
			Process: Process{hostile, at, []Setting{{"WAYBILL_DATA_DIR", hostile, "flag"}, {"WAYBILL_RETENTION", "", "default"}}}, Ready: true, Health: health.Health{Status: "ready", Store: "up", Bus: "no room", Missing: "stream EVENTS needs 64 MiB, and the NATS server has less left for streams"},
			Database: "Postgres", Ping: "1ms", Migrations: []store.Migration{{Version: 1, Name: hostile, Applied: true, AppliedAt: at}, {Version: 2, Name: "b"}},
			Leader: true, KnowsLeader: true, Unsettled: time.Minute, Dispatchers: []dispatcher{{"d-1", at, at, true}, {hostile, at, at, false}}, Live: 1,
			Streams: []stream{{"EVENTS", "events", 1000, "5 MiB", at, "fanout", 5, 3, false}, {Name: "HOLD"}}, Backlog: []backlog{{"events", 5}}, Changes: []audit.Entry{c, {Success: true}}, Memory: "5 MiB", Connections: 3, Now: at,
		}},
		"routes.html": {routesView{}, routesView{Known: true}, routesView{Known: true, Filtered: true, Match: "<b>", Files: []console.Option{{Label: "All"}}}, routesView{
			Known: true, Check: "waybill routes check", Deployment: "/console/deployments/local", State: RouteState{hostile, at, 2, nil, []RouteFault{{hostile, hostile, hostile, hostile}, {}}, at},
			Lines: []routeLine{{RouteLine{hostile, hostile, "GET", hostile, hostile, "tool", []string{hostile}, []string{"b"}}, 5000, 2, "≤ 8ms"}, {}},
		}},
	}
}
