package metering

import (
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const (
		hostile = "<script>\u202e\u0007"
		at      = "2026-11-18T12:30:00.000Z"
	)
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"slug": {"<script>"}, "document": {"<script>"}, "planKey": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{
		{Pointer: "/slug", Detail: hostile}, {Pointer: "/key", Detail: hostile}, {Pointer: "/document", Detail: hostile}, {Pointer: "/planKey", Detail: hostile}, {Pointer: "/x", Detail: hostile},
	}}
	refused := &console.Problem{Status: 403, Title: hostile, Scope: "metering:read"}
	l, tabs := place{hostile}, place{hostile}.tabs(place{hostile}.Path())
	options := []console.Option{{Value: "a", Label: console.Visible(hostile)}}
	used, nothing := int64(1200), int64(0)
	full := line{hostile, access{Usage: &used, Overage: 200, ResetAt: at}}
	features := []line{full, {"b", access{HasAccess: true, Balance: 10, Usage: &nothing, ResetAt: at}}, {"c", access{HasAccess: true, Config: map[string]any{"x": hostile}}}, {"d", access{}}}
	of := &subscription{hostile, hostile, 2, hostile, at, at}
	rates := []card{{hostile, hostile, hostile, &entitlement{"metered", 1000, true, hostile}}, {"b", "b", "", &entitlement{Type: "boolean"}}, {Name: "c"}}
	version := func(status string) plan {
		return plan{hostile, hostile, 3, hostile, status, "P1M", []phase{{hostile, hostile, "P1M", rates}, {Key: "b"}}, at}
	}
	text := hostile
	return map[string][]any{
		"buckets.html": {bucketsView{}, bucketsView{[]bucket{{hostile, hostile}, {Name: "b"}}, console.Paging{Newer: "/a", Older: "/b"}, true}},
		"meters.html": {
			metersView{Place: l, Form: empty, New: empty, NoFeatures: refused},
			metersView{l, tabs, []meter{{hostile, hostile, hostile, hostile, "SUM", hostile, map[string]string{hostile: hostile}, at}}, []feature{{hostile, hostile, hostile, hostile, map[string]string{"a": hostile}, &text, at}, {Key: "b", CreatedAt: at}}, 5, nil, wrong, wrong, options, options, true},
		},
		"meter.html":     {meterView{Place: l, None: refused}, meterView{l, meter{Slug: hostile, Name: hostile, CreatedAt: at}, []use{{5, &text}, {6, nil}}, 11, nil, true}},
		"plans.html":     {plansView{Place: l, Form: empty}, plansView{l, tabs, []plan{version("draft"), version("active")}, console.Paging{Newer: "/a"}, wrong, hostile, true}},
		"plan.html":      {planView{Place: l, Form: empty}, planView{l, version("draft"), wrong, true}, planView{l, version("active"), empty, true}, planView{l, version("archived"), empty, false}},
		"consumers.html": {membersView{Place: l}, membersView{l, tabs, []member{{hostile, of, &full, 2}, {Name: "b"}, {Name: "c", Plan: of}}, 3, console.Paging{Older: "/b"}}},
		"consumer.html": {
			memberView{Place: l, Form: empty, Command: hostile},
			memberView{l, hostile, of, features, options, nil, wrong, "/console", hostile, true}, memberView{Place: l, Name: "b", Form: empty, NoPlans: refused, May: true},
		},
	}
}
