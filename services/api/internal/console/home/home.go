// Package home has the console's first page: how the account's deliveries do, what goes wrong, and
// the way to the first delivery.
package home

import (
	"cmp"
	"embed"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/deliveries"
	"waybill.dev/services/api/internal/expiring"
	"waybill.dev/services/api/internal/insight"
	"waybill.dev/services/api/internal/receivers"
	"waybill.dev/services/api/internal/sample"
	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

// Module returns the pages.
func Module() console.Module {
	templates, _ := fs.Sub(files, "templates") // the name is a constant
	return console.Module{
		Name: "home", Templates: templates,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: "/console", Handle: show},
			{Method: http.MethodGet, Path: "/console/find", Static: true, Handle: find},
			{Method: http.MethodPost, Path: "/console/sample", Handle: send},
		},
		Nav: []console.NavEntry{{Label: "Home", Path: "/console", Icon: "home", Order: console.OrderHome, Key: "h"}},
	}
}

// trouble is a webhook that fails.
type trouble struct {
	ID               domain.WebhookID
	Name             string
	Failed, Attempts int64
	Share            float64
	Line             console.Line
}

// figures are those of the last 24 hours.
type figures struct {
	Events, Attempts, Succeeded, Failed int64
	Rate                                *float64           // of attempts; nil: there were none
	Latency                             *receivers.Latency // of the last hour with attempts
}

type view struct {
	Account    string
	Figures    figures
	Bars       console.Bars
	NoFigures  *console.Problem // why there are none
	Troubles   []trouble
	Failed     []deliveries.Delivery
	NoFailed   *console.Problem
	Ends       int     // how many things end within 14 days
	FirstEnd   *string // of them
	First      bool    // nothing was delivered yet
	HasWebhook bool
	HasEvent   bool
	MayPublish bool
	MayMake    bool
	Types      []console.Option
	// Which of the pages of others there are.
	Deliveries, NewWebhook, Events bool
}

// few is how many of a list are shown here.
const few = 5

func show(p *console.Page) error {
	v := view{
		Account: p.Account(), MayPublish: p.May(domain.ScopeEventsWrite), MayMake: p.May(domain.ScopeWebhooksWrite),
		Deliveries: p.Has("/console/deliveries"), Events: p.Has("/console/events"), NewWebhook: p.Has("/console/webhooks/new"),
	}
	for _, t := range domain.EventTypes() {
		v.Types = append(v.Types, console.Option{Value: string(t), Label: string(t)})
	}
	var hours insight.Statistics
	if v.NoFigures = p.API.Try("/v1/statistics", url.Values{"step": {"hour"}}, &hours); v.NoFigures == nil {
		v.Figures, v.Bars = reckon(hours.Data, p.Now())
		p.CLI("statistics --step hour")
	}
	hooks, unknown := deliverylog.ReadWebhooks(p)
	if v.Figures.Failed > 0 {
		var each insight.Statistics
		if p.API.Try("/v1/statistics", url.Values{"step": {"hour"}, "by": {"webhook"}}, &each) == nil {
			v.Troubles = troubles(each.Data, hooks, p.Now())
		}
	}
	var failed deliverylog.Page
	if v.NoFailed = p.API.Try("/v1/deliveries", url.Values{"status": {"failed"}, "limit": {"5"}}, &failed); v.NoFailed == nil {
		v.Failed = failed.Data
	}
	v.HasWebhook = unknown == nil && len(hooks) > 0
	v.ends(p)
	v.first(p)
	return p.Show("home.html", "Home", v)
}

// ends finds out what ends soon. Where that can't be told, the page of problems says why.
func (v *view) ends(p *console.Page) {
	var soon expiring.List[expiring.Ending]
	if p.Has("/console/problems") && p.API.Try("/v1/expiring", nil, &soon) == nil && len(soon.Data) > 0 {
		v.Ends, v.FirstEnd = len(soon.Data), soon.Data[0].ExpiresAt
	}
}

// first finds out what is missing for the first delivery.
func (v *view) first(p *console.Page) {
	if v.Figures.Succeeded > 0 {
		v.HasEvent = true
		return
	}
	var delivered deliverylog.Page
	if p.API.Try("/v1/deliveries", url.Values{"status": {"delivered"}, "limit": {"1"}}, &delivered) != nil {
		return // it can't be told
	}
	if v.First = len(delivered.Data) == 0; !v.First {
		return
	}
	var events web.CursorPage[jsontext.Value]
	v.HasEvent = p.API.Try("/v1/events", url.Values{"limit": {"1"}}, &events) == nil && len(events.Data) > 0
}

// reckon sums up the last 24 hours, and fills in the hours in which there was nothing.
func reckon(rows []insight.Row, now time.Time) (figures, console.Bars) {
	var f figures
	latest := ""
	for i := range rows {
		r := &rows[i]
		f.Events += web.Value(r.Events)
		f.Attempts += r.Attempts
		f.Succeeded += r.Succeeded
		f.Failed += r.Failed
		if start := web.Value(r.Start); r.Attempts > 0 && start > latest {
			latest, f.Latency = start, r.LatencyMs
		}
	}
	if f.Attempts > 0 {
		rate := float64(f.Succeeded) / float64(f.Attempts)
		f.Rate = &rate
	}
	return f, deliverylog.Bars(rows, now)
}

// troubles returns the webhooks that failed most.
func troubles(rows []insight.Row, hooks deliverylog.Webhooks, now time.Time) []trouble {
	found := map[domain.WebhookID]*trouble{}
	for i := range rows {
		r := &rows[i]
		t := found[r.WebhookID]
		if t == nil {
			t = &trouble{ID: r.WebhookID, Name: hooks.Of(r.WebhookID).Name(), Line: console.Line{Label: "Failed attempts an hour, the last 24 hours", Values: make([]float64, deliverylog.Hours)}}
			found[r.WebhookID] = t
		}
		t.Failed += r.Failed
		t.Attempts += r.Attempts
		if hour, ok := deliverylog.Hour(r, now); ok {
			t.Line.Values[hour] += float64(r.Failed)
		}
	}
	var list []trouble
	for _, t := range found {
		if t.Failed > 0 {
			t.Share = float64(t.Failed) / float64(max(1, t.Attempts))
			list = append(list, *t)
		}
	}
	slices.SortFunc(list, func(a, b trouble) int { return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.ID, b.ID)) })
	return list[:min(few, len(list))]
}

// send publishes a sample event, as anybody can by POST /v1/events.
func send(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	kind := domain.EventType(form.Get("type"))
	if !kind.Valid() {
		kind = domain.ShipmentDelivered
	}
	now := p.Now().UTC()
	var accepted struct {
		Events []struct {
			ID string `json:"id"`
		} `json:"events"`
	}
	err = p.API.Send(http.MethodPost, "/v1/events", struct {
		Type      domain.EventType `json:"type"`
		Timestamp string           `json:"timestamp"`
		Data      jsontext.Value   `json:"data"`
	}{kind, now.Format("2006-01-02T15:04:05.000Z07:00"), sample.Data(kind, now)}, &accepted)
	if err != nil {
		return err
	}
	if len(accepted.Events) == 1 && p.Has("/console/events/{eventId}") {
		return p.Done("The sample is accepted.", console.Path("console", "events", accepted.Events[0].ID))
	}
	return p.Done("The sample is accepted.", "/console")
}

// find leads to what an id is of: an event, a delivery, a webhook, or else a shipment.
func find(p *console.Page) error {
	text := strings.TrimSpace(p.Query("q"))
	for _, kind := range []struct{ list, page string }{
		{"deliveries", "/console/deliveries/{deliveryId}"}, {"events", "/console/events/{eventId}"}, {"webhooks", "/console/webhooks/{webhookId}"},
	} {
		if text != "" && p.Has(kind.page) && p.API.Try(console.Path("v1", kind.list, text), nil, nil) == nil {
			return p.Redirect(console.Path("console", kind.list, text))
		}
	}
	if text != "" && p.Has("/console/shipments/{shipmentId}") {
		var of web.CursorPage[jsontext.Value]
		if p.API.Try("/v1/events", url.Values{"shipmentId": {text}, "limit": {"1"}}, &of) == nil && len(of.Data) > 0 {
			return p.Redirect(console.Path("console", "shipments", text))
		}
	}
	return p.Show("find.html", "Find", text)
}
