package deliveries

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/shared/domain"
)

// filters returns the filters of the API's list, by their names there, in the order of the form.
func filters() []string {
	return []string{"status", "webhookId", "eventType", "shipmentId", "eventId", "reason", "class", "statusCode", "test", "since", "until"}
}

// pageSize is how many deliveries a page has.
const pageSize = "50"

type listView struct {
	Form     *console.Form
	Webhooks []console.Option
	Types    []console.Option
	Classes  []console.Option
	Reasons  []console.Option
	Tests    []console.Option
	Tabs     []console.Tab
	Range    console.Range
	More     bool // the less common filters are shown
	Filtered bool
	Rows     []row
	Paging   console.Paging
	Empty    console.State
	Again    string // path to send all matching deliveries again
	MayRetry bool
	Jobs     bool // the page of jobs is available
	Find     bool
	Here     string
}

type row struct {
	deliveries.Delivery

	Webhook string
}

func list(p *console.Page) error {
	if q := strings.TrimSpace(p.Query("q")); q != "" && p.Has(findPath) {
		return p.Redirect(findPath + "?" + url.Values{"q": {q}}.Encode())
	}
	query, form := p.Filters(filters()...)
	v := listView{
		Form: form, Filtered: len(query) > 0, MayRetry: p.May(domain.ScopeEventsWrite),
		Jobs: p.Has(jobPath), Find: p.Has(findPath), Here: p.Request.URL.RequestURI(),
		Types: console.Choices("any", domain.WebhookTypes()...), Classes: classOptions(), Reasons: reasonOptions(),
		Tests: []console.Option{{Value: "", Label: "any"}, {Value: "true", Label: "tests only"}, {Value: "false", Label: "without tests"}},
	}
	v.Tabs, v.Range = statusTabs(query), p.Range(form, "since", "until")
	for _, name := range []string{"shipmentId", "eventId", "reason", "class", "statusCode", "test"} {
		v.More = v.More || query.Has(name)
	}
	v.Again = againPath + "?" + again(query).Encode()
	call := url.Values{"limit": {pageSize}}
	maps.Copy(call, query)
	if cursor := p.Query("cursor"); cursor != "" {
		call.Set("cursor", cursor)
	}
	var page deliverylog.Page
	err := p.API.Get("/v1/deliveries", call, &page)
	p.CLI(cli("deliveries list", query))
	invalid := v.Form.Failed(err)
	if err != nil && !invalid {
		return err
	}
	hooks, _ := deliverylog.ReadWebhooks(p)
	v.Webhooks = hooks.Options(query.Get("webhookId"))
	for _, d := range page.Data {
		v.Rows = append(v.Rows, row{d, hooks.Of(d.WebhookID).Name()})
	}
	v.Paging = p.Paging(page.NextCursor)
	v.Empty = empty(query)
	if invalid {
		return p.ShowInvalid("list.html", "Deliveries", v, v.Form)
	}
	return p.Show("list.html", "Deliveries", v)
}

func empty(query url.Values) console.State {
	if len(query) > 0 {
		return console.State{Icon: "filter", Title: "No delivery matches", Text: "Nothing in the log fits this filter. What is older than the retention is no longer kept.", Link: listPath, LinkLabel: "Clear the filter"}
	}
	return console.State{Icon: "deliveries", Title: "No deliveries yet", Text: "A delivery is an event on its way to a webhook. Publish one of a type that a webhook is registered for.", Command: "waybill trigger shipment.delivered"}
}

// without returns a query without some names.
func without(query url.Values, names ...string) url.Values {
	rest := url.Values{}
	for name, values := range query {
		if !slices.Contains(names, name) {
			rest[name] = values
		}
	}
	return rest
}

func statusTabs(query url.Values) []console.Tab {
	tabs := []console.Tab{tab(query, "status", "", "All")}
	for _, s := range []domain.Status{domain.StatusFailed, domain.StatusRetrying, domain.StatusHeld, domain.StatusPending, domain.StatusDelivered} {
		tabs = append(tabs, tab(query, "status", string(s), strings.ToUpper(string(s[:1]))+string(s[1:])))
	}
	return tabs
}

func tab(query url.Values, name, value, label string) console.Tab {
	to := without(query, name)
	if value != "" {
		to.Set(name, value)
	}
	path := listPath
	if len(to) > 0 {
		path += "?" + to.Encode()
	}
	return console.Tab{Label: label, Path: path, Current: query.Get(name) == value}
}

func classOptions() []console.Option {
	list := []console.Option{{Value: "", Label: "any"}}
	for _, c := range domain.Classes() {
		list = append(list, console.Option{Value: string(c), Label: words.Class(c)})
	}
	return list
}

func reasonOptions() []console.Option {
	list := []console.Option{{Value: "", Label: "any"}}
	for _, r := range domain.Reasons() {
		list = append(list, console.Option{Value: r, Label: words.Reason(r)})
	}
	return list
}

// cli writes a command with the filters that the command line has.
func cli(command string, query url.Values) string {
	var text strings.Builder
	text.WriteString(command)
	for _, f := range []struct{ name, flag string }{
		{"status", "status"}, {"webhookId", "webhook"}, {"eventId", "event"}, {"eventType", "type"}, {"shipmentId", "shipment"},
		{"reason", "reason"}, {"class", "class"}, {"statusCode", "code"}, {"test", "test"}, {"since", "since"}, {"until", "until"},
	} {
		if value := query.Get(f.name); value != "" {
			text.WriteString(" --" + f.flag + "=" + console.Shell(value))
		}
	}
	return text.String()
}
