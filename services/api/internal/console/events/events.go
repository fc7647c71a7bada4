// Package events has the console's pages of events: the list, one event with its fan-out, the
// events of one shipment on one time axis, and publishing.
package events

import (
	"embed"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath     = "/console/events"
	onePath      = listPath + "/{eventId}"
	shipmentPath = "/console/shipments/{shipmentId}"
	publishPath  = "/console/publish"
	againPath    = "/console/deliveries/send-again"
	findPath     = "/console/find"
	pageSize     = "50"
)

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "events", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: listPath, Handle: list},
			{Method: http.MethodGet, Path: onePath, Handle: show},
			{Method: http.MethodGet, Path: shipmentPath, Handle: shipment},
			{Method: http.MethodGet, Path: publishPath, Static: true, Handle: compose},
			{Method: http.MethodPost, Path: publishPath, Handle: publish},
		},
		Find: acts,
		Nav:  []console.NavEntry{{Label: "Events", Path: listPath, Icon: "events", Order: console.OrderEvents, Key: "e", Scopes: []domain.Scope{domain.ScopeEventsRead}}},
	}
}

// event is an event as the API shows it.
type event struct{ deliverylog.Event }

// Came says how the event was published; empty: not known.
func (e event) Came() string {
	switch e.Source {
	case "rest":
		return "HTTP"
	case "nats":
		return "bus"
	}
	return e.Source
}

type eventPage = web.CursorPage[event]

type listView struct {
	Form       *console.Form
	Types      []console.Option
	Sources    []console.Option
	Filtered   bool
	Shipment   string // the shipment of the filter
	Rows       []row
	Known      bool // the results of the events are known
	Paging     console.Paging
	Empty      console.State
	MayPublish bool
	Find       bool
	Range      console.Range
}

type row struct {
	event

	Counts []count
	Some   bool // there may be more deliveries than were counted
}

// count is the number of an event's deliveries with a status.
type count struct {
	Status string
	N      int
}

// filters returns the parameters of the page that select events.
func filters() []string { return []string{"type", "shipmentId", "source", "since", "until"} }

func list(p *console.Page) error {
	if q := strings.TrimSpace(p.Query("q")); q != "" && p.Has(findPath) {
		return p.Redirect(findPath + "?" + url.Values{"q": {q}}.Encode())
	}
	query, form := p.Filters(filters()...)
	v := listView{
		Form: form, Range: p.Range(form, "since", "until"), Filtered: len(query) > 0, Shipment: query.Get("shipmentId"),
		MayPublish: p.May(domain.ScopeEventsWrite), Find: p.Has(findPath), Types: console.Choices("any", domain.WebhookTypes()...),
		Sources: []console.Option{{Value: "", Label: "any"}, {Value: "rest", Label: "HTTP"}, {Value: "nats", Label: "bus"}, {Value: "waybill", Label: "alerts"}},
	}
	call := url.Values{"limit": {pageSize}}
	maps.Copy(call, query)
	if cursor := p.Query("cursor"); cursor != "" {
		call.Set("cursor", cursor)
	}
	var page eventPage
	err := p.API.Get("/v1/events", call, &page)
	p.CLI(cli(query))
	invalid := v.Form.Failed(err)
	if err != nil && !invalid {
		return err
	}
	v.Paging, v.Empty = p.Paging(page.NextCursor), empty(query)
	for _, e := range page.Data {
		v.Rows = append(v.Rows, row{event: e})
	}
	if invalid {
		return p.ShowInvalid("list.html", "Events", v, v.Form)
	}
	v.count(p, query)
	return p.Show("list.html", "Events", v)
}

// maxCounted is how many deliveries are read to count the results of a page of events: one page of
// the API's.
const maxCounted = "1000"

// count sets the results of the events, from one page of the deliveries in their time.
func (v *listView) count(p *console.Page, query url.Values) {
	if len(v.Rows) == 0 {
		return
	}
	newest, err := time.Parse(time.RFC3339, v.Rows[0].ReceivedAt)
	if err != nil {
		return
	}
	call := url.Values{"since": {v.Rows[len(v.Rows)-1].ReceivedAt}, "until": {newest.Add(time.Millisecond).Format(time.RFC3339Nano)}, "limit": {maxCounted}}
	if kind := query.Get("type"); kind != "" {
		call.Set("eventType", kind)
	}
	if shipment := query.Get("shipmentId"); shipment != "" {
		call.Set("shipmentId", shipment)
	}
	var page deliverylog.Page
	if v.Known = p.API.Try("/v1/deliveries", call, &page) == nil; !v.Known {
		return
	}
	var last *string // events accepted at that time or earlier were not counted completely
	if page.NextCursor != nil && len(page.Data) > 0 {
		last = page.Data[len(page.Data)-1].CreatedAt
	}
	of := map[string][]deliveries.Delivery{}
	for _, d := range page.Data {
		of[d.EventID] = append(of[d.EventID], d)
	}
	for i := range v.Rows {
		v.Rows[i].Counts = counts(of[v.Rows[i].ID])
		v.Rows[i].Some = v.Rows[i].ReceivedAt <= web.Value(last)
	}
}

// counts says how many deliveries have each status, the worst first.
func counts(list []deliveries.Delivery) []count {
	var all []count
	for _, status := range worstFirst() {
		n := 0
		for _, d := range list {
			if d.Status == status {
				n++
			}
		}
		if n > 0 {
			all = append(all, count{string(status), n})
		}
	}
	return all
}

func worstFirst() []domain.Status {
	return []domain.Status{domain.StatusFailed, domain.StatusRetrying, domain.StatusHeld, domain.StatusPending, domain.StatusDelivered}
}

func empty(query url.Values) console.State {
	if len(query) > 0 {
		return console.State{Icon: "filter", Title: "No event matches", Text: "Nothing that is kept fits this filter. What is older than the retention is no longer kept.", Link: listPath, LinkLabel: "Clear the filter"}
	}
	return console.State{Icon: "events", Title: "No events yet", Text: "Whoever knows what happens to shipments publishes it, over HTTP or on the bus.", Command: "waybill trigger shipment.delivered"}
}

func cli(query url.Values) string {
	var command strings.Builder
	command.WriteString("events list")
	for _, f := range []struct{ name, flag string }{{"type", "type"}, {"shipmentId", "shipment"}, {"source", "source"}, {"since", "since"}, {"until", "until"}} {
		if value := query.Get(f.name); value != "" {
			command.WriteString(" --" + f.flag + " '" + strings.ReplaceAll(value, "'", `'\''`) + "'")
		}
	}
	return command.String()
}

// acts returns the actions that a search leads to here.
func acts(p *console.Page) []console.Hit {
	if !p.May(domain.ScopeEventsWrite) {
		return nil
	}
	return []console.Hit{{Label: "Publish an event", Path: publishPath, Icon: "plus", Act: true}}
}
