package webhooks

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/feed"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/jobs"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/signingkeys"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/receiverauth"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

const hostile = "<script>alert(1)</script>\u202e\u0007 שלום"

// samples are data to try the templates with.
func samples() map[string][]any {
	now := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	text, rate, p95, gone, mtls := "2026-11-18T15:02:11.000Z", 0.9995, 80.5, domain.DisabledGone, receiverauth.MTLS
	w := webhook{Webhook: webhooks.Webhook{
		ID: "0198e5d0-1111-7222-8333-444455556666", URL: new("https://x.example/" + hostile + strings.Repeat("long", 60)), Events: domain.EventTypes(), DisabledReason: &gone,
		Fault: "secret can't be read", Description: hostile, HeaderNames: []string{"X-" + hostile}, RetryScheduleSeconds: []float64{5, 300, 7200, 1.5},
		TimeoutSeconds: 15, MaxInFlight: 32, RatePerSecond: &rate, Signing: "both", Ordering: "shipment", OrderingMaxWait: 3600, AuthType: &mtls, AuthCertificate: &webhooks.Certificate{Subject: hostile, ExpiresAt: &text}, CreatedAt: &text, UpdatedAt: &text,
	}}
	full := receivers.Window{Attempts: 2000, Succeeded: 1999, Failed: 1, SuccessRate: &rate, LatencyMs: &receivers.Latency{P50: p95, P95: p95, P99: p95}, Classes: map[domain.Class]int64{"ok": 1999, "timeout": 1}}
	h := receivers.Health{
		State: "circuitOpen", Circuit: receivers.Circuit{Open: true, Since: &text, FailuresInRow: 27, NextProbeAt: &text}, Windows: map[string]receivers.Window{"1h": {}, "24h": full, "7d": full}, Waiting: 12_000, Held: 3, Scheduled: 4,
		LastSuccessAt: &text, LastFailureAt: &text, InactiveFrom: &text, Answers: []receivers.Answer{{At: &text, StatusCode: 500, Class: "http_5xx", Body: hostile}, {Class: "timeout"}},
	}
	w.Health = &h
	mine := head{Webhook: w, Name: w.short(), State: w.state(), Auth: w.auth(), MayWrite: true, MaySend: true}
	mine.tabs(string(w.ID), "health")
	seen := head{Webhook: webhook{Webhook: webhooks.Webhook{ID: w.ID, Active: true}}, State: state{"active", "active"}}
	done := healthView{head: mine, Health: h, Bars: deliverylog.Bars([]insight.Row{{Start: web.Stamp(now), Succeeded: 3, Failed: 1}}, now)}
	done.arrange()
	missing := &console.Problem{Status: http.StatusNotFound, NoOperation: true}
	forbidden := &console.Problem{Status: http.StatusForbidden, Scope: "events:read"}
	wrong := console.NewForm(url.Values{"url": {hostile}, "description": {hostile}, "headers": {"X-A: <b>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: "Invalid input", Detail: hostile, Faults: []console.Fault{{Pointer: "/url", Detail: hostile}, {Pointer: "/events", Detail: "x"}, {Pointer: "/other", Detail: "x"}}}
	d := deliveries.Delivery{ID: "02Qk7xT3mVb9LwR1nYc5Zd", EventID: "evt_1", EventType: hostile, Status: "retrying", AttemptCount: 1, NextAttemptAt: &text, Reason: new(hostile), Test: true, CreatedAt: &text, UpdatedAt: &text}
	sent := &deliveries.Detail{Delivery: d, Attempts: []deliveries.Attempt{{Number: 1, StartedAt: &text, Status: 500, ResponseBody: hostile}, {Number: 2, StartedAt: &text, Error: "timeout " + hostile}, {Number: 3, StartedAt: &text, Status: 204}}}
	form := console.NewForm(url.Values{"description": {hostile}})
	k := signingkeys.Key{ID: string(w.ID), Algorithm: "Ed25519", PublicKey: "whpk_" + hostile, CreatedAt: &text}
	ending := k
	ending.ExpiresAt = &text
	paging := console.Paging{Newer: "/console/webhooks", Older: "/console/webhooks?offset=25"}
	r := row{Webhook: w, Name: w.Description, Address: w.bare(), Types: types(w.Events), State: w.state(), Hour: full, Line: console.Line{Label: "x", Values: make([]float64, deliverylog.Hours)}, Waiting: 4, Answer: "500", MaySend: true}
	return map[string][]any{
		"list.html":       {listView{None: true}, listView{None: true, MayMake: true}, listView{}, listView{Rows: []row{r, {Webhook: seen.Webhook}}, Total: 60, Paging: paging, MayMake: true}, listView{Rows: []row{{Webhook: w}}, Total: 1}},
		"health.html":     {&healthView{head: seen, NoHealth: missing, NoBars: forbidden}, &healthView{head: seen}, &done},
		"deliveries.html": {deliveriesView{head: seen, Form: form, None: forbidden}, deliveriesView{head: seen, Form: form}, deliveriesView{head: mine, Form: wrong, Filtered: true}, deliveriesView{head: mine, Form: form, Deliveries: []deliveries.Delivery{d, {}}, Paging: paging, OneDelive: true, All: "/console/deliveries"}},
		"settings.html":   {settingsView{head: seen, Form: form, Types: choices(nil)}, settingsView{head: mine, Form: wrong, Types: choices(domain.EventTypes()), Dropped: true, Trial: &webhooks.Trial{Matched: 1, Missed: 2, Samples: []webhooks.Sample{{EventID: "evt_1", Type: hostile, ReceivedAt: &text, Clause: hostile}, {Matched: true, ReceivedAt: &text}}}}},
		"secret.html":     {secretView{head: seen, Form: form, Overlaps: overlaps()}, secretView{head: mine, Form: wrong, Overlaps: overlaps(), Until: &text, Test: &d}, secretView{head: seen, Form: form, Until: &text}},
		"once.html":       {onceView{Webhook: w, Name: w.short(), Secret: "whsec_x", Stored: "/console/webhooks"}, onceView{Webhook: w, Name: w.short(), New: true, Secret: "whsec_x", Stored: "/console/webhooks", Snippets: snippets(), Public: publicSnippets(), MaySend: true, Types: typeOptions(nil)}, onceView{Webhook: w, Name: w.short(), Secret: "whsec_x", Stored: "/x", Until: &text}},
		"keys.html":       {keysView{Form: form}, keysView{Form: form, Keys: signingkeys.Keys{Data: []signingkeys.Key{k, ending}, JWKSURL: hostile}, Overlaps: overlaps(), MayRotate: true}},
		"feed.html":       {feedView{head: seen, NoCursors: forbidden}, feedView{head: seen, Curl: hostile, Read: hostile, Keep: hostile, Reconcile: hostile}, feedView{head: mine, Cursors: []feed.Cursor{{Name: hostile, Cursor: hostile, UpdatedAt: &text}}}},
		"test.html":       {testView{Form: console.NewForm(nil), head: seen, NoRecent: forbidden, None: missing}, testView{Form: console.NewForm(nil), head: mine, Types: typeOptions(nil), Tests: []sentTest{{Detail: *sent, Waits: true}, {Detail: *sent, Forge: domain.ForgeOldTime}}, Checks: []judge.Finding{judge.Warn(hostile, "x", "x"), judge.Bad("x", "x", ""), judge.Good("x", "x")}, Recent: []deliveries.Delivery{d}, OneDelive: true}, testView{Form: console.NewForm(nil), head: mine}},
		"code.html":       {codeView{head: seen}, codeView{head: mine, Curl: hostile, CLI: hostile, MCP: `{"a":1}`, Snippets: snippets(), Public: publicSnippets()}},
		"new.html":        {newView{Step: 1, Form: form}, newView{Step: 1, Form: wrong, MayMake: true}, newView{Step: 2, Form: wrong, MayMake: true, Types: []choice{{"shipment.created", true, true, 214}}, Key: "k"}, newView{Step: 2, Form: form, MayMake: true, Types: choices(nil)}, newView{Step: 2, Form: wrong, MayMake: true, Pull: true, Types: choices(nil)}},
		"replay.html": {replayView{head: seen, Form: form}, replayView{head: mine, Form: wrong, Ranges: ranges(), Statuses: replayStatuses(), Chosen: &span{text, text, "all"}, Plan: &deliverylog.Plan{Plan: jobs.Plan{Matched: 1200, Oldest: &text, AlreadyDelivered: 7, EstimatedSeconds: 900}}, Command: "webhooks replay"},
			replayView{head: mine, Form: form, Chosen: &span{text, text, "failed"}, Plan: &deliverylog.Plan{}}},
	}
}
