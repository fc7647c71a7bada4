package metering

import (
	"net/url"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/families/metering"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\u0007"
	at := new("2026-11-18T12:30:00.000Z")
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"slug": {"<script>"}, "document": {"<script>"}, "planKey": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{
		{Pointer: "/slug", Detail: hostile}, {Pointer: "/key", Detail: hostile}, {Pointer: "/document", Detail: hostile}, {Pointer: "/planKey", Detail: hostile}, {Pointer: "/x", Detail: hostile},
	}}
	refused := &console.Problem{Status: 403, Title: hostile, Scope: "metering:read"}
	l, tabs := place{hostile}, place{hostile}.tabs(place{hostile}.Path())
	options := []console.Option{{Value: "a", Label: console.Visible(hostile)}}
	used, nothing := int64(1200), int64(0)
	full := line{metering.Entitlement{Usage: &used, Overage: new(int64(200)), ResetAt: at}, hostile}
	features := []line{full, {metering.Entitlement{HasAccess: true, Balance: new(int64(10)), Usage: &nothing, ResetAt: at}, "b"}, {metering.Entitlement{HasAccess: true, Config: jsontext.Value(`{"x":"` + hostile + `"}`)}, "c"}, {Key: "d"}}
	of := &metering.Subscription{PlanID: hostile, PlanKey: hostile, PlanVersion: 2, Phase: hostile, AnchorAt: at, ActiveFrom: at}
	rates := []domain.RateCard{{Name: hostile, FeatureKey: hostile, BillingCadence: hostile, Entitlement: &domain.Entitlement{Type: "metered", IssueAfterReset: 1000, IsSoftLimit: true, UsagePeriod: hostile}}, {Name: "b", FeatureKey: "b", Entitlement: &domain.Entitlement{Type: "boolean"}}, {Name: "c"}}
	phases := []domain.Phase{{Key: hostile, Name: hostile, Duration: "P1M", RateCards: rates}, {Key: "b"}}
	version := func(status domain.PlanStatus) plan {
		return plan{metering.Plan{ID: hostile, Key: hostile, Version: 3, Name: hostile, Status: status, BillingCadence: "P1M", CreatedAt: at}}
	}
	text := hostile
	return map[string][]any{
		"buckets.html": {bucketsView{}, bucketsView{[]bucket{{buckets.Bucket{Name: hostile, Description: hostile}}, {buckets.Bucket{Name: "b"}}}, console.Paging{Newer: "/a", Older: "/b"}, true}},
		"meters.html": {
			metersView{Place: l, Form: empty, New: empty, NoFeatures: refused},
			metersView{l, tabs, []metering.Meter{{Slug: hostile, Name: hostile, Description: hostile, Aggregation: "SUM", EventType: hostile, GroupBy: map[string]string{hostile: hostile}, CreatedAt: at}}, []metering.Feature{{ID: hostile, Key: hostile, Name: hostile, MeterSlug: hostile, Filters: map[string]string{"a": hostile}, ArchivedAt: at, CreatedAt: at}, {Key: "b", CreatedAt: at}}, 5, nil, wrong, wrong, options, options, true},
		},
		"meter.html":     {meterView{Place: l, None: refused}, meterView{l, metering.Meter{Slug: hostile, Name: hostile, CreatedAt: at}, []metering.Value{{Value: 5, Subject: &text}, {Value: 6}}, 11, nil, true}},
		"plans.html":     {plansView{Place: l, Form: empty}, plansView{l, tabs, []plan{version("draft"), version("active")}, console.Paging{Newer: "/a"}, wrong, hostile, true}},
		"plan.html":      {planView{Place: l, Form: empty}, planView{l, version("draft"), phases, wrong, true}, planView{l, version("active"), phases, empty, true}, planView{l, version("archived"), phases, empty, false}},
		"consumers.html": {membersView{Place: l}, membersView{l, tabs, []member{{hostile, of, &full, 2}, {Name: "b"}, {Name: "c", Plan: of}}, 3, console.Paging{Older: "/b"}}},
		"consumer.html": {
			memberView{Place: l, Form: empty, Command: hostile},
			memberView{l, hostile, of, features, options, nil, wrong, "/console", hostile, true}, memberView{Place: l, Name: "b", Form: empty, NoPlans: refused, May: true},
		},
	}
}
