// Package alerts has the console's page of alerts about failing webhooks and about hostnames that pass to another
// account, with the receivers of each alert and whether it arrived.
package alerts

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const root = "/console/alerts"

// order puts the page behind the problems.
const order = console.OrderProblems + 5

// Module returns the page.
func Module() console.Module {
	return console.Module{
		Name: "alerts", Templates: files,
		Routes: []console.Route{{Method: http.MethodGet, Path: root, Handle: list}},
		Nav:    []console.NavEntry{{Label: "Alerts", Path: root, Icon: "alerts", Order: order, Key: "l", Scopes: []domain.Scope{domain.ScopeEventsRead}}},
	}
}

// perPage is small: the API is called for the deliveries of each alert.
const perPage = 20

// alert is an alert as the API shows it.
type alert struct {
	ID   string           `json:"id"`
	Type domain.EventType `json:"type"`
	Time string           `json:"timestamp"`
	Data struct {
		WebhookID      string `json:"webhookId"`
		Host           string `json:"host"`
		Class          string `json:"class"`
		StatusCode     int    `json:"statusCode"`
		FailuresInARow int    `json:"failuresInARow"`
		Since          string `json:"since"`
		SampleAnswer   string `json:"sampleAnswer"`
		Reason         string `json:"reason"`
		DeliveryID     string `json:"deliveryId"`
		LeftOut        int    `json:"leftOut"`
		Hostname       string `json:"hostname"`
		NoticeUntil    string `json:"noticeUntil"`
	} `json:"data"`
	Deliveries []deliveries.Delivery `json:"deliveries"`
}

type row struct {
	alert

	Label, Tone string
	// Recovered is when the webhook of the alert recovered; empty: not on this page.
	Recovered string
	Receipts  []told
}

// told is the delivery of an alert, with the name of its webhook if the session may see it.
type told struct {
	deliveries.Delivery

	Name string
}

type view struct {
	Rows      []row
	Untold    []row // alerts that would have been sent if a webhook were registered for them
	Paging    console.Paging
	Later     bool // not the first page
	Form      *console.Form
	Range     console.Range
	Types     []console.Option
	Receivers deliverylog.Webhooks
	Known     bool // the session may see the receivers
	MayMake   bool
}

func list(p *console.Page) error {
	query, form := p.Filters("type", "since", "until")
	kind := query.Get("type")
	if cursor := p.Query("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	query.Set("source", string(domain.SourceWaybill))
	query.Set("limit", strconv.Itoa(perPage))
	var page web.CursorPage[alert]
	if err := p.API.Get("/v1/events", query, &page); err != nil {
		return err
	}
	v := view{Paging: p.Paging(page.NextCursor), Later: p.Query("cursor") != "", Form: form, Range: p.Range(form, "since", "until"), Types: console.Choices("any", domain.AlertTypes()...), MayMake: p.May(domain.ScopeWebhooksWrite)}
	hooks, unknown := deliverylog.ReadWebhooks(p)
	v.Known = unknown == nil
	for _, hook := range hooks {
		if slices.ContainsFunc(hook.Events, domain.EventType.Alert) {
			v.Receivers = append(v.Receivers, hook)
		}
	}
	if v.Known && len(v.Receivers) == 0 {
		v.Untold = untold(p, hooks, query)
	}
	recovered := map[string]string{} // by webhook; the newest come first
	for _, of := range page.Data {
		var a alert
		if err := p.API.Get(console.Path("v1", "events", of.ID), nil, &a); err != nil {
			return err
		}
		v.Rows = append(v.Rows, newRow(a, hooks, recovered))
	}
	if kind == "" {
		p.CLI("events list --source waybill")
	} else {
		p.CLI("events list --type " + kind)
	}
	return p.Show("list.html", "Alerts", v)
}

// untold returns the alerts that would have been made, the newest first, by the present state of webhooks, the newest
// failed deliveries, and the hours in which nothing arrived. filter has the type, since and until of GET /v1/events.
func untold(p *console.Page, hooks deliverylog.Webhooks, filter url.Values) []row {
	var list []row
	kind := domain.EventType(filter.Get("type"))
	since, _ := time.Parse(time.RFC3339, filter.Get("since"))
	until, _ := time.Parse(time.RFC3339, filter.Get("until"))
	add := func(t domain.EventType, of domain.WebhookID, at *string, fill func(*alert)) {
		if at == nil || kind != "" && kind != t {
			return
		}
		if from, err := time.Parse(time.RFC3339, *at); err != nil || from.Before(since) || !until.IsZero() && !from.Before(until) {
			return
		}
		a := alert{Type: t, Time: *at}
		a.Data.WebhookID, a.Data.Host = string(of), hooks.Of(of).Name()
		fill(&a)
		list = append(list, newRow(a, hooks, map[string]string{}))
	}
	var troubled []webhooks.Webhook
	// If this can't be read, its alerts are missing and the page does not mention them.
	_ = p.API.Try("/v1/webhooks", url.Values{"include": {"health"}, "troubled": {"true"}, "limit": {strconv.Itoa(perPage)}}, &troubled)
	for i := range troubled {
		w := &troubled[i]
		h := w.Health
		fails := func(a *alert) {
			a.Data.FailuresInARow = h.Circuit.FailuresInRow
			if h.Problem != nil {
				a.Data.Since, a.Data.Class = web.Value(h.Problem.Since), h.Problem.Cause
			}
		}
		switch {
		case h.Problem == nil:
		case h.State == receivers.Inactive:
			add(domain.WebhookDisabled, w.ID, h.Problem.Since, func(a *alert) { a.Data.Reason = h.Problem.Cause })
		case h.Circuit.FailuresInRow >= domain.FailingFrom:
			add(domain.WebhookFailing, w.ID, h.Problem.Since, fails)
			add(domain.WebhookCircuitOpened, w.ID, h.Circuit.Since, fails)
		}
	}
	var failed deliverylog.Page
	_ = p.API.Try("/v1/deliveries", url.Values{"status": {string(domain.StatusFailed)}, "reason": {domain.ReasonExhausted}}, &failed)
	seen := map[domain.WebhookID]bool{}
	for _, d := range failed.Data {
		if !seen[d.WebhookID] && !d.EventType.Alert() {
			seen[d.WebhookID] = true
			add(domain.DeliveryExhausted, d.WebhookID, d.UpdatedAt, func(a *alert) { a.Data.DeliveryID = string(d.ID) })
		}
	}
	for _, r := range recoveries(p) {
		add(domain.WebhookRecovered, r.of, &r.at, func(a *alert) { a.Data.Since, a.Data.FailuresInARow = r.since, r.failures })
	}
	slices.SortStableFunc(list, func(a, b row) int { return cmp.Compare(b.Time, a.Time) })
	return list[:min(len(list), perPage)]
}

// recovery is a webhook that failed for an hour at least, and then did not any more.
type recovery struct {
	of        domain.WebhookID
	since, at string // the beginnings of these hours
	failures  int
}

// recent is how far back recoveries are searched: the statistics of so many hours have enough rows for 250 webhooks.
const recent = 72 * time.Hour

// recoveries finds the webhooks that have recovered in the statistics by the hour: there is no other history of
// webhooks when no alerts are sent.
func recoveries(p *console.Page) []recovery {
	var hours insight.Statistics
	query := url.Values{"step": {"hour"}, "by": {"webhook"}, "since": {p.Now().UTC().Add(-recent).Truncate(time.Hour).Format(time.RFC3339)}}
	if p.API.Try("/v1/statistics", query, &hours) != nil {
		return nil
	}
	var list []recovery
	failing := map[domain.WebhookID]recovery{}
	for i := range hours.Data { // the oldest first
		r := &hours.Data[i]
		of := r.WebhookID
		spell, fails := failing[of]
		switch {
		case r.Succeeded > 0 && fails:
			delete(failing, of)
			spell.at = web.Value(r.Start)
			list = append(list, spell)
		case r.Succeeded == 0 && (fails || r.Failed >= domain.FailingFrom):
			if !fails {
				spell = recovery{of: of, since: web.Value(r.Start)}
			}
			spell.failures += int(r.Failed)
			failing[of] = spell
		}
	}
	return list
}

// newRow makes the row of an alert from the webhooks and the times of their later recoveries.
func newRow(a alert, hooks deliverylog.Webhooks, recovered map[string]string) row {
	r := row{alert: a}
	switch a.Type {
	case domain.WebhookFailing:
		r.Label, r.Tone, r.Recovered = "failing", "failing", recovered[a.Data.WebhookID]
	case domain.WebhookRecovered:
		r.Label, r.Tone = "recovered", "healthy"
		recovered[a.Data.WebhookID] = a.Time
	case domain.WebhookCircuitOpened:
		r.Label, r.Tone, r.Recovered = "circuit opened", "circuitopen", recovered[a.Data.WebhookID]
	case domain.WebhookDisabled:
		r.Label, r.Tone = "disabled", "inactive"
	case domain.DomainContested:
		r.Label, r.Tone = "contested", "failing"
	case domain.DomainMoved:
		r.Label, r.Tone = "moved", "inactive"
	default:
		r.Label, r.Tone = "exhausted", "exhausted"
	}
	for _, d := range a.Deliveries {
		r.Receipts = append(r.Receipts, told{d, hooks.Of(d.WebhookID).Name()})
	}
	return r
}
